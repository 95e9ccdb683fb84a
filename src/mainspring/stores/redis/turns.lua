-- Jobs with a limit: the turns of the keys that have ready ones; it is put before each script that changes `ready`.
-- A limited group is a queue, a task and a limit's name, divided by zero bytes. A limit_key is that name and a key.
-- The group's sets `ready` and `later` have each job's key (two bytes with its length, and the key) before its entry in the
-- order of claims. Beside them are, by group: `turns`, the sorted set of keys that may give a job: what a claim compares of
-- the first one, and the key; the hash `turn`, that part by key, or '' for a key that has to wait; `rates`, when a key that
-- waits for its rate may go on.
-- By limit: `running`, its running jobs behind their keys; `blocked`, keys that wait for one of these to end, with their
-- groups; the hash `served`, two instants by key: for the rate and for the order. `idle` has each limit_key that may have no
-- more jobs.
local LIMITS_VERSION = 6
local TURN_BYTES = 26 -- rank, instant and a UUID; shorter entries are filled up with zero bytes

-- The beginning of a key's entries in its group, and the bound behind them.
local function key_range(key)
  local prefix = string.char(math.floor(#key / 256), #key % 256) .. key
  return prefix, '(' .. prefix .. '\255\255\255'
end

-- The key of an entry in its group.
local function key_in(member)
  local a, b = string.byte(member, 1, 2)
  return string.sub(member, 3, 2 + a * 256 + b)
end

-- An instant in eight bytes, which sort as the instants do.
local encoded = {} -- one claim has the same few many times
local function instant_bytes(at)
  if not encoded[at] then
    local bytes, rest = {}, math.max(at, 0)
    for n = 8, 1, -1 do
      bytes[n] = rest % 256
      rest = math.floor(rest / 256)
    end
    encoded[at] = string.char(unpack(bytes))
  end
  return encoded[at]
end

-- The instant in an entry in the order of claims; nil if it is too short.
local function instant_in(entry)
  local c, d, e, f, g, h, i, j = string.byte(entry, 3, 10)
  return j and ((((((c * 256 + d) * 256 + e) * 256 + f) * 256 + g) * 256 + h) * 256 + i) * 256 + j
end

-- The entry with that instant in place of its own.
local function placed(entry, at)
  return string.sub(entry, 1, 2) .. instant_bytes(at) .. string.sub(entry, 11)
end

-- What a claim compares of an entry whose key was served then. It may be earlier than what the rate allows.
local function turn_of(entry, served_at)
  if instant_in(entry) < served_at then entry = placed(entry, served_at) end
  if #entry == TURN_BYTES then return entry end
  return string.sub(entry .. string.rep('\0', TURN_BYTES - #entry), 1, TURN_BYTES)
end

-- The instants in a value of `served`: from which on the rate counts, and when the key was served last.
local function served_in(text)
  if not text then return 0, 0 end
  local rate_at, served_at = string.match(text, '^(%d+) (%d+)$')
  return tonumber(rate_at), tonumber(served_at)
end

local function limit_of(group)
  return string.match(group, '^%Z*%z%Z*%z(.*)$')
end

-- Has the next claim look whether these keys have no jobs any more.
local function add_idle(limit_keys)
  for from = 1, #limit_keys, 1000 do
    local members = {}
    for n = from, math.min(from + 999, #limit_keys) do
      members[#members + 1] = 0
      members[#members + 1] = limit_keys[n]
    end
    redis.call('ZADD', KEYS[1] .. ':idle', unpack(members))
  end
end

-- Releases without limits are shut out (releases.py).
local function shut_out_older()
  local meta = KEYS[1] .. ':meta'
  if tonumber(redis.call('HGET', meta, 'oldest') or 0) < LIMITS_VERSION then
    redis.call('HSET', meta, 'oldest', LIMITS_VERSION, 'turns', 'upgrade mainspring: this store has limits')
  end
end

-- Makes the turn of a key match its first ready job. A key that waits stays where it is.
local function update_turn(group, key)
  local base, limit = KEYS[1] .. ':', limit_of(group)
  local old = redis.call('HGET', base .. 'turn:' .. group, key)
  local prefix, last = key_range(key)
  local first = redis.call('ZRANGEBYLEX', base .. 'ready:' .. group, '[' .. prefix, last, 'LIMIT', 0, 1)[1]
  local new = false
  if first then
    if old == '' then return end
    local _, served_at = served_in(redis.call('HGET', base .. 'served:' .. limit, key))
    new = turn_of(string.sub(first, #prefix + 1), served_at)
    if new == old then return end
  end
  if old and old ~= '' then redis.call('ZREM', base .. 'turns:' .. group, old .. key) end
  if new then
    if redis.call('SADD', base .. 'limited', group) == 1 then shut_out_older() end
    redis.call('ZADD', base .. 'turns:' .. group, 0, new .. key)
    redis.call('HSET', base .. 'turn:' .. group, key, new)
    return
  end
  if old then
    redis.call('HDEL', base .. 'turn:' .. group, key)
    redis.call('ZREM', base .. 'rates:' .. group, key)
  end
  add_idle({ limit .. '\n' .. key })
end

-- Takes the mark from a key that had to wait, and gives it its turn again.
local function end_wait(group, key)
  if redis.call('HGET', KEYS[1] .. ':turn:' .. group, key) == '' then
    redis.call('HDEL', KEYS[1] .. ':turn:' .. group, key)
  end
  update_turn(group, key)
end

-- Gives their turns to keys of a limit that have waited for a running job to end: one has ended of each, in this group.
local function free_places(group, keys)
  local base, limit = KEYS[1] .. ':', limit_of(group)
  local blocked = base .. 'blocked:' .. limit
  if redis.call('EXISTS', blocked) == 1 then
    for n = 1, #keys do
      local prefix, last = key_range(keys[n])
      local waiting = redis.call('ZRANGEBYLEX', blocked, '[' .. prefix, last)
      if waiting[1] then redis.call('ZREM', blocked, unpack(waiting)) end
      for _, member in ipairs(waiting) do end_wait(string.sub(member, #prefix + 1), keys[n]) end
    end
  end
  local idle = {}
  for from = 1, #keys, 1000 do
    local last = math.min(from + 999, #keys)
    local turns = redis.call('HMGET', base .. 'turn:' .. group, unpack(keys, from, last))
    for n = from, last do
      if not turns[n - from + 1] then idle[#idle + 1] = limit .. '\n' .. keys[n] end
    end
  end
  add_idle(idle)
end

-- Records a limited group's first later job.
local function update_later(group)
  local base = KEYS[1] .. ':'
  local first = redis.call('ZRANGE', base .. 'later:' .. group, 0, 0, 'WITHSCORES')
  if first[2] then
    redis.call('ZADD', base .. 'next', first[2], group)
  else
    redis.call('ZREM', base .. 'next', group)
  end
end

-- The limited group and the key of a queue, a task and a limit_key. A group of jobs without a limit has no key.
local function group_and_key(name)
  local group, key = string.match(name, '^(%Z*%z%Z*%z[^\n]*)\n(.*)$')
  if group then return group, key end
  return name
end
