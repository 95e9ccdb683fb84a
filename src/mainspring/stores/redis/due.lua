-- Schedules that are due, and a few of the next ones, each as its name, its text and its instant. ARGV: now; how many of those
-- that are due were seen before; how many more are wanted; the same two of the next ones.
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
