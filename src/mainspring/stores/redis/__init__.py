"""Jobs in Redis or Valkey: store.py has a method for each verb, *.lua what must be one step.

A store lies in homes (home.py), one on a server and several in a cluster; route.py knows which server has a home now,
server.py asks it, over a line (line.py). The way of a plain job has scripts of its own: enqueue.lua, claim.lua,
finish.lua; that of plain schedules is plain.py. Every other verb is a transaction (transact.py): it names its read set
(reads.py), which is read into a snapshot (snapshot.py), on which the memory store's rules run (tables.py); what they
changed (diff.py) is written if what decided it is still so (step.py). records.py says how a job is kept, index.py where
it can be found.
"""
