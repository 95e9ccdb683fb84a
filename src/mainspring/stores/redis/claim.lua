-- Claims due jobs in the order of priority, run_at and id. Without a lease it only returns the jobs it would take.
-- KEYS[1] is the base of the shard.
-- ARGV: now; the claim's limit; how many jobs to take from this shard; worker; lease or ''; the bytes of records after
-- which no further job is taken; the number of queues, or -1 for all; the number of tasks; 1 if the rules in Python have
-- seen to suspects and circuits, else 0; the queues; the tasks.
-- Returns, if nothing but the order decides: when to claim again (now if there may be more, '' if never), and ids and
-- records of the jobs alternately; without a lease their entries in `ready`, and the sizes of their records.
-- Else it takes nothing and returns 'silent' if the worker's expiry has passed, 'look' if expired jobs, suspects or
-- circuits need the rules in Python, or 'held' and the transaction that locks one of the jobs.
local base, now, limit, most = KEYS[1] .. ':', tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local worker, lease = ARGV[4], ARGV[5]
-- A claim that finds more groups with ready jobs than MANY_GROUPS makes the index of heads.lua, one that finds at most
-- FEW_GROUPS drops it. Groups that a claim reads first, and that it compares with the index, at least.
local MANY_GROUPS, FEW_GROUPS, FIRST_GROUPS, COMPARED_GROUPS = 32, 16, 16, 32
local queues, tasks = nil, {}
local bytes, count = tonumber(ARGV[6]), tonumber(ARGV[7])
if count >= 0 then
  queues = {}
  for n = 10, 9 + count do queues[ARGV[n]] = true end
else
  count = 0
end
for n = 10 + count, 9 + count + tonumber(ARGV[8]) do tasks[ARGV[n]] = true end

local until_at = redis.call('HGET', base .. 'until', worker)
if not until_at or tonumber(until_at) <= now then return { 'silent' } end
-- One call tells whether there is any of some keys that stores rarely have.
local rare = redis.call('EXISTS', base .. 'suspect', base .. 'limited', base .. 'idle') > 0
local only_order = ARGV[9] == '1'
if rare and not only_order and redis.call('EXISTS', base .. 'suspect') > 0 then return { 'look' } end
local shut, circuits = {}, redis.call('HGETALL', base .. 'open')
for n = 1, #circuits, 2 do
  if tasks[circuits[n]] then
    shut[circuits[n]] = tonumber(circuits[n + 1])
    if shut[circuits[n]] <= now then
      if not only_order then return { 'look' } end
      shut[circuits[n]] = math.huge -- the rules tell when to claim again
    end
  end
end
local expiry = redis.call('ZRANGE', base .. 'expiring', 0, 0, 'WITHSCORES')[2]
if expiry and tonumber(expiry) <= now then return { 'look' } end

local paused = {}
for _, name in ipairs(redis.call('SMEMBERS', base .. 'paused')) do paused[name] = true end
-- Whether this worker serves the group, and until when its circuit is open.
local function served(group)
  local queue, task = string.match(group, '^(%Z*)%z(%Z*)')
  return tasks[task] and not paused[queue] and (not queues or queues[queue]), shut[task]
end

-- Whether the jobs of a group have a limit: what they need is in limit_functions(), which no other claim makes.
local function is_limited(group)
  return string.find(group, '%z.*%z') ~= nil
end

