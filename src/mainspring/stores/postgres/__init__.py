"""Jobs in a database: store.py has a method for each verb, tables.sql what is kept, pool.py the connections.

A verb's statements are in the file named after it. Between server and us are route.py (is there a pooler?) and doubt.py
(was an answer lost?); between processes wire.py (who speaks) and ear.py (who hears); beside our transactions are those
of others, in within.py and transaction.py. days.py and forget.py keep the history in parts that go whole.
"""
