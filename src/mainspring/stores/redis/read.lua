-- Reads the stored values of jobs, but for records that are large.
-- ARGV: the most bytes of a record with its end; '1' to leave out jobs with an end; the ids.
-- Returns for each job its values in the hashes job, run and end; or the size of a large one in place of the first.
local base, most, unfinished = KEYS[1] .. ':', tonumber(ARGV[1]), ARGV[2] == '1'
local job, ended = base .. 'job', base .. 'end'
local call, found, ids, places = redis.call, {}, {}, {}
for n = 3, #ARGV do
  local id, at = ARGV[n], 3 * (n - 3)
  local ending = call('HSTRLEN', ended, id)
  found[at + 1], found[at + 2], found[at + 3] = false, false, false
  if ending == 0 or not unfinished then
    local size = call('HSTRLEN', job, id)
    if size + ending > most then
      found[at + 1] = size + ending
    elseif size > 0 then
      ids[#ids + 1], places[#places + 1] = id, at
      if ending > 0 then found[at + 3] = call('HGET', ended, id) end
    end
  end
end
if ids[1] then
  local jobs, runs = call('HMGET', job, unpack(ids)), call('HMGET', base .. 'run', unpack(ids))
  for n = 1, #ids do found[places[n] + 1], found[places[n] + 2] = jobs[n], runs[n] end
end
return found
