-- Adds jobs of one map's items, which are alike but for their payloads, and writes the row of their flow.
-- KEYS[1] is the base of the shard of both.
-- ARGV: the topic to publish; the flow; its row as it was read; its new row; the name of the group; the set of the group
-- (ready or later) that gets them, and the score in it; the beginning of their entries there; for each item its position
-- with its id, and its record.
-- Returns 1; 0, and nothing was written, if the row is another one, an item exists or existed, or there are locks.
local flow, group, which, score, head = ARGV[2], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
if has_locks() or redis.call('HGET', base .. 'flow', flow) ~= ARGV[3] then return 0 end
local first, ids = 9, {}
for n = first, #ARGV, 2 do ids[#ids + 1] = string.sub(ARGV[n], 9) end
local function known(hash)
  local found = redis.call('HMGET', base .. hash, unpack(ids))
  for n = 1, #found do
    if found[n] then return true end
  end
  return false
end
if known('job') or (redis.call('EXISTS', base .. 'moved') == 1 and known('moved')) then return 0 end
redis.call('HSET', base .. 'flow', flow, ARGV[4])
local records, made, entries, steps = {}, {}, {}, {}
for n = 1, #ids do
  local id, at = ids[n], 2 * n
  records[at - 1], records[at] = id, ARGV[first + at - 1]
  made[at - 1], made[at] = 0, id
  entries[at - 1], entries[at] = score, head .. id
  steps[at - 1], steps[at] = 0, ARGV[first + at - 2]
end
redis.call('HSET', base .. 'job', unpack(records))
redis.call('ZADD', base .. 'made:' .. group, unpack(made))
redis.call('SADD', base .. 'groups', group)
redis.call('ZADD', base .. which .. ':' .. group, unpack(entries))
redis.call('ZADD', base .. 'steps:open:' .. flow, unpack(steps))
update_group(group)
if has_heads() then update_heads({ group }) end
redis.call('PUBLISH', KEYS[1], ARGV[1])
return 1
