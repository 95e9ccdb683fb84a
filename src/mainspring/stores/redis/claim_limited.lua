-- Jobs with a limit in a claim, which makes these functions when it meets such jobs (server.py). turns.lua tells where
-- they are.
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
    if one.total then one.used = redis.call('ZCARD', KEYS[1] .. ':running:' .. name) end
    limits[name] = one
  end
  return one
end

-- What is known of a limit_key in this claim.
local states = {}
local function add_state(limit, key, served)
  local state = { name = limit, key = key, limit = limit_named(limit), given = 0 }
  state.rate_at, state.served_at = served_in(served)
  states[limit][key] = state
  return state
end
local function state_of(limit, key)
  states[limit] = states[limit] or {}
  return states[limit][key] or add_state(limit, key, redis.call('HGET', KEYS[1] .. ':served:' .. limit, key))
end
-- Reads several at a time.
local function read_states(limit, keys)
  states[limit] = states[limit] or {}
  local texts = redis.call('HMGET', KEYS[1] .. ':served:' .. limit, unpack(keys))
  for n = 1, #keys do
    if not states[limit][keys[n]] then add_state(limit, keys[n], texts[n]) end
  end
end

-- How far the order may run ahead of the clock, when many jobs of a key are started at one instant.
local MAX_AHEAD_MICROS = SECOND_MICROS

