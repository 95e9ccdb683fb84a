"""The PostgreSQL store: jobs in one database that any number of machines share.

store.py has a method for each verb of the Store protocol; the statements of a verb are in the file named after it, the
longest in a .sql file beside it, which statement_file.py reads. tables.sql is the schema and its migrations, pool.py
holds the connections. connector.py detects a pooler, stalled.py finds statements whose answer was lost.
notifier.py and listener.py wake other processes by NOTIFY and LISTEN. within.py and transaction.py work in the
transaction of a caller or of a task. partitions.py and partition_pruning.py keep the history in one table per day,
which is dropped whole.
"""
