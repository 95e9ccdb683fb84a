-- First phase of a two-phase commit: stores this shard's share of each transaction and locks the fields of its
-- conditions, if they hold.
-- ARGV: the lock that the caller holds, or ''; the units, each with the transaction's id as its first word.
-- Returns for each 1 if it was prepared, 0 if a condition does not hold, or the transaction that locks a field.
local now = redis.call('TIME')[1]
return units(2, function(at, last)
  local transaction, words = ARGV[at], {}
  local other = locked_by(ARGV, at + 1, ARGV[1])
  if other then return other end
  if stale(ARGV, at + 1) then return 0 end
  for n = at + 1, last - 1 do words[#words + 1] = ARGV[n] end
  fields(words, 1, function(key, field) redis.call('HSET', base .. 'lock', key .. '\0' .. field, transaction) end)
  redis.call('HSET', base .. 'promise', transaction, cmsgpack.pack(words))
  redis.call('ZADD', base .. 'promised', now, transaction)
  return 1
end)
