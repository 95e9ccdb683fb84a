-- Gives the keys of a limited group their turns again, some at a time: their limit was changed.
-- KEYS[1] is the base of the shard.
-- ARGV: the group; the bound from which to go on ('-' at first); how many keys at most.
-- Returns the bound from which to go on; '' after the last key.
local ready, low = KEYS[1] .. ':ready:' .. ARGV[1], ARGV[2]
for _ = 1, tonumber(ARGV[3]) do
  local member = redis.call('ZRANGEBYLEX', ready, low, '+', 'LIMIT', 0, 1)[1]
  if not member then return '' end
  local key = key_in(member)
  redis.call('ZREM', KEYS[1] .. ':rates:' .. ARGV[1], key)
  end_wait(ARGV[1], key)
  local _, last = key_range(key)
  low = last
end
return low
