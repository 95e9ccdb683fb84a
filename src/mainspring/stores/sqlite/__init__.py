"""Jobs in a file: store.py has a method for each verb, tables.sql what is kept, lane.py the thread that writes.

A verb's statements are in the file named after it; file.py opens and steps the schema; inotify.py and turnstile.py are
for the other processes on the same file.
"""
