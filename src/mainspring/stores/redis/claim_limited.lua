-- Jobs with a limit in a claim; it is put before claim.lua. turns.lua tells where they are.
-- A key gives its first job if it has a place and its rate allows it. Each job counts as waiting since its key was served
-- last, so that keys take turns.
-- The hash `limit` has limits as JSON by name, and `starts` counts the jobs that were started of those with a total. One whose name begins with AT_ONCE has its number there.
local RATES_PER_CLAIM, IDLE_PER_CLAIM, LATER_PER_CLAIM, FIRST_TURNS, MAX_TURNS = 500, 256, 1000, 32, 512
local LOOKED_AHEAD = 32
local AT_ONCE, SECOND_MICROS = '^at_once:(%d+)$', 1000000

local limits = {}
local function limit_named(name)
  local one = limits[name]
  if not one then
    local text = redis.call('HGET', KEYS[1] .. ':limit', name)
    local stored = text and cjson.decode(text) or { running = tonumber(string.match(name, AT_ONCE)) }
    one = { running = stored.running, total = stored.total }
    if stored.rate then
      one.interval = math.ceil((stored.per or 1) * SECOND_MICROS / stored.rate)
      one.tolerance = ((stored.burst or 1) - 1) * one.interval
    end
    if one.total then
      one.used = redis.call('ZCARD', KEYS[1] .. ':running:' .. name)
      one.name = name
    end
    limits[name] = one
  end
  return one
end

-- What is known of a limit_key in this claim.
local states = {}
local function state_of(limit, key)
  local limit_key = limit .. '\n' .. key
  local state = states[limit_key]
  if not state then
    state = { limit_key = limit_key, limit = limit_named(limit), running = 0, given = 0 }
    state.rate_at, state.served_at = served_of(limit_key)
    if state.limit.running then state.running = redis.call('SCARD', KEYS[1] .. ':running:' .. limit_key) end
    states[limit_key] = state
  end
  return state
end

-- How far the order may run ahead of the clock, when many jobs of a key are started at one instant.
local MAX_AHEAD_MICROS = SECOND_MICROS

-- Whether no job more may run: of the key, and of all keys of the limit.
local function is_full(state)
  return state.limit.running and state.running + state.given >= state.limit.running
end
local function is_used_up(limit)
  return limit.total and limit.used >= limit.total
end

-- When the key's next job may start, and what stands for the job's own instant in the order of claims.
local function opens_at(state)
  local at = state.served_at - MAX_AHEAD_MICROS
  return state.limit.interval and math.max(at, state.rate_at - state.limit.tolerance) or at
end
local function place_of(state, entry)
  return math.max(instant_in(entry), opens_at(state), state.served_at)
end

-- The transaction that starts a job of the key, or of its limit if that has a total.
local function lock_of_limit(state)
  local limit = state.limit
  local name, key = string.match(state.limit_key, '^([^\n]*)\n(.*)$')
  return lock_of(KEYS[1] .. ':served:' .. name, key)
    or (limit.total and lock_of(KEYS[1] .. ':starts', limit.name))
end

-- Counts a job that the key gives.
local function give(state, now)
  state.given = state.given + 1
  state.served_at = math.min(math.max(now, state.served_at) + 1, now + MAX_AHEAD_MICROS)
  if state.limit.interval then state.rate_at = math.max(state.rate_at, now) + state.limit.interval end
  if state.limit.total then state.limit.used = state.limit.used + 1 end
end

-- Moves later jobs of a limited group that have become due.
local function move_due(group, now)
  local base = KEYS[1] .. ':'
  local due = redis.call('ZRANGEBYSCORE', base .. 'later:' .. group, '-inf', now, 'LIMIT', 0, LATER_PER_CLAIM)
  local ready, keys = {}, {}
  for n = 1, #due do
    ready[2 * n - 1], ready[2 * n] = 0, due[n]
    keys[key_in(due[n])] = true
  end
  if due[1] then
    redis.call('ZREM', base .. 'later:' .. group, unpack(due))
    redis.call('ZADD', base .. 'ready:' .. group, unpack(ready))
  end
  for key in pairs(keys) do update_turn(group, key) end
  update_later(group)
end

-- Ends the waits for rates that are over, in one group.
local function end_rates(group, now)
  local rates = KEYS[1] .. ':rates:' .. group
  local keys = redis.call('ZRANGEBYSCORE', rates, '-inf', now, 'LIMIT', 0, RATES_PER_CLAIM)
  if not keys[1] then return end
  redis.call('ZREM', rates, unpack(keys))
  for n = 1, #keys do end_wait(group, keys[n]) end
end

-- Whether one more job of the key may run.
local function has_room(state)
  return not is_full(state) and not is_used_up(state.limit)
end

-- When the group may give a job that waits for its rate, and one that is due later; nil if it never does by itself. If no
-- key of the first ones has room, it may be too early.
local function next_rate(group)
  local limit, found = limit_of(group), redis.call('ZRANGE', KEYS[1] .. ':rates:' .. group, 0, LOOKED_AHEAD, 'WITHSCORES')
  for n = 1, is_used_up(limit_named(limit)) and 0 or #found, 2 do
    if has_room(state_of(limit, found[n])) or n > 2 * LOOKED_AHEAD then return tonumber(found[n + 1]) end
  end
