-- Writes what a verb has decided, if everything that it has read is still so: 1, or 0. ARGV: words, as share.lua has them.
local other = held(ARGV, 1)
if other then return other end
if stale(ARGV, 1) then return 0 end
run(ARGV, 1)
return 1
