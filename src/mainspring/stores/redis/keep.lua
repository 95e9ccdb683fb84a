-- Stores checkpoints of runs that go on. Of a name that is told twice the first one is kept.
-- KEYS[1] is the base of the shard.
-- ARGV: for each report: the id of its job, the id as text, its lease, the number of its checkpoints, and for each of these
-- its name and its text.
-- Returns for each report: 1 if it is accepted, 0 if its run is over, 2 if a transaction locks the job: nothing is written.
local base, at, answers = KEYS[1] .. ':', 1, {}
local locks = has_locks()
while ARGV[at] do
  local id, head, last = ARGV[at], ARGV[at + 2] .. '\0', at + 3 + 2 * tonumber(ARGV[at + 3])
  local claim = redis.call('HGET', base .. 'run', id)
  local answer = claim and string.sub(claim, 1, #head) == head and 1 or 0
  if locks and lock_of(base .. 'job', id) then answer = 2 end
  if answer == 1 then
    for n = at + 4, last, 2 do
      redis.call('HSETNX', base .. 'checkpoint:' .. ARGV[at + 1], ARGV[n], ARGV[n + 1])
    end
  end
  answers[#answers + 1] = answer
  at = last + 1
end
return answers