end
local function next_later(group)
  local limit, soonest = limit_of(group), nil
  local found = redis.call('ZRANGE', KEYS[1] .. ':later:' .. group, 0, LOOKED_AHEAD, 'WITHSCORES')
  for n = 1, is_used_up(limit_named(limit)) and 0 or #found, 2 do
    local state, at = state_of(limit, key_in(found[n])), tonumber(found[n + 1])
    if soonest and soonest <= at then return soonest end
    if n > 2 * LOOKED_AHEAD then return at end
    if has_room(state) then soonest = math.min(soonest or math.huge, math.max(at, opens_at(state))) end
  end
  return soonest
end

-- Forgets groups that have no ready jobs.
local function forget_groups(groups)
  for n = 1, #groups do
    if redis.call('EXISTS', KEYS[1] .. ':turn:' .. groups[n]) == 0 then
      redis.call('SREM', KEYS[1] .. ':limited', groups[n])
    end
  end
end

-- The limits and keys among these that have a pending or running job. Of very many later jobs only the first are looked at:
-- a key that is forgotten although it has one only loses that it was served.
local function in_use(limit_keys)
  local base, groups, later, used = KEYS[1] .. ':', {}, {}, {}
  for _, register in ipairs({ redis.call('SMEMBERS', base .. 'limited'), redis.call('ZRANGE', base .. 'next', 0, -1) }) do
    for n = 1, #register do
      local limit = limit_of(register[n])
      if limit then
        groups[limit] = groups[limit] or {}
        groups[limit][register[n]] = true
      end
    end
  end
  for n = 1, #limit_keys do
    local limit, key = string.match(limit_keys[n], '^([^\n]*)\n(.*)$')
    used[limit_keys[n]] = redis.call('EXISTS', base .. 'running:' .. limit_keys[n]) == 1
    for group in pairs(groups[limit] or {}) do
      if not later[group] then
        later[group] = {}
        for _, member in ipairs(redis.call('ZRANGE', base .. 'later:' .. group, 0, LATER_PER_CLAIM - 1)) do
          later[group][key_in(member)] = true
        end
      end
      local waits = later[group][key] or redis.call('HEXISTS', base .. 'turn:' .. group, key) == 1
      used[limit_keys[n]] = used[limit_keys[n]] or waits
    end
  end
  return used
end

