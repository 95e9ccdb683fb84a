-- The end of steps over several homes. ARGV: what to do, and
-- "begin": pairs of a step and its homes. Each is written if its promise is still there, and so it is decided: 1, or 0;
-- "begin all": the same, but all of them or none: 1, or 0. What they wait to write here is left to "write";
-- "keep": steps whose owner is still at it;
-- "write", "drop": steps, for which it does here what was decided there;
-- "ask": seconds and a step. "write" if it was decided, "wait" if it is not older, else "drop", and it will never be.
-- "done": steps that are written everywhere.
local stirred = {}

local function free(step, write)
  local text = redis.call('HGET', base .. 'promise', step)
  if not text then return 0 end
  local words = cmsgpack.unpack(text)
  fields(words, 1, function(key, field)
    local name = key .. '\0' .. field
    if redis.call('HGET', base .. 'lock', name) == step then redis.call('HDEL', base .. 'lock', name) end
  end)
  redis.call('HDEL', base .. 'promise', step)
  redis.call('ZREM', base .. 'promised', step)
  if write then run(words, 1, #words + 1, stirred) end
  return 1
end

local what, answers = ARGV[1], {}
if what == 'ask' then
  local seconds, step = tonumber(ARGV[2]), ARGV[3]
  if redis.call('HEXISTS', base .. 'decided', step) == 1 then return 'write' end
  local since = redis.call('ZSCORE', base .. 'promised', step)
  if since and redis.call('TIME')[1] - since <= seconds then return 'wait' end
  free(step, false)
  return 'drop'
elseif what == 'begin' then
  for n = 2, #ARGV, 2 do
    answers[n / 2] = free(ARGV[n], true)
    if answers[n / 2] == 1 then redis.call('HSET', base .. 'decided', ARGV[n], ARGV[n + 1]) end
  end
elseif what == 'begin all' then
  for n = 2, #ARGV, 2 do
    if redis.call('HEXISTS', base .. 'promise', ARGV[n]) == 0 then return 0 end
  end
  for n = 2, #ARGV, 2 do redis.call('HSET', base .. 'decided', ARGV[n], ARGV[n + 1]) end
  return 1
elseif what == 'keep' then
  for n = 2, #ARGV do
    if redis.call('HEXISTS', base .. 'promise', ARGV[n]) == 1 then
      redis.call('ZADD', base .. 'promised', redis.call('TIME')[1], ARGV[n])
    end
  end
elseif what == 'done' then
  for n = 2, #ARGV do redis.call('HDEL', base .. 'decided', ARGV[n]) end
else
  for n = 2, #ARGV do answers[n - 1] = free(ARGV[n], what == 'write') end
end
mend_all(stirred)
return answers
