-- Writes one unit, or nothing: then it answers with the numbers of the conditions that do not hold, or whose fields are
-- locked. ARGV: the word that is published; the unit.
local locks, number, broken = redis.call('EXISTS', base .. 'lock') == 1, 0, {}
fields(ARGV, 2, function(key, field, operator, value)
  number = number + 1
  local locked = locks and redis.call('HEXISTS', base .. 'lock', key .. '\0' .. field) == 1
  if locked or differs(key, field, operator, value) then broken[#broken + 1] = number end
end)
if broken[1] then return broken end
local stirred = {}
run(ARGV, 2, #ARGV + 1, stirred)
mend_all(stirred)
redis.call('PUBLISH', KEYS[1], ARGV[1])
return broken
