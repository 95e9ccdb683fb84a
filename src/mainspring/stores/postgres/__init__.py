"""The PostgreSQL store: jobs in one database that any number of machines share.

handle.py is the base of all verbs: how they call the server, and wake waiters. Each verb of the Store protocol is a
method in the file that has its statements (`enqueue` in enqueue.py, `jobs` in lists.py); the longest statements are in
a .sql file beside it, which statement_file.py reads. store.py composes these classes, opens and closes. tables.sql is
the schema and its migrations, pool.py holds the connections. connector.py detects a pooler, stalled.py finds statements
whose answer was lost. notifier.py and listener.py wake other processes by NOTIFY and LISTEN. within.py and
transaction.py work in the transaction of a caller or of a task. partitions.py and partition_pruning.py keep the history
in one table per day, which is dropped whole.
"""
