"""The SQLite store: jobs in one file that several processes share.

store.py has a method for each verb of the Store protocol; the statements of a verb are in the file named after it.
tables.sql is the schema and its migrations, file.py opens the file and migrates it. writer_thread.py runs the verbs,
many to a commit. commit_watch.py, inotify.py and fair_lock.py are for the other processes on the same file.
"""
