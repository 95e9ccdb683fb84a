-- Removes names from registers whose keys do not exist any more.
-- ARGV: for each name the register, the prefix of its key, and the name.
-- Returns the number of names removed.
local base, gone = KEYS[1] .. ':', 0
for at = 1, #ARGV, 3 do
  if redis.call('EXISTS', base .. ARGV[at + 1] .. ARGV[at + 2]) == 0 then
    gone = gone + redis.call('SREM', base .. ARGV[at], ARGV[at + 2])
  end
end
return gone
