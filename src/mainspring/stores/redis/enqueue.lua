-- Adds jobs without tags, schedule or expiry. A job whose id exists is left as it is.
-- KEYS[1] is the base of the shard.
-- ARGV: the topic to publish; the number of jobs; the number of their keys; ids and records alternately; keys and ids
-- alternately; the entries in `keys`, as ZADD takes them; then for each group its name, the numbers of arguments for its
-- sets made, ready, later and limited, and these arguments, as ZADD takes them. The name of a limited group has the key.
-- Returns 1; 0 if there are keys and it wrote nothing, since a key is held, a job exists, or a transaction has locks.
local base, jobs, keys = KEYS[1] .. ':', tonumber(ARGV[2]), tonumber(ARGV[3])
local known, any = {}, false
local ids = {}
for n = 1, jobs do ids[n] = ARGV[2 * n + 2] end
for from = 1, jobs, 1000 do
  local found = redis.call('HMGET', base .. 'job', unpack(ids, from, math.min(from + 999, jobs)))
  for n = 1, #found do
    if found[n] then
      known[ids[from + n - 1]] = true
      any = true
    end
  end
end
if redis.call('EXISTS', base .. 'moved') == 1 then
  for n = 1, jobs do
    if redis.call('HEXISTS', base .. 'moved', ids[n]) == 1 then
      known[ids[n]] = true
      any = true
    end
  end
end

local first_key = 2 * jobs + 4
if keys > 0 then
  if any or has_locks() then return 0 end
  local names = {}
  for n = 1, keys do names[n] = ARGV[first_key + 2 * n - 2] end
  for from = 1, keys, 1000 do
    local holders = redis.call('HMGET', base .. 'key', unpack(names, from, math.min(from + 999, keys)))
    for n = 1, #holders do
      if holders[n] then return 0 end
    end
  end
end

-- Calls a command with the pairs in ARGV from `from` to `to` whose job is new. The id is the word `where` (0 or 1) of
-- the pair, after `skip` bytes. Returns whether there was a new job.
local function add(from, to, where, skip, ...)
  local words = ARGV
  if any then
    words = {}
    for n = from, to, 2 do
      if not known[string.sub(ARGV[n + where], skip + 1)] then
        words[#words + 1] = ARGV[n]
        words[#words + 1] = ARGV[n + 1]
      end
    end
    from, to = 1, #words
  end
  local command, key = ...
  for n = from, to, 2000 do redis.call(command, key, unpack(words, n, math.min(n + 1999, to))) end
  return from <= to
end

local new = add(4, first_key - 1, 0, 0, 'HSET', base .. 'job')
local first_entry, at = first_key + 2 * keys, first_key + 4 * keys
add(first_key, first_entry - 1, 1, 0, 'HSET', base .. 'key')
add(first_entry, at - 1, 1, 0, 'ZADD', base .. 'keys')
local stocked = {}
while ARGV[at] do
  local order, key = group_and_key(ARGV[at])
  local name, skip = order, 10
  if key then name, skip = string.match(order, '^%Z*%z%Z*'), 12 + #key end
  local made = at + 5
  local ready = made + ARGV[at + 1]
  local later = ready + ARGV[at + 2]
  local listed = later + ARGV[at + 3]
  at = listed + ARGV[at + 4]
  if add(made, ready - 1, 1, 0, 'ZADD', base .. 'made:' .. name) then redis.call('SADD', base .. 'groups', name) end
  if add(ready, later - 1, 1, skip, 'ZADD', base .. 'ready:' .. order) then
    if key then
      update_turn(order, key)
    else
      redis.call('SADD', base .. 'stocked', name)
      stocked[#stocked + 1] = name
    end
  end
  if add(later, listed - 1, 1, skip, 'ZADD', base .. 'later:' .. order) then update_later(order) end
  add(listed, at - 1, 1, 10, 'ZADD', base .. 'limited:' .. name)
end
if has_heads() then update_heads(stocked) end
if new then redis.call('PUBLISH', KEYS[1], ARGV[1]) end
return 1
