-- Locks the fields of a unit for a writer that has lost too many races. The lock is a prepared transaction that is
-- never decided, and ends as such.
-- ARGV: the transaction's id; a unit without commands.
-- Returns 1, or the transaction that locks one of the fields already.
local other = locked_by(ARGV, 2, '')
if other then return other end
local words = {}
for n = 2, #ARGV do words[#words + 1] = ARGV[n] end
fields(words, 1, function(key, field) redis.call('HSET', base .. 'lock', key .. '\0' .. field, ARGV[1]) end)
redis.call('HSET', base .. 'promise', ARGV[1], cmsgpack.pack(words))
redis.call('ZADD', base .. 'promised', redis.call('TIME')[1], ARGV[1])
return 1
