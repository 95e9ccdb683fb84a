-- Plain jobs: no keys, no tags, no schedule, no expiry. Those whose id is known are left as they are.
-- ARGV: now; channel's word; then for each job its id, group, place, run_at and record.
local base, now = KEYS[1] .. ':', tonumber(ARGV[1])
local ids, count = {}, 0
for at = 3, #ARGV, 5 do
  count = count + 1
  ids[count] = ARGV[at]
end
local fresh = {}
for from = 1, count, 1000 do
  local known = redis.call('HMGET', base .. 'job', unpack(ids, from, math.min(from + 999, count)))
  for n = 1, #known do fresh[from + n - 1] = not known[n] end
end
if redis.call('EXISTS', base .. 'moved') == 1 then
  for n = 1, count do fresh[n] = fresh[n] and redis.call('HEXISTS', base .. 'moved', ids[n]) == 0 end
end
local records, groups, names = {}, {}, {}
for n = 1, count do
  local at = 3 + (n - 1) * 5
  if fresh[n] and not records[ids[n]] then
    records[ids[n]] = true
    records[#records + 1] = ids[n]
    records[#records + 1] = ARGV[at + 4]
    local name = ARGV[at + 1]
    local group = groups[name]
    if not group then
      group = { made = {}, ready = {}, later = {} }
      groups[name] = group
      names[#names + 1] = name
    end
    local made = group.made
    made[#made + 1] = 0
    made[#made + 1] = ids[n]
    local list = group.ready
    local score = 0
    if tonumber(ARGV[at + 3]) > now then list, score = group.later, ARGV[at + 3] end
    list[#list + 1] = score
    list[#list + 1] = ARGV[at + 2]
  end
end
local function add(command, key, list)
  for from = 1, #list, 2000 do
    redis.call(command, key, unpack(list, from, math.min(from + 1999, #list)))
  end
end
add('HSET', base .. 'job', records)
for n = 1, #names do
  local name = names[n]
  local group = groups[name]
  redis.call('SADD', base .. 'groups', name)
  add('ZADD', base .. 'made:' .. name, group.made)
  if group.ready[1] then
    add('ZADD', base .. 'ready:' .. name, group.ready)
    redis.call('SADD', base .. 'stocked', name)
  end
  if group.later[1] then
    add('ZADD', base .. 'later:' .. name, group.later)
    local first = redis.call('ZRANGE', base .. 'later:' .. name, 0, 0, 'WITHSCORES')
    redis.call('ZADD', base .. 'next', first[2], name)
  end
end
if names[1] then redis.call('PUBLISH', KEYS[1], ARGV[2]) end
return #names