-- Forgets keys that have no jobs any more, once no rate counts for them.
local function forget_idle(now)
  local base = KEYS[1] .. ':'
  local found = redis.call('ZRANGEBYSCORE', base .. 'idle', '-inf', now, 'LIMIT', 0, IDLE_PER_CLAIM)
  if not found[1] then return end
  redis.call('ZREM', base .. 'idle', unpack(found))
  local idle, used = {}, in_use(found)
  for n = 1, #found do
    local rate_at, served_at = served_of(found[n])
    if used[found[n]] then
      -- it comes here again when its last job has gone
    elseif math.max(rate_at, served_at) > now then
      redis.call('ZADD', base .. 'idle', math.max(rate_at, served_at), found[n])
    else
      idle[#idle + 1] = found[n]
    end
  end
  for n = 1, #idle do
    local limit, key = string.match(idle[n], '^([^\n]*)\n(.*)$')
    redis.call('HDEL', base .. 'served:' .. limit, key)
  end
end

-- The first `most` jobs of `found`, which is in order, and of these limited groups, in their common order. `before` tells
-- the order, `refuse` gets an entry that is malformed. Also returns the keys that were met, by group.
local function with_limited(found, groups, most, now, before, refuse)
  local base, heap, met, chosen = KEYS[1] .. ':', {}, {}, {}
  local function push(one)
    local n = #heap + 1
    heap[n] = one
    while n > 1 do
      local up = math.floor(n / 2)
      if not before(heap[n], heap[up]) then break end
      heap[n], heap[up] = heap[up], heap[n]
      n = up
    end
  end
  local function pop()
    local first, last = heap[1], table.remove(heap)
    local size, n = #heap, 1
    if size > 0 then heap[1] = last end
    while 2 * n <= size do
      local down = 2 * n
      if down < size and before(heap[down + 1], heap[down]) then down = down + 1 end
      if not before(heap[down], heap[n]) then break end
      heap[n], heap[down] = heap[down], heap[n]
      n = down
    end
    return first
  end
  local function rank_of(entry)
    local a, b = string.byte(entry, 1, 2)
    return a * 256 + b
  end

  -- The next turn of a group, as long as there is one.
  local function next_turn(cursor)
    if cursor.at > #cursor.turns and not cursor.done then
      cursor.turns =
        redis.call('ZRANGEBYLEX', base .. 'turns:' .. cursor.group, cursor.low, '+', 'LIMIT', 0, cursor.count)
      cursor.done, cursor.at, cursor.count = #cursor.turns < cursor.count, 1, math.min(4 * cursor.count, MAX_TURNS)
      if cursor.turns[1] then cursor.low = '(' .. cursor.turns[#cursor.turns] end
    end
    local turn = cursor.turns[cursor.at]
    if not turn then return end
    cursor.at = cursor.at + 1
    local head = string.sub(turn, 1, TURN_BYTES)
    push({ rank_of(head), instant_in(head), head, cursor = cursor, key = string.sub(turn, TURN_BYTES + 1) })
  end

  -- The key's next entry, read some at a time.
  local function next_entry(one)
    if one.at > #one.entries and not one.done then
      one.entries = redis.call('ZRANGEBYLEX', base .. 'ready:' .. one.group, one.low, one.last, 'LIMIT', 0, one.count)
      one.done, one.at, one.count = #one.entries < one.count, 1, math.min(4 * one.count, MAX_TURNS)
      if one.entries[1] then one.low = '(' .. one.entries[#one.entries] end
    end
    local member = one.entries[one.at]
    if not member then return end
    one.at = one.at + 1
    local entry = string.sub(member, one.skip + 1)
    if #entry < 11 then
      refuse(one.group, member, entry)
      return next_entry(one)
    end
    return entry, member
  end

  -- The key's next job waits for its turn.
  local function push_next(one)
    local entry, member = next_entry(one)
    if entry then
      push({ rank_of(entry), place_of(one.state, entry), entry, one.group .. '\n' .. one.key, source = one, member = member })
    end
  end

  -- Takes the job whose turn it is, or begins with the key.
  local function take(one)
    if one.cursor then
      local cursor, prefix, last = one.cursor, key_range(one.key)
      local state = state_of(limit_of(cursor.group), one.key)
      if is_used_up(state.limit) then return end
      next_turn(cursor)
      local source = {
        group = cursor.group, key = one.key, state = state, low = '[' .. prefix, last = last, skip = #prefix,
        entries = {}, at = 1, count = 1,
      }
      met[#met + 1] = source
      if not is_full(state) and opens_at(state) <= now then push_next(source) end
      return
    end
    local state = one.source.state
    if is_full(state) or opens_at(state) > now or is_used_up(state.limit) then return end
    local place = place_of(state, one[3])
    if one[2] < place then -- the key was served in another group meanwhile
      one[2] = place
      push(one)
      return
    end
    one.state = state
    chosen[#chosen + 1] = one
    give(state, now)
    push_next(one.source)
  end

  for n = 1, #groups do next_turn({ group = groups[n], turns = {}, at = 1, low = '-', count = FIRST_TURNS }) end
  local plain = 1
  while #chosen < most do
    if found[plain] and (not heap[1] or before(found[plain], heap[1])) then
      chosen[#chosen + 1] = found[plain]
      plain = plain + 1
    elseif heap[1] then
      take(pop())
    else
      break
    end
  end
  return chosen, met
end

-- Writes what the claim has given, and from when on each key that was met may give again. `taken` are its jobs, with their
-- ids in `ids`.
local function write_limited(taken, ids, met, now)
  local base, served, running, places, starts = KEYS[1] .. ':', {}, {}, {}, {}
  local function add(lists, name, ...)
    lists[name] = lists[name] or {}
    for _, value in ipairs({ ... }) do table.insert(lists[name], value) end
  end
  local function each(lists, command, prefix)
    for name, some in pairs(lists) do
      for from = 1, #some, 1000 do
        redis.call(command, base .. prefix .. name, unpack(some, from, math.min(from + 999, #some)))
      end
    end
  end
  states, limits = {}, {}
  for n = 1, #taken do
    local limit, key = limit_of(taken[n].source.group), taken[n].source.key
    local state = state_of(limit, key)
    give(state, now)
    add(running, state.limit_key, ids[n])
    add(places, limit, 0, (key_range(key)) .. ids[n])
    if state.limit.total then starts[limit] = (starts[limit] or 0) + 1 end
    if state.given == 1 then add(served, limit, key, state) end
  end
  each(running, 'SADD', 'running:')
  each(places, 'ZADD', 'running:')
  for _, some in pairs(served) do
    for n = 2, #some, 2 do some[n] = string.format('%.0f %.0f', some[n].rate_at, some[n].served_at) end
  end
  each(served, 'HSET', 'served:')
  for limit, count in pairs(starts) do redis.call('HINCRBY', base .. 'starts', limit, count) end
  for n = 1, #met do
    local one = met[n]
    local state = state_of(limit_of(one.group), one.key)
    update_turn(one.group, one.key)
    local turn = (is_full(state) or opens_at(state) > now) and redis.call('HGET', base .. 'turn:' .. one.group, one.key)
    if turn then
      if turn ~= '' then redis.call('ZREM', base .. 'turns:' .. one.group, turn .. one.key) end
      redis.call('HSET', base .. 'turn:' .. one.group, one.key, '')
      if is_full(state) then
        redis.call('SADD', base .. 'blocked:' .. state.limit_key, one.group)
      else
        redis.call('ZADD', base .. 'rates:' .. one.group, opens_at(state), one.key)
      end
    end
  end
end