-- Jobs that have become due move from `later` to `ready`.
local moved = {}
for _, group in ipairs(redis.call('ZRANGEBYSCORE', base .. 'next', '-inf', now)) do
  local limited = is_limited(group)
  if limited then
    limit_functions().move_due(group, now)
    rare = true
  end
  local due = limited and {} or redis.call('ZRANGEBYSCORE', base .. 'later:' .. group, '-inf', now, 'LIMIT', 0, 1000)
  if due[1] then
    local ready = {}
    for n = 1, #due do
      ready[2 * n - 1] = 0
      ready[2 * n] = due[n]
    end
    redis.call('ZREM', base .. 'later:' .. group, unpack(due))
    redis.call('ZADD', base .. 'ready:' .. group, unpack(ready))
    redis.call('SADD', base .. 'stocked', group)
    moved[#moved + 1] = group
  end
  local first = redis.call('ZRANGE', base .. 'later:' .. group, 0, 0, 'WITHSCORES')
  if first[2] then
    redis.call('ZADD', base .. 'next', first[2], group)
  else
    redis.call('ZREM', base .. 'next', group)
  end
end
local indexed, stocked = has_heads(), redis.call('SCARD', base .. 'stocked')
if indexed and stocked <= FEW_GROUPS then
  redis.call('DEL', base .. 'heads', base .. 'head')
  indexed = false
elseif indexed then
  update_heads(moved)
end

-- The rank and run_at of an entry; nil if it is too short.
local function key_of(entry)
  local a, b, c, d, e, f, g, h, i, j = string.byte(entry, 1, 10)
  if not j then return end
  local at = ((((((c * 256 + d) * 256 + e) * 256 + f) * 256 + g) * 256 + h) * 256 + i) * 256 + j
  return a * 256 + b, at
end

-- Stores an entry's id as three numbers: jobs enqueued together differ in their ids only, and bytes compare slowly.
local function digits(one)
  if not one[5] then
    local a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p = string.byte(one[3] .. string.rep('\0', 16), 11, 26)
    one[5] = ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
    one[6] = ((((g * 256 + h) * 256 + i) * 256 + j) * 256 + k) * 256 + l
    one[7] = ((m * 256 + n) * 256 + o) * 256 + p
  end
end
-- Whether one entry is claimed before the other.
local function before(one, other)
  if one[1] ~= other[1] then return one[1] < other[1] end
  if one[2] ~= other[2] then return one[2] < other[2] end
  digits(one)
  digits(other)
  for n = 5, 7 do
    if one[n] ~= other[n] then return one[n] < other[n] end
  end
  for n = 27, #one[3] do
    local a, b = string.byte(one[3], n), string.byte(other[3], n) or -1
    if a ~= b then return a < b end
  end
  return #one[3] < #other[3]
end

local found, early = {}, false
-- Adds entries of a group to `found`. If one is malformed it is moved to the hash `malformed`, for the operator, and the
-- result is false: none of them was added.
local function add(group, entries)
  local size = #found
  for n = 1, #entries do
    local rank, at = key_of(entries[n])
    if not at then
      redis.call('ZREM', base .. 'ready:' .. group, entries[n])
      redis.call('HSET', base .. 'malformed', entries[n], group)
      redis.call('HINCRBY', base .. 'health', 'stale', 1)
      if indexed then update_heads({ group }) end
      for rest = #found, size + 1, -1 do found[rest] = nil end
      return false
    end
    if at > now then early = true end
    found[#found + 1] = { rank, at, entries[n], group }
  end
  return true
end

-- Reads from each group its likely share, and more only if that was not enough. `open` are the groups that may have
-- more, with the last entry read.
local function read_all()
  local groups, open = {}, {}
  for _, group in ipairs(redis.call('SMEMBERS', base .. 'stocked')) do
    local takes, closed = served(group)
    if takes and not closed then groups[#groups + 1] = group end
  end
  local step = #groups == 1 and most or math.ceil(most / #groups) + 4
  local function read(group, from)
    local entries
    repeat
      entries = redis.call('ZRANGE', base .. 'ready:' .. group, from, from + step - 1)
    until add(group, entries)
    open[group] = #entries == step and { from = from + step, last = found[#found] } or nil
  end
  for n = 1, #groups do read(groups[n], 0) end
  while #groups > 1 do
    table.sort(found, before)
    local short = {}
    for group, rest in pairs(open) do
      if #found < most or before(rest.last, found[most]) then short[#short + 1] = group end
    end
    if not short[1] then break end
    for n = 1, #short do read(short[n], open[short[n]].from) end
  end
end

-- `count` groups that this worker serves, from `low` on in the index, and those whose first bytes are the last one's; the
-- first bytes of the group after them ('' if there is none); and from where to continue. It skips the groups in `known`.
local function next_groups(low, count, known)
  local groups = {}
  while true do
    local members = redis.call('ZRANGEBYLEX', base .. 'heads', low, '+', 'LIMIT', 0, count + 1)
    for n = 1, #members do
      local group = string.sub(members[n], HEAD_BYTES + 1)
      local takes, closed = served(group)
      if takes and not closed and not known[group] then
        local head = string.sub(members[n], 1, HEAD_BYTES)
        if #groups >= count and head ~= groups[#groups][2] then return groups, head, low end
        groups[#groups + 1] = { group, head }
      end
      low = '(' .. members[n]
    end
    if #members <= count then return groups, '', low end
  end
end

-- Reads up to `count` entries of a group between these bounds.
local function read_between(group, low, high, count)
  local entries
  repeat
    entries = redis.call('ZRANGEBYLEX', base .. 'ready:' .. group, low, high, 'LIMIT', 0, count)
  until add(group, entries)
  return entries
end

-- Reads on in the groups that may have more entries before the last one that will be taken. `open` are the groups that
-- may have more at all, with the last entry read. Returns whether `found` is in order then, which it was if `ordered`.
local function read_open(open, read, ordered)
  while next(open) do
    table.sort(found, before)
    local short = {}
    for group, last in pairs(open) do
      if #found < most or before(last, found[most]) then short[#short + 1] = group end
    end
    if not short[1] then return true end
    for n = 1, #short do read(short[n], '(' .. open[short[n]][3]) end
    ordered = false
  end
  return ordered
end

-- Groups with ready jobs that the index lacks: a release that does not know it has added them.
local missing = {}
-- Reads groups in the order of their first entries, until the rest of them have only later ones. Each round reads some
-- more groups, and from all groups so far the entries before the first one of the next group.
local function read_by_heads()
  local low, from, known, ordered, count = '-', '-', {}, true, math.min(FIRST_GROUPS, most)
  repeat
    local groups, bound
    groups, bound, low = next_groups(low, count, known)
    local upto, room, size = bound == '' and '+' or '(' .. bound, most - #found, #found
    local share, open = math.min(room, math.ceil(room / math.max(1, #known + #groups)) + 4), {}
    local function read(group, first)
      local entries = read_between(group, first, upto, share)
      open[group] = #entries == share and found[#found] or nil
      return entries
    end
    for n = 1, #known do
      if read(known[n], from)[1] then ordered = false end
    end
    for n = 1, #groups do
      local group, head = groups[n][1], groups[n][2]
      local entries = read(group, '-')
      if entries[1] then
        known[#known + 1] = group
        known[group] = true
      else
        redis.call('ZREM', base .. 'heads', head .. group)
        redis.call('HDEL', base .. 'head', group)
        update_heads({ group })
      end
      if entries[2] or string.sub(entries[1] or '', 1, HEAD_BYTES) ~= head then ordered = false end
      if n > 1 and groups[n - 1][2] == head then ordered = false end
    end
    ordered = read_open(open, read, ordered)
    from, count = '[' .. bound, math.max(count, math.ceil((most - #found) * #known / math.max(1, #found - size)))
    count = math.min(count, most)
  until bound == '' or #found >= most
  if #found < most then -- all groups of the index were read to their ends
    missing = missing_heads()
    for n = 1, #missing do
      local takes, closed = served(missing[n])
      if takes and not closed and read_between(missing[n], '-', '+', most)[1] then ordered = false end
    end
  end
  if not ordered then table.sort(found, before) end
end

if indexed then
  read_by_heads()
else
  read_all()
end
if early then -- the clock was set back
  if not only_order then return { 'look' } end
  local due = {}
  for n = 1, #found do
    if found[n][2] <= now then due[#due + 1] = found[n] end
  end
  found = due
end

-- Groups of jobs with a limit that this worker serves, and what the claim has met of them.
local limited_groups, met = {}, {}
if rare then
  local of_limits = limit_functions()
  of_limits.forget_idle(now)
  for _, group in ipairs(redis.call('SMEMBERS', base .. 'limited')) do
    local takes, closed = served(group)
    if takes then of_limits.end_rates(group, now) end
    if takes and not closed then limited_groups[#limited_groups + 1] = group end
  end
  found, met = of_limits.with_limited(found, limited_groups, most, now, before, function(group, member, entry)
    redis.call('ZREM', base .. 'ready:' .. group, member)
    redis.call('HSET', base .. 'malformed', entry, group)
    redis.call('HINCRBY', base .. 'health', 'stale', 1)
  end)
end

local ids, taken, total = {}, {}, math.min(most, #found)
for n = 1, total do ids[n] = string.sub(found[n][3], 11) end
-- Calls `call` with the items of the list, `step` at a time.
local function each(list, step, call)
  for from = 1, #list, step do call(unpack(list, from, math.min(from + step - 1, #list))) end
end
if has_locks() then
  for n = 1, total do
    local limited = found[n].state
    local transaction = lock_of(base .. 'job', ids[n]) or (limited and limit_functions().lock_of_limit(limited))
    if transaction then return { 'held', transaction } end
  end
end

-- The earliest time at which this worker may find another job; '' if there is none.
local function next_at()
  local expiry = redis.call('ZRANGE', base .. 'expiring', 0, 0, 'WITHSCORES')[2]
  local soonest = expiry and tonumber(expiry)
  local function may(at)
    if at < (soonest or math.huge) then soonest = at end
  end
  local waiting = redis.call('ZRANGE', base .. 'next', 0, -1, 'WITHSCORES')
  for n = 1, #waiting, 2 do
    local takes, closed = served(waiting[n])
    if is_limited(waiting[n]) then
      local at = takes and limit_functions().next_later(waiting[n])
      if at then may(math.max(at, closed or 0)) end
    else
      if takes then may(math.max(tonumber(waiting[n + 1]), closed or 0)) end
      if takes and not closed then break end
    end
  end
  for n = 1, #limited_groups do
    local at = limit_functions().next_rate(limited_groups[n])
    if at then may(at) end
  end
  for n = 1, lease == '' and #met or 0 do
    local of_limits, state = limit_functions(), met[n].state
    if of_limits.has_room(state) then may(math.max(now, of_limits.opens_at(state))) end
  end
  if next(shut) then
    for _, group in ipairs(redis.call('SMEMBERS', base .. 'stocked')) do
      local takes, closed = served(group)
      if takes and closed then may(closed) end
    end
  end
  return soonest and string.format('%.0f', soonest) or ''
end
-- Reads records a few at a time, so that not many more large records are read than the claim takes.
local records, read, cut, step = {}, 0, false, 4
while read < total do
  local last = math.min(read + step, total)
  step = math.min(4 * step, 64)
  local some = redis.call('HMGET', base .. 'job', unpack(ids, read + 1, last))
  local runs = redis.call('HMGET', base .. 'run', unpack(ids, read + 1, last))
  for n = 1, #some do
    if bytes <= 0 then
      total, cut = read, true
      break
    end
    read = read + 1
    -- An entry without a job, or of a running one, is stale: it is removed below, and counted.
    records[read] = (some[n] and not runs[n]) and some[n] or false
    if records[read] then bytes = bytes - #records[read] end
  end
end
if lease == '' then
  local entries, sizes = {}, {}
  for n = 1, total do
    entries[n] = found[n].state and limit_functions().placed(found[n][3], found[n][2]) or found[n][3]
    sizes[n] = records[n] and #records[n] or 0
  end
  return { (total == limit or cut) and ARGV[1] or next_at(), entries, sizes }
end

local listed = {}
for n = 1, total do
  local group, entry = found[n][4], found[n][3]
  if found[n].state then
    local name = string.match(group, '^%Z*%z%Z*')
    listed[name] = listed[name] or {}
    table.insert(listed[name], entry)
    group, entry = found[n].source.group, found[n].member
  end
  taken[group] = taken[group] or {}
  table.insert(taken[group], entry)
end
for name, entries in pairs(listed) do
  each(entries, 1000, function(...) redis.call('ZREM', base .. 'limited:' .. name, ...) end)
end
local changed = {}
for group, entries in pairs(taken) do
  each(entries, 1000, function(...) redis.call('ZREM', base .. 'ready:' .. group, ...) end)
  if is_limited(group) then
    -- its turns are made again below
  elseif indexed then
    changed[#changed + 1] = group
  elseif redis.call('EXISTS', base .. 'ready:' .. group) == 0 then
    redis.call('SREM', base .. 'stocked', group)
  end
end
if indexed and total > 0 then
  -- A release that does not know the index may have changed groups, so each claim compares some more.
  local cursor = redis.call('HGET', base .. 'meta', 'compared') or '0'
  local some = redis.call('SSCAN', base .. 'stocked', cursor, 'COUNT', COMPARED_GROUPS)
  redis.call('HSET', base .. 'meta', 'compared', some[1])
  for _, groups in ipairs({ changed, missing, some[2] }) do update_heads(groups) end
elseif total > 0 and stocked > MANY_GROUPS then
  update_heads(redis.call('SMEMBERS', base .. 'stocked'))
end

local kept, claims, expiring, again, given, given_ids = {}, {}, {}, {}, {}, {}
local head = lease .. '\0' .. worker .. '\0' .. ARGV[1] .. '\0'
local answer = {}
for n = 1, total do
  local record = records[n]
  if record then
    kept[#kept + 1] = ids[n]
    local letter = record == '' and '@' or string.sub(record, 1, 1)
    local bits = string.byte(letter) - 64
    claims[#claims + 1] = ids[n]
    claims[#claims + 1] = head .. letter .. '\0' .. found[n][4]
    if found[n].state then given[#given + 1], given_ids[#given_ids + 1] = found[n], ids[n] end
    if bits % 8 >= 4 then expiring[#expiring + 1] = ids[n] end
    if bits % 16 >= 8 then
      local queue = string.match(found[n][4], '^(%Z*)')
      again[queue] = again[queue] or {}
      table.insert(again[queue], ids[n])
    end
    answer[#answer + 1] = ids[n]
    answer[#answer + 1] = record
  else
    redis.call('HINCRBY', base .. 'health', 'stale', 1)
  end
end
if rare then
  limit_functions().write_limited(given, given_ids, met, now, #kept == #found)
  limit_functions().forget_groups(limited_groups)
end
each(claims, 2000, function(...) redis.call('HSET', base .. 'run', ...) end)
each(kept, 1000, function(...) redis.call('SADD', base .. 'held:' .. worker, ...) end)
if kept[1] then redis.call('SADD', base .. 'holders', worker) end
each(expiring, 1000, function(...) redis.call('ZREM', base .. 'expiring', ...) end)
for queue, some in pairs(again) do
  each(some, 1000, function(...) redis.call('ZREM', base .. 'again:' .. queue, ...) end)
end

return { (total == limit or cut or #kept < total) and ARGV[1] or next_at(), answer }
