-- Ends running jobs as completed, if all ends are plain: the lease is valid, and the job has no schedule, circuit or
-- retry, and no key that another shard records. It writes all of them or none. The end of a step comes with what it means
-- for its flow: an item of a map is counted, or the flow moves, by a unit of prelude.lua.
-- KEYS[1] is the base of the shard.
-- ARGV: the topic to publish; 1 if this shard records all keys, else 0; the number of counts, and the counts; the number
-- of runs with notes, and for each its id, the id as text and its history row, complete but for the worker; the number of
-- maps and moves, and for each its flow, the key of the map in the counts of that flow (item_counts.py) or '', the number
-- of the steps that end, each one's position and id, the number of words of the unit, and the unit; for each lease: the lease, the number of its jobs, their ids, their finish times, their results (1 and the JSON text, or 0 for
-- none).
-- Returns the ids of the jobs whose end is not plain, and the flows that have changed since their moves were made; both are
-- empty if all were written.
local locks = has_locks()
-- The first byte of an array of eleven values in MessagePack: the record of a new job, as records.py writes it.
local NEW_RECORD = 0x9b

-- Calls `call` with the items of the list, `step` at a time.
local function each(list, step, call)
  for from = 1, #list, step do call(unpack(list, from, math.min(from + step - 1, #list))) end
end
-- The list of that name; a new one if there is none.
local function of(lists, name)
  local list = lists[name]
  if not list then
    list = {}
    lists[name] = list
  end
  return list
end

-- All jobs that one claim took from one group have the same value in `run`: it is parsed once.
local seen = {}
local function read(claim)
  local run = seen[claim]
  if not run then
    local lease, worker, started, letter, queue, task, limit_key =
      string.match(claim, '^(%Z*)%z(%Z*)%z(%Z*)%z(.)%z(%Z*)%z(%Z*)%z?(.*)$')
    local bits = string.byte(letter) - 64
    run = { lease = lease, worker = worker, task = task, head = lease .. '\0' .. worker .. '\0' .. started .. '\0' }
    if limit_key ~= '' then
      run.limit, run.key = string.match(limit_key, '^([^\n]*)\n(.*)$')
      run.group = queue .. '\0' .. task .. '\0' .. run.limit
      run.prefix = key_range(run.key)
    end
    run.keyed = bits % 2 == 1
    run.step = bits % 32 >= 16
    run.plain = (bits % 4 < 2 or run.step) and bits % 16 < 8 and (not run.keyed or ARGV[2] == '1')
    seen[claim] = run
  end
  return run
end

-- Jobs of a task with a circuit are not plain: the rules decide its next state.
local circuits = {}
local function has_circuit(task)
  if circuits[task] == nil then circuits[task] = redis.call('HEXISTS', base .. 'circuit', task) == 1 end
  return circuits[task]
end
local part_of = {}
local function is_plain(claim, lease, id)
  local run = claim and read(claim)
  if not run or run.lease ~= lease or not run.plain or has_circuit(run.task) then return false end
  if run.step and not part_of[id] then return false end
  return not locks or not lock_of(base .. 'job', id)
end

-- The unique key of a record that enqueue wrote: nil if it has only an idempotency key, which a completed job keeps.
-- The first value is false for any other record.
local function unique_key_in(record)
  if not record or string.byte(record, 2) ~= NEW_RECORD then return false end
  local readable, values = pcall(cmsgpack.unpack, string.sub(record, 2))
  return readable, readable and values[8]
end

-- The first byte of an array of five values in MessagePack: the record of a plain new job.
local PLAIN_RECORD = 0x95
local WORKER = '"worker":""'
-- A run with notes has a history row of its own. That it is the first run of its job shows in the record: it is that of a
-- new job.
local rows, at = {}, 5 + ARGV[3]
for _ = 1, tonumber(ARGV[4 + ARGV[3]]) do
  rows[ARGV[at]] = { key = base .. 'exec:' .. ARGV[at + 1], text = ARGV[at + 2] }
  at = at + 3
end
local function is_new(id)
  local record = redis.call('HGET', base .. 'job', id)
  local first = record and string.byte(record, 2)
  return first == PLAIN_RECORD or first == NEW_RECORD
end
local function with_worker(text, worker)
  local from, to = string.find(text, WORKER, 1, true)
  return string.sub(text, 1, from - 1) .. '"worker":' .. cjson.encode(worker) .. string.sub(text, to + 1)
end

-- The steps that end, by map or move.
local parts, count = {}, tonumber(ARGV[at])
at = at + 1
for n = 1, count do
  local part = { flow = ARGV[at], key = ARGV[at + 1], ids = {}, entries = {} }
  local first, size = at + 3, tonumber(ARGV[at + 2])
  for step = first, first + size - 1 do
    local id = string.sub(ARGV[step], 9)
    part_of[id] = part
    part.entries[id] = ARGV[step]
  end
  part.unit = first + size + 1
  at = part.unit + ARGV[part.unit - 1]
  part.last = at
  parts[n] = part
end

