-- Numbers news on from the newest, and lets go of the oldest; answers until when somebody wants them.
-- ARGV: how many are kept; a number below which none is given any more, which forgets those that were; the news.
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
