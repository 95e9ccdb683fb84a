-- The index of groups by their first ready job; it is put before each script that changes `ready`.
-- KEYS[1] is the base of the shard. The sorted set `heads` has a member for each group with ready jobs: the first bytes of
-- its first entry, and its name. The hash `head` has these bytes by group. Both exist only while many groups have ready
-- jobs (claim.lua makes and drops them): few groups are read without an index.
local HEAD_BYTES = 26 -- rank, run_at and a UUID; shorter entries are filled up with zero bytes

local function has_heads()
  return redis.call('EXISTS', KEYS[1] .. ':heads') == 1
end

-- Makes the index and the set `stocked` match the ready jobs of these groups.
local function update_heads(groups)
  local base = KEYS[1] .. ':'
  for from = 1, #groups, 1000 do
    local last = math.min(from + 999, #groups)
    local heads = redis.call('HMGET', base .. 'head', unpack(groups, from, last))
    local outdated, emptied, stocked, members, values = {}, {}, {}, {}, {}
    for n = from, last do
      local group, old = groups[n], heads[n - from + 1]
      local first = redis.call('ZRANGE', base .. 'ready:' .. group, 0, 0)[1]
      local new = first and string.sub(first .. string.rep('\0', HEAD_BYTES - #first), 1, HEAD_BYTES)
      if not first then emptied[#emptied + 1] = group end
      if old and old ~= new then outdated[#outdated + 1] = old .. group end
      if new and old ~= new then
        stocked[#stocked + 1] = group
        members[#members + 1] = 0
        members[#members + 1] = new .. group
        values[#values + 1] = group
        values[#values + 1] = new
      end
    end
    if outdated[1] then redis.call('ZREM', base .. 'heads', unpack(outdated)) end
    if emptied[1] then
      redis.call('HDEL', base .. 'head', unpack(emptied))
      redis.call('SREM', base .. 'stocked', unpack(emptied))
    end
    if stocked[1] then
      redis.call('SADD', base .. 'stocked', unpack(stocked))
      redis.call('ZADD', base .. 'heads', unpack(members))
      redis.call('HSET', base .. 'head', unpack(values))
    end
  end
end

-- The groups with ready jobs that the index lacks.
local function missing_heads()
  local base, missing = KEYS[1] .. ':', {}
  local groups = redis.call('SMEMBERS', base .. 'stocked')
  for from = 1, #groups, 1000 do
    local heads = redis.call('HMGET', base .. 'head', unpack(groups, from, math.min(from + 999, #groups)))
    for n = 1, #heads do
      if not heads[n] then missing[#missing + 1] = groups[from + n - 1] end
    end
  end
  return missing
end
