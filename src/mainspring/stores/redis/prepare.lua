-- Keeps what steps over several homes want of this one, and locks the fields of each, if its conditions hold. Answers
-- for each: 1, 0, or the step that has locked one of its fields. ARGV: our own lock, or nothing; the units, of which
-- the first word is the step.
local now = redis.call('TIME')[1]
return units(2, function(at, last)
  local step, words = ARGV[at], {}
  local other = held(ARGV, at + 1, ARGV[1])
  if other then return other end
  if stale(ARGV, at + 1) then return 0 end
  for n = at + 1, last - 1 do words[#words + 1] = ARGV[n] end
  fields(words, 1, function(key, field) redis.call('HSET', base .. 'lock', key .. '\0' .. field, step) end)
  redis.call('HSET', base .. 'promise', step, cmsgpack.pack(words))
  redis.call('ZADD', base .. 'promised', now, step)
  return 1
end)
