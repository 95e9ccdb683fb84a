-- Forgets keys of limits that have no jobs any more, as a claim does.
-- KEYS[1] is the base of the shard. ARGV: now.
forget_idle(tonumber(ARGV[1]))
