"""The SQLite store: jobs in one file that several processes share.

Each verb of the Store protocol is a method of a class, in the file that has its statements. store.py composes these
classes and opens, closes and migrates the store; handle.py has the connections and the calls that they share.
tables.sql is the schema and its migrations, file.py opens the file and migrates it. writer_thread.py runs the verbs,
many to a commit. commit_watch.py, inotify.py and fair_lock.py are for the other processes on the same file.
"""
