-- Returns the ids that are in one of some sorted sets at least.
-- ARGV: the number of sets; their keys, without the base; the ids.
local base, last, call, found = KEYS[1] .. ':', tonumber(ARGV[1]) + 1, redis.call, {}
for n = last + 1, #ARGV do
  for key = 2, last do
    if call('ZSCORE', base .. ARGV[key], ARGV[n]) then
      found[#found + 1] = ARGV[n]
      break
    end
  end
end
return found
