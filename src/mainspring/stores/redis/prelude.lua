-- What one home has to do with a step. A unit is a list of words: the number of conditions; for each condition a key, a
-- field, an operator and a value; then for each command the number of its words, and the words. Operators: "=" the hash
-- field has the value, "-" the hash has no such field, "~" the set has as many members as the field says, and they are
-- those of the value, each between zero bytes, "!" the field is no member of the set. This part goes before other scripts.
local base = KEYS[1] .. ':'

local function fields(words, at, call)
  for n = at + 1, at + 4 * tonumber(words[at]), 4 do
    local answer = call(words[n], words[n + 1], words[n + 2], words[n + 3])
    if answer then return answer end
  end
end

-- The step, other than our own, that has locked one of the fields, if there is one.
local function held(words, at, mine)
  if redis.call('EXISTS', base .. 'lock') == 0 then return false end
  return fields(words, at, function(key, field)
    local step = redis.call('HGET', base .. 'lock', key .. '\0' .. field)
    return step and step ~= mine and step
  end)
end

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

local function stale(words, at)
  return fields(words, at, differs)
end

-- A group of which something was added or removed: whether claims find something there, and when the next will be due.
local function mend(group)
  redis.call(redis.call('EXISTS', base .. 'ready:' .. group) == 1 and 'SADD' or 'SREM', base .. 'stocked', group)
  local first = redis.call('ZRANGE', base .. 'later:' .. group, 0, 0, 'WITHSCORES')
  if first[2] then
    redis.call('ZADD', base .. 'next', first[2], group)
  else
    redis.call('ZREM', base .. 'next', group)
  end
end

-- Runs the commands of a unit that ends before `last`; `stirred` gets the groups that are to be mended at the end.
local function run(words, at, last, stirred)
  at = at + 4 * tonumber(words[at]) + 1
  while at < last do
    local count = tonumber(words[at])
    if words[at + 1] == 'GROUP' then
      stirred[string.sub(words[at + 2], #base + 1)] = true
    else
      redis.call(unpack(words, at + 1, at + count))
    end
    at = at + count + 1
  end
end

local function mend_all(stirred)
  for group in pairs(stirred) do mend(group) end
end

-- Calls with the first word and the end of each unit: from `at` on stand, for each, the number of its words, and those.
local function units(at, call)
  local answers = {}
  while ARGV[at] do
    local last = at + 1 + tonumber(ARGV[at])
    answers[#answers + 1] = call(at + 1, last)
    at = last
  end
  return answers
end
