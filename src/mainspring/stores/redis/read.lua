-- Reads the stored values of jobs, but for records that are large.
-- ARGV: the most bytes of a record with its end; '1' to leave out jobs with an end; the ids.
-- Returns for each job its values in the hashes job, run and end; or the size of a large one in place of the first.
local base, most, unfinished = KEYS[1] .. ':', tonumber(ARGV[1]), ARGV[2] == '1'
local job, run, ended = base .. 'job', base .. 'run', base .. 'end'
local call, found = redis.call, {}
for n = 3, #ARGV do
  local id, at = ARGV[n], 3 * (n - 3)
  local ending, size = call('HSTRLEN', ended, id), 0
  found[at + 1], found[at + 2], found[at + 3] = false, false, false
  if ending == 0 or not unfinished then size = call('HSTRLEN', job, id) end
  if size + ending > most then
    found[at + 1] = size + ending
  elseif size > 0 then
    found[at + 1], found[at + 2] = call('HGET', job, id), call('HGET', run, id)
    if ending > 0 then found[at + 3] = call('HGET', ended, id) end
  end
end
return found
