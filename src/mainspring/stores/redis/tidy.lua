-- Removes names behind which there is nothing any more. ARGV: for each the register, what the key begins with, the name.
local base, gone = KEYS[1] .. ':', 0
for at = 1, #ARGV, 3 do
  if redis.call('EXISTS', base .. ARGV[at + 1] .. ARGV[at + 2]) == 0 then
    gone = gone + redis.call('SREM', base .. ARGV[at], ARGV[at + 2])
  end
end
return gone
