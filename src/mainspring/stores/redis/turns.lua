-- Jobs with a limit: the turns of the keys that have ready ones; it is put before each script that changes `ready`.
-- A limited group is a queue, a task and a limit's name, divided by zero bytes. A limit_key is that name and a key. Its sets `ready` and `later` have each job's key
-- (two bytes with its length, and the key) before its entry in the order of claims. Beside them are, by group:
-- `turns`, the sorted set of keys that may give a job: what a claim compares of the first one, and the key; the hash
-- `turn`, that part by key, or '' for a key that has to wait; `rates`, when a key that waits for its rate may go on.
-- By limit_key: `running`, the set of running jobs, which of a limit has the key before each; `blocked`, the groups in which it waits for one of
-- them to end; the hash `served`, by limit, with two instants of a key, for the rate and for the order; `idle`, keys that may have no more jobs.
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
local function instant_bytes(at)
  local bytes, rest = {}, math.max(at, 0)
  for n = 8, 1, -1 do
    bytes[n] = rest % 256
    rest = math.floor(rest / 256)
  end
  return string.char(unpack(bytes))
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
  return string.sub(entry .. string.rep('\0', TURN_BYTES - #entry), 1, TURN_BYTES)
end

-- The instants of a limit and key: from which on the rate counts, and when it was served last.
local function served_of(limit_key)
  local limit, key = string.match(limit_key, '^([^\n]*)\n(.*)$')
  local text = redis.call('HGET', KEYS[1] .. ':served:' .. limit, key)
  if not text then return 0, 0 end
  local rate_at, served_at = string.match(text, '^(%d+) (%d+)$')
  return tonumber(rate_at), tonumber(served_at)
end

local function limit_of(group)
  return string.match(group, '^%Z*%z%Z*%z(.*)$')
end

-- Has the next claim look whether the key has no jobs any more.
local function may_be_idle(limit_key)
  local limit, key = string.match(limit_key, '^([^\n]*)\n(.*)$')
  if redis.call('HEXISTS', KEYS[1] .. ':served:' .. limit, key) == 1 then
    redis.call('ZADD', KEYS[1] .. ':idle', 0, limit_key)
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
  local base, limit_key = KEYS[1] .. ':', limit_of(group) .. '\n' .. key
  local old = redis.call('HGET', base .. 'turn:' .. group, key)
  local prefix, last = key_range(key)
  local first = redis.call('ZRANGEBYLEX', base .. 'ready:' .. group, '[' .. prefix, last, 'LIMIT', 0, 1)[1]
  local new = false
  if first then
    if old == '' then return end
    local _, served_at = served_of(limit_key)
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
  may_be_idle(limit_key)
end

-- Takes the mark from a key that had to wait, and gives it its turn again.
local function end_wait(group, key)
  if redis.call('HGET', KEYS[1] .. ':turn:' .. group, key) == '' then
    redis.call('HDEL', KEYS[1] .. ':turn:' .. group, key)
  end
  update_turn(group, key)
end

-- Gives their turn to the groups in which a limit and key has waited for a running job to end.
local function free_place(limit_key)
  if redis.call('EXISTS', KEYS[1] .. ':running:' .. limit_key) == 0 then may_be_idle(limit_key) end
  local blocked = KEYS[1] .. ':blocked:' .. limit_key
  local groups, key = redis.call('SMEMBERS', blocked), string.match(limit_key, '^[^\n]*\n(.*)$')
  if not groups[1] then return end
  redis.call('DEL', blocked)
  for n = 1, #groups do end_wait(groups[n], key) end
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
