-- The newest number, how many are kept, and those from beyond a number. ARGV: that number; how many at most.
local base, after, limit = KEYS[1] .. ':', tonumber(ARGV[1]), tonumber(ARGV[2])
local last = tonumber(redis.call('HGET', base .. 'meta', 'told') or 0)
local kept = redis.call('LLEN', base .. 'news')
local skip = math.max(after - (last - kept), 0)
if skip >= kept or limit < 1 then return { last, kept, {} } end
return { last, kept, redis.call('LRANGE', base .. 'news', skip, skip + limit - 1) }
