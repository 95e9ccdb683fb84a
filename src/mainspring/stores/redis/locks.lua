-- The locks of the two-phase commit (two_phase.py) as other scripts see them; it is put before each of those.
-- KEYS[1] is the base of the shard. The hash `lock` has, for a key and a field, the transaction that locks it.
local function has_locks()
  return redis.call('EXISTS', KEYS[1] .. ':lock') == 1
end

-- The transaction that locks a field of a hash; false if there is none.
local function lock_of(key, field)
  return redis.call('HGET', KEYS[1] .. ':lock', key .. '\0' .. field)
end
