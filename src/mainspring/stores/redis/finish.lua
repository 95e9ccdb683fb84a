-- Plain ends, all of them or, if one does not stand or means more than that, none: 0.
-- ARGV: channel's word; how many counts, those; then for each run its job's id, lease, finished_at and the rest of what is said.
local base = KEYS[1] .. ':'
if redis.call('EXISTS', base .. 'circuit', base .. 'lock') > 0 then return 0 end
local counts = tonumber(ARGV[2])
local ids = {}
for at = 3 + counts, #ARGV, 4 do ids[#ids + 1] = ARGV[at] end
local ends, held, ended, workers, tasks = {}, {}, {}, {}, {}
for from = 1, #ids, 1000 do
  local runs = redis.call('HMGET', base .. 'run', unpack(ids, from, math.min(from + 999, #ids)))
  for n = 1, #runs do
    if not runs[n] then return 0 end
    local at = 3 + counts + (from + n - 2) * 4
    local lease, worker, started, letter, _, task = string.match(runs[n], '^(%Z*)%z(%Z*)%z(%Z*)%z(.)%z(%Z*)%z(.*)$')
    if lease ~= ARGV[at + 1] or (string.byte(letter) - 64) % 4 > 0 or (string.byte(letter) - 64) % 16 >= 8 then
      return 0
    end
    ends[#ends + 1] = ARGV[at]
    ends[#ends + 1] = lease .. '\0' .. worker .. '\0' .. started .. '\0' .. ARGV[at + 2] .. '\0' .. ARGV[at + 3]
    if not held[worker] then
      held[worker] = {}
      workers[#workers + 1] = worker
    end
    table.insert(held[worker], ARGV[at])
    if not ended[task] then
      ended[task] = {}
      tasks[#tasks + 1] = task
    end
    table.insert(ended[task], ARGV[at + 2])
    table.insert(ended[task], ARGV[at])
  end
end
local function each(list, step, call)
  for from = 1, #list, step do call(unpack(list, from, math.min(from + step - 1, #list))) end
end
each(ids, 1000, function(...) redis.call('HDEL', base .. 'run', ...) end)
each(ends, 2000, function(...) redis.call('HSET', base .. 'end', ...) end)
for _, worker in ipairs(workers) do
  each(held[worker], 1000, function(...) redis.call('SREM', base .. 'held:' .. worker, ...) end)
end
for _, task in ipairs(tasks) do
  each(ended[task], 2000, function(...) redis.call('ZADD', base .. 'ended:completed\0' .. task, ...) end)
  redis.call('SADD', base .. 'ends', 'completed\0' .. task)
end
for n = 3, 2 + counts do redis.call('RPUSH', base .. 'counting', ARGV[n]) end
redis.call('PUBLISH', KEYS[1], ARGV[1])
return 1
