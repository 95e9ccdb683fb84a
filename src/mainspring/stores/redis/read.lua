-- Reads the stored values of jobs, but for records that are large.
-- ARGV: the most bytes of a record with its end; '1' to leave out jobs with an end; the ids.
-- Returns for each job its values in the hashes job, run and end; or the size of a large one in place of the first.
local base, most, unfinished = KEYS[1] .. ':', tonumber(ARGV[1]), ARGV[2] == '1'
local job, run, ended = base .. 'job', base .. 'run', base .. 'end'
local call, found, at = redis.call, {}, 0
for n = 3, #ARGV do
  local id = ARGV[n]
  local ending = call('HSTRLEN', ended, id)
  found[at + 1], found[at + 2], found[at + 3] = false, false, false
  if ending == 0 or not unfinished then
    local size = call('HSTRLEN', job, id)
    if size + ending > most then
      found[at + 1] = size + ending
    elseif size > 0 then
      found[at + 1] = call('HGET', job, id)
      -- The claim of a job with an end tells nothing more.
      if ending > 0 then found[at + 3] = call('HGET', ended, id) else found[at + 2] = call('HGET', run, id) end
    end
  end
  at = at + 3
end
return found
