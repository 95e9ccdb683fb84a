-- Writes what a verb has decided, if everything that it has read is still so.
-- ARGV: how many fields were read; for each its hash, the field, "=" and the value or "-" and "";
-- then for each command how many words it has, and the words.
local base = KEYS[1] .. ':'

local function mend(group)
  if redis.call('EXISTS', base .. 'ready:' .. group) == 1 then
    redis.call('SADD', base .. 'stocked', group)
  else
    redis.call('SREM', base .. 'stocked', group)
  end
  local first = redis.call('ZRANGE', base .. 'later:' .. group, 0, 0, 'WITHSCORES')
  if first[2] then
    redis.call('ZADD', base .. 'next', first[2], group)
  else
    redis.call('ZREM', base .. 'next', group)
  end
end

local at = 2
for _ = 1, tonumber(ARGV[1]) do
  local found = redis.call('HGET', ARGV[at], ARGV[at + 1])
  if ARGV[at + 2] == '-' then
    if found then return 0 end
  elseif found ~= ARGV[at + 3] then
    return 0
  end
  at = at + 4
end
while ARGV[at] do
  local count = tonumber(ARGV[at])
  if ARGV[at + 1] == 'GROUP' then
    mend(ARGV[at + 2])
  else
    redis.call(unpack(ARGV, at + 1, at + count))
  end
  at = at + count + 1
end
return 1
