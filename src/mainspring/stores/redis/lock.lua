-- Locks fields for an owner that has lost too many races: 1, or the step that has locked one of them. It ends as any
-- step does that is never decided. ARGV: the step; a unit without commands.
local other = held(ARGV, 2, '')
if other then return other end
local words = {}
for n = 2, #ARGV do words[#words + 1] = ARGV[n] end
fields(words, 1, function(key, field) redis.call('HSET', base .. 'lock', key .. '\0' .. field, ARGV[1]) end)
redis.call('HSET', base .. 'promise', ARGV[1], cmsgpack.pack(words))
redis.call('ZADD', base .. 'promised', redis.call('TIME')[1], ARGV[1])
return 1
