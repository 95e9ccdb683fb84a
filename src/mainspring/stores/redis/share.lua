-- What one home has to do with a step: `words` are how many fields were read; for each its hash, the field, "=" and the
-- value or "-" and ""; then for each command how many words it has, and the words. This part goes before other scripts.
local base = KEYS[1] .. ':'

local function fields(words, at, call)
  for n = at + 1, at + 4 * tonumber(words[at]), 4 do
    local answer = call(words[n], words[n + 1], words[n + 2] == '=' and words[n + 3])
    if answer then return answer end
  end
end

-- The step that has promised to change one of the fields, if there is one.
local function held(words, at)
  if redis.call('EXISTS', base .. 'lock') == 0 then return false end
  return fields(words, at, function(key, field) return redis.call('HGET', base .. 'lock', key .. '\0' .. field) end)
end

local function stale(words, at)
  return fields(words, at, function(key, field, value) return redis.call('HGET', key, field) ~= value end)
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

local function run(words, at)
  at = at + 4 * tonumber(words[at]) + 1
  while words[at] do
    local count = tonumber(words[at])
    if words[at + 1] == 'GROUP' then
      mend(string.sub(words[at + 2], #base + 1))
    else
      redis.call(unpack(words, at + 1, at + count))
    end
    at = at + count + 1
  end
end
