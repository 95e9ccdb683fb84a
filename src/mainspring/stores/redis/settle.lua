-- The end of a step over several homes. ARGV: the step, and
-- "begin", its homes: it is written if its promise is still there, and so it is decided: 1, or 0;
-- "write", "drop": does here what was decided there;
-- "ask", seconds: "write" if it was decided, "wait" if it is not older, else "drop", and it will never be.
-- "done": everybody knows.
local step, what = ARGV[1], ARGV[2]
local text = redis.call('HGET', base .. 'promise', step)

local function free(write)
  if not text then return 0 end
  local words = cmsgpack.unpack(text)
  fields(words, 1, function(key, field) redis.call('HDEL', base .. 'lock', key .. '\0' .. field) end)
  redis.call('HDEL', base .. 'promise', step)
  redis.call('ZREM', base .. 'promised', step)
  if write then run(words, 1) end
  return 1
end

if what == 'begin' then
  if text then redis.call('HSET', base .. 'decided', step, ARGV[3]) end
  return free(true)
elseif what == 'write' then
  return free(true)
elseif what == 'drop' then
  return free(false)
elseif what == 'done' then
  return redis.call('HDEL', base .. 'decided', step)
end
if redis.call('HEXISTS', base .. 'decided', step) == 1 then return 'write' end
if text and redis.call('TIME')[1] - redis.call('ZSCORE', base .. 'promised', step) <= tonumber(ARGV[3]) then
  return 'wait'
end
free(false)
return 'drop'