local all, ends, held, ended, odd, keyed, noted, limited, places = {}, {}, {}, {}, {}, {}, {}, {}, {}
while ARGV[at] do
  local lease, count, first = ARGV[at], tonumber(ARGV[at + 1]), at + 2
  for from = first, first + count - 1, 1000 do
    local runs = redis.call('HMGET', base .. 'run', unpack(ARGV, from, math.min(from + 999, first + count - 1)))
    for n = 1, #runs do
      local this = from + n - 1
      local id = ARGV[this]
      local row = rows[id]
      if is_plain(runs[n], lease, id) and (not row or is_new(id)) then
        local run, instant = read(runs[n]), ARGV[this + count]
        local ending, mine = of(ended, run.task), of(held, run.worker)
        all[#all + 1] = id
        if run.step then table.insert(part_of[id].ids, id) end
        if run.keyed then keyed[#keyed + 1] = id end
        if run.limit then
          of(limited, run.group)[run.key] = true
          table.insert(of(places, run.limit), run.prefix .. id)
        end
        if row then
          row.text = with_worker(row.text, run.worker)
          noted[#noted + 1] = row
        end
        mine[#mine + 1] = id
        ends[#ends + 1] = id
        ends[#ends + 1] = run.head .. instant .. '\0' .. ARGV[this + 2 * count]
        ending[#ending + 1] = instant
        ending[#ending + 1] = id
      else
        odd[#odd + 1] = id
      end
    end
  end
  at = first + 3 * count
end
-- Counts the items of a map in the counts of its flow. Those from the last one on are odd, and all if it has no counts.
local counts = {}
local function count_items(map)
  local flow = map.flow
  if counts[flow] == nil then
    local text = not (locks and lock_of(base .. 'items', flow)) and redis.call('HGET', base .. 'items', flow)
    counts[flow] = text and cjson.decode(text)
  end
  local found = counts[flow] and counts[flow][map.key]
  local room = 0
  if found then room = found[2] == cjson.null and #map.ids or math.max(0, found[2] - found[1] - 1) end
  for n = #map.ids, room + 1, -1 do odd[#odd + 1] = table.remove(map.ids) end
  if found then found[1] = found[1] + #map.ids end
end
local raced = {}
for n = 1, #parts do
  local part = parts[n]
  if part.key ~= '' then
    count_items(part)
  elseif locked_by(ARGV, part.unit, '') or stale(ARGV, part.unit) then
    raced[#raced + 1] = part.flow
  end
end
local freed, holders = {}, {}
for from = 1, #keyed, 1000 do
  local records = redis.call('HMGET', base .. 'job', unpack(keyed, from, math.min(from + 999, #keyed)))
  for n = 1, #records do
    local id, readable, key = keyed[from + n - 1], unique_key_in(records[n])
    if not readable or (key and locks and lock_of(base .. 'key', 'u' .. key)) then
      odd[#odd + 1] = id
    elseif key then
      freed[#freed + 1] = 'u' .. key
      holders[#holders + 1] = id
    end
  end
end
if odd[1] or raced[1] then return { odd, raced } end
for from = 1, #freed, 1000 do
  local last, mine = math.min(from + 999, #freed), {}
  local found = redis.call('HMGET', base .. 'key', unpack(freed, from, last))
  for n = 1, #found do
    if found[n] == holders[from + n - 1] then mine[#mine + 1] = freed[from + n - 1] end
  end
  if mine[1] then redis.call('HDEL', base .. 'key', unpack(mine)) end
end
for n = 1, #parts do
  local flow, entries, done = parts[n].flow, {}, {}
  for step, id in ipairs(parts[n].ids) do
    entries[step] = parts[n].entries[id]
    done[2 * step - 1], done[2 * step] = 0, entries[step]
  end
  each(entries, 1000, function(...) redis.call('ZREM', base .. 'steps:open:' .. flow, ...) end)
  each(done, 2000, function(...) redis.call('ZADD', base .. 'steps:done:' .. flow, ...) end)
end
for flow, found in pairs(counts) do
  if found then redis.call('HSET', base .. 'items', flow, cjson.encode(found)) end
end
for n = 1, #noted do redis.call('HSET', noted[n].key, 1, noted[n].text) end
each(all, 1000, function(...) redis.call('HDEL', base .. 'run', ...) end)
each(ends, 2000, function(...) redis.call('HSET', base .. 'end', ...) end)
for worker, ids in pairs(held) do
  each(ids, 1000, function(...) redis.call('SREM', base .. 'held:' .. worker, ...) end)
end
for limit, members in pairs(places) do
  each(members, 1000, function(...) redis.call('ZREM', base .. 'running:' .. limit, ...) end)
end
for group, found in pairs(limited) do
  local freed = {}
  for key in pairs(found) do freed[#freed + 1] = key end
  free_places(group, freed)
end
-- Whether a job that waits may start because one with a limit has ended.
local may_start = next(limited) and redis.call('EXISTS', base .. 'limited') == 1
for task, pairs in pairs(ended) do
  each(pairs, 2000, function(...) redis.call('ZADD', base .. 'ended:completed\0' .. task, ...) end)
  redis.call('SADD', base .. 'ends', 'completed\0' .. task)
end
for n = 4, 3 + ARGV[3] do redis.call('RPUSH', base .. 'counting', ARGV[n]) end
local changed = {}
for n = 1, #parts do
  if parts[n].key == '' then execute(ARGV, parts[n].unit, parts[n].last, changed) end
end
if next(changed) then update_groups(changed) end
redis.call('PUBLISH', KEYS[1], may_start and 'new final' or ARGV[1])
return { {}, {} }
