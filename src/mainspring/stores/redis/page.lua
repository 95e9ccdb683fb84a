-- Reads a page of schedules by name.
-- ARGV: the lower bound, as ZRANGEBYLEX takes it; how many at most.
-- Returns 1 if the index by name has all schedules, else 0; the names; the records.
local base = KEYS[1] .. ':'
local names = redis.call('ZRANGEBYLEX', base .. 'schedules', ARGV[1], '+', 'LIMIT', 0, ARGV[2])
local whole = redis.call('ZCARD', base .. 'schedules') == redis.call('HLEN', base .. 'schedule')
local texts = names[1] and redis.call('HMGET', base .. 'schedule', unpack(names)) or {}
for n = 1, #texts do whole = whole and texts[n] end
return { whole and 1 or 0, names, texts }
