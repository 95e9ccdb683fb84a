-- Reads due schedules, and some of the next ones.
-- ARGV: now; how many due schedules to skip; how many to return at most; the same two for schedules that are due later.
-- Returns two lists with name, record and due time of each schedule, flat. The second is empty if the first is full.
local base = KEYS[1] .. ':'
local function rows(entries)
  local found = {}
  for from = 1, #entries, 1000 do
    local names = {}
    for n = from, math.min(from + 998, #entries), 2 do names[#names + 1] = entries[n] end
    local texts = redis.call('HMGET', base .. 'schedule', unpack(names))
    for n = 1, #texts do
      found[#found + 1] = entries[from + 2 * n - 2]
      found[#found + 1] = texts[n]
      found[#found + 1] = entries[from + 2 * n - 1]
    end
  end
  return found
end
local key = base .. 'due'
local due = redis.call('ZRANGEBYSCORE', key, '-inf', ARGV[1], 'WITHSCORES', 'LIMIT', ARGV[2], ARGV[3])
if #due == 2 * ARGV[3] then return { rows(due), {} } end
local ahead = redis.call('ZRANGEBYSCORE', key, '(' .. ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', ARGV[4], ARGV[5])
return { rows(due), rows(ahead) }
