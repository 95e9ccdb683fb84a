-- Adds one due job without keys, tags, schedule or expiry, as enqueue.lua does. A job whose id exists is left as it is.
-- KEYS[1] is the base of the shard.
-- ARGV: the topic to publish; the id; the record; the name of its group; its entry in `ready`.
local base, id, name = KEYS[1] .. ':', ARGV[2], ARGV[4]
local call = redis.call
-- One call tells whether there is any of two keys that stores rarely have.
local rare = call('EXISTS', base .. 'moved', base .. 'heads') > 0
if rare and call('HEXISTS', base .. 'moved', id) == 1 then return 1 end
if call('HSETNX', base .. 'job', id, ARGV[3]) == 0 then return 1 end
call('ZADD', base .. 'made:' .. name, '0', id)
call('SADD', base .. 'groups', name)
call('ZADD', base .. 'ready:' .. name, '0', ARGV[5])
call('SADD', base .. 'stocked', name)
if rare and has_heads() then update_heads({ name }) end
call('PUBLISH', KEYS[1], ARGV[1])
return 1
