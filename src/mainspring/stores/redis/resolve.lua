-- Second phase of a two-phase commit: decides, writes and drops prepared transactions.
-- ARGV: the action, and its arguments:
-- "begin": pairs of a transaction and the bases of its shards, in the leader. Decides each transaction that is still
--   prepared here, and writes its share. Returns 1 or 0 for each;
-- "begin all": the same pairs. Decides all of them, or none if one is not prepared any more. Their shares here are left
--   to "write". Returns 1 or 0;
-- "keep": transactions whose owner is still at work: their age starts again;
-- "write", "drop": transactions whose shares are written, or dropped, as the leader decided. Returns 1 for each that
--   was still prepared here, else 0;
-- "ask": seconds and a transaction, in the leader. Returns "write" if it was decided, "wait" if it is not older than
--   that, else "drop", and it can no longer be decided;
-- "done": transactions that are written in all shards: their decisions are removed.
local changed = {}

-- Removes a prepared share and its locks, and runs its commands if `write`. Returns 0 if there is none.
local function release(transaction, write)
  local text = redis.call('HGET', base .. 'promise', transaction)
  if not text then return 0 end
  local words = cmsgpack.unpack(text)
  fields(words, 1, function(key, field)
    local name = key .. '\0' .. field
    if redis.call('HGET', base .. 'lock', name) == transaction then redis.call('HDEL', base .. 'lock', name) end
  end)
  redis.call('HDEL', base .. 'promise', transaction)
  redis.call('ZREM', base .. 'promised', transaction)
  if write then execute(words, 1, #words + 1, changed) end
  return 1
end

local action, answers = ARGV[1], {}
if action == 'ask' then
  local seconds, transaction = tonumber(ARGV[2]), ARGV[3]
  if redis.call('HEXISTS', base .. 'decided', transaction) == 1 then return 'write' end
  local since = redis.call('ZSCORE', base .. 'promised', transaction)
  if since and redis.call('TIME')[1] - since <= seconds then return 'wait' end
  release(transaction, false)
  return 'drop'
elseif action == 'begin' then
  for n = 2, #ARGV, 2 do
    answers[n / 2] = release(ARGV[n], true)
    if answers[n / 2] == 1 then redis.call('HSET', base .. 'decided', ARGV[n], ARGV[n + 1]) end
  end
elseif action == 'begin all' then
  for n = 2, #ARGV, 2 do
    if redis.call('HEXISTS', base .. 'promise', ARGV[n]) == 0 then return 0 end
  end
  for n = 2, #ARGV, 2 do redis.call('HSET', base .. 'decided', ARGV[n], ARGV[n + 1]) end
  return 1
elseif action == 'keep' then
  for n = 2, #ARGV do
    if redis.call('HEXISTS', base .. 'promise', ARGV[n]) == 1 then
      redis.call('ZADD', base .. 'promised', redis.call('TIME')[1], ARGV[n])
    end
  end
elseif action == 'done' then
  for n = 2, #ARGV do redis.call('HDEL', base .. 'decided', ARGV[n]) end
else
  for n = 2, #ARGV do answers[n - 1] = release(ARGV[n], action == 'write') end
end
update_groups(changed)
return answers
