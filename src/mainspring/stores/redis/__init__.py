"""The store in Redis or Valkey: each verb is in the file that has its commands, *.lua has what must run atomically.

Each such file has one class with its verbs (RedisEnqueue, RedisClaim, …). They share a base class (handle.py), and
store.py joins them to the store that is opened and closed.

Keys are spread over shards (shard.py): one on a single server, several in a cluster. connector.py finds the server that
has a shard now, server.py sends commands to it over a connection (connection.py).

For speed plain jobs have their own scripts: enqueue.lua, claim.lua, finish.lua, …; plain schedules have plain.py. Every
other write is an optimistic transaction (transact.py): it names what it reads (reads.py), which is read into a snapshot
(snapshot.py); a rule of stores/rules/ runs on it; the changes (diff.py) are written if everything that they depend on
is unchanged (two_phase.py). records.py encodes a job, index.py says in which sets its id is.
"""
