-- Keeps what a step over several homes wants of this one, if all that it has read here is still so: 1, or 0.
-- From then on nobody else changes those fields. ARGV: the step; words, as share.lua has them.
local other = held(ARGV, 2)
if other then return other end
if stale(ARGV, 2) then return 0 end
local step, words = ARGV[1], {}
for n = 2, #ARGV do words[n - 1] = ARGV[n] end
fields(ARGV, 2, function(key, field) redis.call('HSET', base .. 'lock', key .. '\0' .. field, step) end)
redis.call('HSET', base .. 'promise', step, cmsgpack.pack(words))
redis.call('ZADD', base .. 'promised', redis.call('TIME')[1], step)
return 1
