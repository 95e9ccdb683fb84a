-- Writes each unit whose conditions hold, within one shard.
-- ARGV: the lock that the caller holds, or ''; the topic to publish if anything was written, or ''; the units.
-- Returns for each unit 1 if it was written, 0 if a condition does not hold, or the transaction that locks a field.
local changed, any = {}, false
local answers = units(3, function(at, last)
  local other = locked_by(ARGV, at, ARGV[1])
  if other then return other end
  if stale(ARGV, at) then return 0 end
  execute(ARGV, at, last, changed)
  any = true
  return 1
end)
update_groups(changed)
if any and ARGV[2] ~= '' then redis.call('PUBLISH', KEYS[1], ARGV[2]) end
return answers
