-- Adds the items of a request to the job that holds its key, as the rule of rules/collect.py does, if that is simple: the
-- job was only collected into so far, is due later, and does not become full.
-- KEYS[1] is the base of the shard.
-- ARGV: the key; the id of the request; the name of the group; the end of the job's options up to the count of its items;
-- the number of new items; the size and the bytes with which the job is full; the beginning of the payload, and the rest of
-- that of the request; now; the delay after the first item, and after this one ('' if that does not count).
-- Returns the id of the job; false if it wrote nothing.
local base, call = KEYS[1] .. ':', redis.call
local key, id, group, tail, added = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local size, bytes, head, items, now = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8], ARGV[9], tonumber(ARGV[10])
-- The first byte of an array of eleven values in MessagePack: the record of a new job; and a value that is absent.
local NEW_RECORD, NIL = 0x9b, '\192'

local holder = call('HGET', base .. 'key', key)
if not holder or has_locks() then return false end
local record = call('HGET', base .. 'job', holder)
if not record or string.byte(record, 2) ~= NEW_RECORD or call('HEXISTS', base .. 'run', holder) == 1 then return false end
if call('HEXISTS', base .. 'job', id) == 1 or call('HEXISTS', base .. 'moved', id) == 1 then return false end

local readable, job = pcall(cmsgpack.unpack, string.sub(record, 2))
if not readable or job[1] .. '\0' .. job[2] ~= group or job[4] ~= 'pending' or job[7] or job[9] then return false end
local rank, run_at, created_at, options, payload = job[3], job[5], job[6], job[10], job[11]
if run_at <= now then return false end
local begin, count = string.match(options, '^(.*"count":)(%d+)}}$')
if not begin or string.sub(begin, -#tail) ~= tail or count + added >= size then return false end
if string.sub(payload, 1, #head) ~= head or string.sub(payload, -2) ~= ']}' then return false end
payload = string.sub(payload, 1, -3) .. ',' .. items
if #payload > bytes then return false end

local due = created_at + tonumber(ARGV[11])
if ARGV[12] ~= '' then due = math.min(due, now + tonumber(ARGV[12])) end

-- The job's entry in the order of claims, as claim_key() of records.py has it.
local function entry(at)
  local digits, rest = {}, at
  for n = 8, 1, -1 do
    digits[n] = rest % 256
    rest = math.floor(rest / 256)
  end
  local first = 32767 + rank
  return string.char(math.floor(first / 256), first % 256, unpack(digits)) .. holder
end

local later = base .. 'later:' .. group
if due ~= run_at then
  if call('ZREM', later, entry(run_at)) == 0 then return false end
  call('ZADD', later, due, entry(due))
  call('ZADD', base .. 'next', call('ZRANGE', later, 0, 0, 'WITHSCORES')[2], group)
end
local pack = cmsgpack.pack
local values = pack(job[1], job[2], rank, job[4], due, created_at) .. NIL .. pack(job[8]) .. NIL
call('HSET', base .. 'job', holder, string.sub(record, 1, 2) .. values .. pack(begin .. (count + added) .. '}}', payload))
return holder
