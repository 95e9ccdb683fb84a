-- Functions of the scripts that run units: it is put before each of them.
-- KEYS[1] is the base of the shard.
--
-- A unit is a list of words: the number of conditions; for each condition a key, a field, an operator and a value; then
-- for each command the number of its words, and the words. Operators: "=" the hash field has the value; "-" the hash
-- has no such field; "~" the set has as many members as the field says, and they are those in the value, each between
-- zero bytes; "!" the field is not a member of the set. The command "GROUP" names a group whose entries were changed;
-- "FREE" a limited group and the key of a running job that has ended; "NEW" adds the job of a step (add_step).
local base = KEYS[1] .. ':'

-- Calls `call` with each condition of the unit at `at`, until it returns a true value, which is returned.
local function fields(words, at, call)
  for n = at + 1, at + 4 * tonumber(words[at]), 4 do
    local answer = call(words[n], words[n + 1], words[n + 2], words[n + 3])
    if answer then return answer end
  end
end

-- The transaction, other than our own, that locks a field of the unit; false or nil if there is none.
local function locked_by(words, at, mine)
  if not has_locks() then return false end
  return fields(words, at, function(key, field)
    local transaction = lock_of(key, field)
    return transaction and transaction ~= mine and transaction
  end)
end

-- Whether a condition does not hold.
local function differs(key, field, operator, value)
  if operator == '=' then return redis.call('HGET', key, field) ~= value end
  if operator == '-' then return redis.call('HEXISTS', key, field) == 1 end
  local members = redis.call('SMEMBERS', key)
  if operator == '~' and #members ~= tonumber(field) then return true end
  for n = 1, #members do
    if operator == '~' and not string.find(value, '\0' .. members[n] .. '\0', 1, true) then return true end
    if operator == '!' and members[n] == field then return true end
  end
  return false
end

-- Whether some condition of the unit does not hold.
local function stale(words, at)
  return fields(words, at, differs)
end

-- Records whether a group has ready jobs, and when its next job is due.
local function update_group(name)
  local group, key = group_and_key(name)
  if key then
    update_turn(group, key)
  else
    redis.call(redis.call('EXISTS', base .. 'ready:' .. group) == 1 and 'SADD' or 'SREM', base .. 'stocked', group)
  end
  update_later(group)
end

-- Adds a job of a step that was not there: the name of its group, the set of the group that gets it (ready or later), its
-- score there, the beginning of its entry there, its record, its flow, and its position with its id.
local function add_step(changed, group, which, score, head, record, flow, entry)
  local id, name = string.sub(entry, 9), string.sub(group, #base + 1)
  redis.call('HSET', base .. 'job', id, record)
  redis.call('ZADD', base .. 'made:' .. name, 0, id)
  redis.call('SADD', base .. 'groups', name)
  redis.call('ZADD', base .. which .. ':' .. name, score, head .. id)
  redis.call('ZADD', base .. 'steps:open:' .. flow, 0, entry)
  changed[name] = true
end

-- Runs the commands of a unit that ends before `last`. Adds the groups that it names to `changed`.
local function execute(words, at, last, changed)
  at = at + 4 * tonumber(words[at]) + 1
  while at < last do
    local count = tonumber(words[at])
    if words[at + 1] == 'GROUP' then
      changed[string.sub(words[at + 2], #base + 1)] = true
    elseif words[at + 1] == 'FREE' then
      local group, key = group_and_key(string.sub(words[at + 2], #base + 1))
      free_places(group, { key })
    elseif words[at + 1] == 'NEW' then
      add_step(changed, unpack(words, at + 2, at + count))
    else
      redis.call(unpack(words, at + 1, at + count))
    end
    at = at + count + 1
  end
end

local function update_groups(changed)
  local groups = {}
  for group in pairs(changed) do
    update_group(group)
    if not limit_of(group) then groups[#groups + 1] = group end
  end
  if has_heads() then update_heads(groups) end
end

-- Calls `call` with the start and the end of each unit in ARGV, and returns the answers. From `at` on ARGV has, for
-- each unit, the number of its words and the words.
local function units(at, call)
  local answers = {}
  while ARGV[at] do
    local last = at + 1 + tonumber(ARGV[at])
    answers[#answers + 1] = call(at + 1, last)
    at = last
  end
  return answers
end
