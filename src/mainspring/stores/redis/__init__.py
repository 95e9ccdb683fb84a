"""Jobs in Redis or Valkey: store.py has a method for each verb, *.lua what must be one step.

A store lies in homes (home.py), one on a server and several in a cluster; route.py knows which server has a home now,
server.py asks it, over a line (line.py). The way of a plain job has scripts of its own: enqueue.lua, claim.lua,
finish.lua. Every other verb is played by the memory store's own functions (play.py) on a part of the data (part.py)
that is read as they ask for it (known.py), and what they changed (changes.py) is one step (step.py), written if nothing
of that has changed meanwhile. records.py says how a job is kept, index.py where it can be found.
"""
