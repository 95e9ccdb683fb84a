-- Reads the items of the feed after a number.
-- ARGV: the number; how many items at most; until when the caller wants the feed in microseconds, 0 if it does not say.
-- Returns the newest number, the number of items kept, the items, and until when the feed was wanted before (or false).
local base, after, limit, wanted = KEYS[1] .. ':', tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local watched = redis.call('HGET', base .. 'meta', 'watched')
if wanted > tonumber(watched or 0) then redis.call('HSET', base .. 'meta', 'watched', ARGV[3]) end
local last = tonumber(redis.call('HGET', base .. 'meta', 'told') or 0)
local kept = redis.call('LLEN', base .. 'news')
local skip = math.max(after - (last - kept), 0)
if skip >= kept or limit < 1 then return { last, kept, {}, watched } end
return { last, kept, redis.call('LRANGE', base .. 'news', skip, skip + limit - 1), watched }
