-- Reads the items of the feed after a number.
-- ARGV: the number; how many items at most.
-- Returns the newest number, the number of items kept, and the items.
local base, after, limit = KEYS[1] .. ':', tonumber(ARGV[1]), tonumber(ARGV[2])
local last = tonumber(redis.call('HGET', base .. 'meta', 'told') or 0)
local kept = redis.call('LLEN', base .. 'news')
local skip = math.max(after - (last - kept), 0)
if skip >= kept or limit < 1 then return { last, kept, {} } end
return { last, kept, redis.call('LRANGE', base .. 'news', skip, skip + limit - 1) }
