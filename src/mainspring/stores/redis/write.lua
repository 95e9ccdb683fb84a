-- Writes one unit if all its conditions hold and none of their fields is locked.
-- ARGV: the topic to publish; the unit.
-- Returns the numbers of the conditions that do not hold or are locked; empty if the unit was written.
local locks, number, broken = has_locks(), 0, {}
fields(ARGV, 2, function(key, field, operator, value)
  number = number + 1
  local locked = locks and lock_of(key, field)
  if locked or differs(key, field, operator, value) then broken[#broken + 1] = number end
end)
if broken[1] then return broken end
local changed = {}
execute(ARGV, 2, #ARGV + 1, changed)
update_groups(changed)
redis.call('PUBLISH', KEYS[1], ARGV[1])
return broken
