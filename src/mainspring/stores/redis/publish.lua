-- Appends items to the feed, numbers them on from the newest, and drops the oldest.
-- ARGV: how many items to keep; the number to continue from if it is greater than the newest, which drops all items
-- (after a data loss; else 0); the items.
-- Returns until when the feed has readers, false if there were none.
local base = KEYS[1] .. ':'
if tonumber(ARGV[2]) > tonumber(redis.call('HGET', base .. 'meta', 'told') or 0) then
  redis.call('DEL', base .. 'news')
  redis.call('HSET', base .. 'meta', 'told', ARGV[2])
end
for from = 3, #ARGV, 1000 do
  redis.call('RPUSH', base .. 'news', unpack(ARGV, from, math.min(from + 999, #ARGV)))
end
redis.call('LTRIM', base .. 'news', -tonumber(ARGV[1]), -1)
redis.call('HINCRBY', base .. 'meta', 'told', #ARGV - 2)
return redis.call('HGET', base .. 'meta', 'watched')
