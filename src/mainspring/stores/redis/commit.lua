-- Writes each unit whose conditions hold. Answers for each: 1, 0, or the step that has locked one of its fields.
-- ARGV: our own lock, or nothing; the word that is published if anything was written, or nothing; the units.
local stirred, any = {}, false
local answers = units(3, function(at, last)
  local other = held(ARGV, at, ARGV[1])
  if other then return other end
  if stale(ARGV, at) then return 0 end
  run(ARGV, at, last, stirred)
  any = true
  return 1
end)
mend_all(stirred)
if any and ARGV[2] ~= '' then redis.call('PUBLISH', KEYS[1], ARGV[2]) end
return answers
