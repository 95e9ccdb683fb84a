"""The store in Redis or Valkey: store.py has a method for each verb, *.lua what must run atomically.

Keys are spread over shards (shard.py): one on a single server, several in a cluster. connector.py finds the server that
has a shard now, server.py sends commands to it over a connection (connection.py).

For speed plain jobs have their own scripts: enqueue.lua, claim.lua, finish.lua; plain schedules have plain.py. Every
other verb is an optimistic transaction (transact.py): it names what it reads (reads.py), which is read into a snapshot
(snapshot.py); the memory store's rules run on it (tables.py); the changes (diff.py) are written if everything that they
depend on is unchanged (two_phase.py). records.py encodes a job, index.py says in which sets its id is.
"""
