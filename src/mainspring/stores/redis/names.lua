-- Makes the index of schedules by name match the schedules.
-- ARGV: the names to check.
-- Returns their number.
local base = KEYS[1] .. ':'
for n = 1, #ARGV do
  if redis.call('HEXISTS', base .. 'schedule', ARGV[n]) == 1 then
    redis.call('ZADD', base .. 'schedules', 0, ARGV[n])
  else
    redis.call('ZREM', base .. 'schedules', ARGV[n])
  end
end
return #ARGV