-- Whether no job more may run: of the key, and of all keys of the limit.
local function is_full(state)
  if not state.limit.running then return false end
  if not state.running then
    local prefix, last = key_range(state.key)
    state.running = redis.call('ZLEXCOUNT', KEYS[1] .. ':running:' .. state.name, '[' .. prefix, last)
  end
  return state.running + state.given >= state.limit.running
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
  return lock_of(KEYS[1] .. ':served:' .. state.name, state.key)
    or (limit.total and lock_of(KEYS[1] .. ':starts', state.name))
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
    local prefix, last = key_range(key)
    used[limit_keys[n]] = redis.call('ZLEXCOUNT', base .. 'running:' .. limit, '[' .. prefix, last) > 0
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
  local used = in_use(found)
  for n = 1, #found do
    local limit, key = string.match(found[n], '^([^\n]*)\n(.*)$')
    local rate_at, served_at = served_in(redis.call('HGET', base .. 'served:' .. limit, key))
    if used[found[n]] then
      -- it comes here again when its last job has gone
    elseif math.max(rate_at, served_at) > now then
      redis.call('ZADD', base .. 'idle', math.max(rate_at, served_at), found[n])
    else
      redis.call('HDEL', base .. 'served:' .. limit, key)
    end
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
      local turns = redis.call('ZRANGEBYLEX', base .. 'turns:' .. cursor.group, cursor.low, '+', 'LIMIT', 0, cursor.count)
      cursor.turns, cursor.done, cursor.at = turns, #turns < cursor.count, 1
      cursor.count = math.min(4 * cursor.count, MAX_TURNS)
      if turns[1] then
        cursor.low = '(' .. turns[#turns]
        local keys = {}
        for n = 1, #turns do keys[n] = string.sub(turns[n], TURN_BYTES + 1) end
        read_states(cursor.limit, keys)
      end
    end
    local turn = cursor.turns[cursor.at]
    if not turn then return end
    cursor.at = cursor.at + 1
    local head = string.sub(turn, 1, TURN_BYTES)
    push({ rank_of(head), instant_in(head), head, cursor = cursor, turn = turn, key = string.sub(turn, TURN_BYTES + 1) })
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

  -- The key's next job; nil if it has none.
  local function next_job(one)
    local entry, member = next_entry(one)
    one.next, one.read = entry, true
    if not entry then return end
    local name = one.group .. '\n' .. one.key
    return { rank_of(entry), place_of(one.state, entry), entry, name, source = one, member = member }
  end

  -- Further jobs of keys that were served: they stand behind most others, so they are put in order only if that matters.
  local behind, first_rank, first_at = {}, math.huge, math.huge
  local function choose(one)
    local state = one.source.state
    one.state = state
    chosen[#chosen + 1] = one
    give(state, now)
    local further = next_job(one.source)
    if not further then return end
    behind[#behind + 1] = further
    if further[1] < first_rank then
      first_rank, first_at = further[1], further[2]
    elseif further[1] == first_rank then
      first_at = math.min(first_at, further[2])
    end
  end
  local function push_behind(best)
    if not behind[1] then return end
    if best and (best[1] < first_rank or (best[1] == first_rank and best[2] < first_at)) then return end
    for n = 1, #behind do push(behind[n]) end
    behind, first_rank, first_at = {}, math.huge, math.huge
  end

  -- Begins with a key, whose turn may be a later one than its group has it.
  local function begin(turn)
    local cursor, prefix, last = turn.cursor, key_range(turn.key)
    local state = state_of(cursor.limit, turn.key)
    if is_used_up(state.limit) then return end
    next_turn(cursor)
    local source = {
      group = cursor.group, limit = cursor.limit, key = turn.key, state = state, turn = turn.turn, low = '[' .. prefix,
      last = last, skip = #prefix, entries = {}, at = 1, count = 2,
    }
    met[#met + 1] = source
    if is_full(state) or opens_at(state) > now then return end
    local job = next_job(source)
    if job and job[1] == turn[1] and job[2] == turn[2] then
      choose(job)
    elseif job then
      push(job)
    end
  end

  -- Takes a job, unless its key was served meanwhile, also in another group.
  local function take(job)
    local state = job.source.state
    if is_full(state) or opens_at(state) > now or is_used_up(state.limit) then return end
    local place = place_of(state, job[3])
    if job[2] == place then
      choose(job)
    else
      job[2] = place
      push(job)
    end
  end

  for n = 1, #groups do
    local limit = limit_of(groups[n])
    next_turn({ group = groups[n], limit = limit, turns = {}, at = 1, low = '-', count = math.min(most, FIRST_TURNS) })
  end
  local plain = 1
  while #chosen < most do
    local best, is_plain = heap[1], false
    if found[plain] and (not best or before(found[plain], best)) then best, is_plain = found[plain], true end
    push_behind(best)
    if heap[1] and not (is_plain and before(best, heap[1])) then
      best = pop()
      if best.cursor then
        begin(best)
      else
        take(best)
      end
    elseif is_plain then
      chosen[#chosen + 1] = best
      plain = plain + 1
    else
      break
    end
  end
  return chosen, met
end

-- Calls a command with each list of words, by the end of its key, some at a time.
local function call_each(command, lists, prefix)
  for name, words in pairs(lists) do
    for from = 1, #words, 2000 do
      redis.call(command, KEYS[1] .. prefix .. name, unpack(words, from, math.min(from + 1999, #words)))
    end
  end
end
local function add(lists, name, ...)
  local list = lists[name]
  if not list then
    list = {}
    lists[name] = list
  end
  for n = 1, select('#', ...) do list[#list + 1] = (select(n, ...)) end
end

-- Writes the turns of keys that were met, as the claim has left them.
local function write_turns(met, now)
  local outdated, turns, heads, gone, idle, blocked, rates = {}, {}, {}, {}, {}, {}, {}
  for n = 1, #met do
    local one = met[n]
    local state, full, opens = one.state, is_full(one.state), opens_at(one.state)
    local waits = full or opens > now
    if one.read and not one.next then -- it has no further job
      add(gone, one.group, one.key)
      add(idle, '', state.name .. '\n' .. one.key)
    elseif waits then
      add(heads, one.group, one.key, '')
      if full then
        add(blocked, state.name, 0, (key_range(one.key)) .. one.group)
      else
        add(rates, one.group, opens, one.key)
      end
    else
      local new = turn_of(one.next, state.served_at)
      add(turns, one.group, 0, new .. one.key)
      add(heads, one.group, one.key, new)
    end
    add(outdated, one.group, one.turn)
  end
  call_each('ZREM', outdated, ':turns:')
  call_each('ZADD', turns, ':turns:')
  call_each('HSET', heads, ':turn:')
  call_each('HDEL', gone, ':turn:')
  call_each('ZADD', blocked, ':blocked:')
  call_each('ZADD', rates, ':rates:')
  for _, limit_keys in pairs(idle) do add_idle(limit_keys) end
end

-- Writes what the claim has given, and from when on each key that was met may give again. `taken` are its jobs, with their
-- ids in `ids`: those that were chosen, if `all`.
local function write_limited(taken, ids, met, now, all)
  local served, places, starts = {}, {}, {}
  if not all then
    states, limits = {}, {}
    for n = 1, #met do
      met[n].state = state_of(met[n].limit, met[n].key)
      is_full(met[n].state) -- counts before its jobs are written
    end
    for n = 1, #taken do give(taken[n].source.state, now) end
  end
  local written = {}
  for n = 1, #taken do
    local source = taken[n].source
    local state = source.state
    add(places, source.limit, 0, (key_range(source.key)) .. ids[n])
    if state.limit.total then starts[source.limit] = (starts[source.limit] or 0) + 1 end
    if not written[state] then
      written[state] = true
      add(served, source.limit, source.key, string.format('%.0f %.0f', state.rate_at, state.served_at))
    end
  end
  call_each('ZADD', places, ':running:')
  call_each('HSET', served, ':served:')
  for limit, count in pairs(starts) do redis.call('HINCRBY', KEYS[1] .. ':starts', limit, count) end
  if not all then
    for n = 1, #met do
      local one, prefix, last = met[n], key_range(met[n].key)
      local first = redis.call('ZRANGEBYLEX', KEYS[1] .. ':ready:' .. one.group, '[' .. prefix, last, 'LIMIT', 0, 1)[1]
      one.next, one.read = first and string.sub(first, #prefix + 1), true
    end
  end
  write_turns(met, now)
end
