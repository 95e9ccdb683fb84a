-- The statements of claim.py: how a worker claims jobs. statement_file.py reads them. {name} stands for a fragment, or
-- for a text that claim.py gives: a list of columns, or what differs between the variants of a statement. No fragment
-- contains another one.
-- tests/golden/statements/claim.sql has every statement as the server gets it.
--
-- The planner uses a partial index only for a statement that contains its condition, so these are written out:
--   crashes < 2 AND NOT parked              mainspring_jobs_ready: queue, task, rank, run_at, id
--   crashes >= 2 AND NOT parked             mainspring_jobs_suspects: jobs that are claimed one at a time
--   expires_at IS NOT NULL AND NOT parked   mainspring_jobs_expiring
-- A job stays in them while it runs, so that a claim writes no index; state = 'pending' passes over it.


-- fragment all_groups
-- Every (queue, task, rank) group with pending jobs, and its first job, by hops along the index: the cost is the number
-- of groups, not of jobs.
groups AS (
    (SELECT queue, task, rank, run_at, id AS head FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
        ORDER BY queue, task, rank, run_at, id LIMIT 1)
    UNION ALL
    SELECT hop.* FROM groups CROSS JOIN LATERAL (
        SELECT queue, task, rank, run_at, id FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
            AND (queue, task, rank) > (groups.queue, groups.task, groups.rank)
        ORDER BY queue, task, rank, run_at, id LIMIT 1) AS hop)

-- fragment known_groups
-- The groups of a BacklogCursor instead, each with its first job behind the last one that was claimed from it.
groups AS (
    SELECT queue, task, rank, job.* FROM unnest($7::text[], $8::text[], $9::integer[], $10::bigint[], $11::text[])
        AS known (queue, task, rank, run_at, after)
    CROSS JOIN LATERAL (
        SELECT run_at, id AS head FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
            AND queue = known.queue AND task = known.task AND rank = known.rank
            AND (run_at, id) > (known.run_at, known.after)
        ORDER BY run_at, id LIMIT 1) AS job)

-- fragment served
-- The worker serves the group: $3 tasks, $4 queues (null: all). `IS TRUE` keeps the tasks in a hash table: a list of
-- thousands would be searched for each group.
(task IN (SELECT unnest($3::text[]))) IS TRUE AND ($4::text[] IS NULL OR queue = ANY($4))
    AND queue <> ALL (ARRAY(SELECT name FROM mainspring_queues WHERE paused))

-- fragment due_in_group
-- The jobs of the group `one` that can be claimed now; their order is run_at, id.
crashes < 2 AND NOT parked AND state = 'pending'
    AND queue = one.queue AND task = one.task AND rank = one.rank
    AND run_at <= $2 AND (expires_at IS NULL OR expires_at > $2)

-- statement nothing_special
-- The worker is alive, and there are no overdue jobs to expire, no suspects and no half-open circuits. These are rare.
-- {limits}: no job has a limit key, or none of these has to be looked at.
(SELECT EXISTS (SELECT 1 FROM mainspring_workers WHERE id = $1 AND until > $2)
    AND NOT EXISTS (SELECT 1 FROM ONLY mainspring_jobs
        WHERE expires_at IS NOT NULL AND NOT parked AND state = 'pending' AND expires_at <= $2)
    AND NOT EXISTS (SELECT 1 FROM ONLY mainspring_jobs WHERE crashes >= 2 AND NOT parked AND state = 'pending')
    AND NOT EXISTS (SELECT 1 FROM mainspring_circuits WHERE open_until <= $2 AND probe IS NULL)
    AND {limits})

-- fragment no_limits
NOT EXISTS (SELECT FROM mainspring_limit_groups)

-- statement no_due_lines
NOT EXISTS (SELECT FROM mainspring_limit_groups WHERE look_at <= $2)
AND NOT EXISTS (SELECT FROM mainspring_limited
    WHERE expires_at IS NOT NULL AND NOT parked AND state = 'pending' AND expires_at <= $2)
AND NOT EXISTS (SELECT FROM mainspring_limited WHERE crashes >= 2 AND NOT parked AND state = 'pending')
AND NOT EXISTS (
    WITH RECURSIVE {line_kinds}
    SELECT FROM kinds
    WHERE {served}
        AND task <> ALL (ARRAY(SELECT task FROM mainspring_circuits WHERE open_until IS NOT NULL))
        AND turn <= $2::bigint + {ahead} AND {has_total_room})

-- statement next_line
least(
    (WITH RECURSIVE {line_kinds} SELECT min(turn) FROM kinds WHERE {served} AND {has_total_room}),
    (SELECT min(expires_at) FROM mainspring_limited
    WHERE expires_at IS NOT NULL AND NOT parked AND state = 'pending'))

-- fragment line_kinds
-- The limit, queue, task and rank of all lines whose group has room, with the first turn, by hops.
kinds AS (
    (SELECT name, queue, task, rank, turn FROM mainspring_limit_lines
        WHERE has_room
        ORDER BY name, queue, task, rank, turn LIMIT 1)
    UNION ALL
    SELECT hop.* FROM kinds CROSS JOIN LATERAL (
        SELECT name, queue, task, rank, turn FROM mainspring_limit_lines
        WHERE has_room AND (name, queue, task, rank) > (kinds.name, kinds.queue, kinds.task, kinds.rank)
        ORDER BY name, queue, task, rank, turn LIMIT 1) AS hop)

-- fragment has_total_room
-- Fewer jobs of the limit of `kinds` run than its total, if it has one. Running jobs are found by their leases.
NOT EXISTS (SELECT FROM mainspring_limits AS whole WHERE whole.name = kinds.name AND whole.total <= (
    SELECT count(*) FROM mainspring_limited
    WHERE state = 'running' AND id = ANY(ARRAY(SELECT unnest(ids) FROM mainspring_leases))
        AND starts_with(limit_key, kinds.name || E'\n')))

-- fragment before_locks
-- The first part of `take` that is left out of a claim that only looks.
one AS MATERIALIZED

-- fragment seen
-- The end of such a claim.
SELECT first.rank, first.due_at, first.id, (
    SELECT octet_length(payload) + octet_length(options) FROM ONLY mainspring_jobs AS job WHERE job.id = first.id)
FROM first WHERE $1::text IS NOT NULL AND $5::text IS NOT NULL
ORDER BY 1, 2, 3

-- fragment start
state = 'running', lease = $5, worker = $1, started_at = $2,
    attempt = attempt + 1, runs = runs + 1

-- fragment record_lease
INSERT INTO mainspring_leases SELECT $1, $5, array_agg(id) FROM taken HAVING count(*) > 0
ON CONFLICT (worker, lease) DO UPDATE SET ids = mainspring_leases.ids || excluded.ids


-- statement take
-- Claims due jobs: $1 worker, $2 now, $3 tasks, $4 queues (null: all), $5 the new lease, $6 the most jobs to take.
-- {groups} is all_groups or known_groups. {guard} is nothing_special, or true inside the transaction that has done the
-- special things already. {left} is how many bytes of payloads and options may be taken; the job that exceeds it is
-- taken too, so that a job of any size can run.
WITH RECURSIVE {groups},
-- The $6 groups whose first jobs are the first ones: no other group has a job among the first $6 of all.
due AS MATERIALIZED (
    SELECT * FROM groups
    WHERE {served}
        AND task <> ALL (ARRAY(SELECT task FROM mainspring_circuits WHERE open_until IS NOT NULL))
        AND run_at <= $2 AND {guard}
    ORDER BY rank, run_at, head LIMIT $6),
-- How many jobs of each group to look at: together twice $6, so that hardly any other job is among the first $6. None
-- if there are $6 groups: then their first jobs tell how far to read.
sample AS MATERIALIZED (
    SELECT CASE WHEN count(*) < $6 THEN least(2 * $6 / nullif(count(*), 0) + 1, $6) ELSE 0 END AS size FROM due),
early AS MATERIALIZED (
    SELECT one.*, job.* FROM due AS one CROSS JOIN LATERAL (
        SELECT run_at AS due_at, id, row_number() OVER (ORDER BY run_at, id) AS n FROM ONLY mainspring_jobs
        WHERE {due_in_group} AND (run_at, id) >= (one.run_at, one.head)
        ORDER BY run_at, id LIMIT (SELECT size FROM sample)) AS job
    WHERE (SELECT size FROM sample) > 0),
-- No job behind the $6th of these is among the first $6 of all.
last AS MATERIALIZED (
    SELECT * FROM (
        SELECT rank, due_at, id FROM early
        UNION ALL SELECT rank, run_at, head FROM due WHERE (SELECT size FROM sample) = 0) AS job
    ORDER BY rank, due_at, id OFFSET $6 - 1 LIMIT 1),
-- The jobs up to that one of the groups whose whole sample is before it; without a sample, from the head of each group.
further AS (
    SELECT one.queue, one.task, one.rank, one.run_at, one.head, job.* FROM (
        SELECT * FROM early WHERE n = (SELECT size FROM sample) AND n < $6
        UNION ALL SELECT due.*, run_at, '', 0 FROM due WHERE (SELECT size FROM sample) = 0) AS one
    LEFT JOIN last ON true
    CROSS JOIN LATERAL (
        SELECT run_at AS due_at, id FROM ONLY mainspring_jobs
        WHERE {due_in_group} AND (run_at, id) >= (one.run_at, one.head) AND (run_at, id) > (one.due_at, one.id)
            AND (run_at, id) <= (CASE WHEN last.rank = one.rank THEN last.due_at ELSE $2 + 1 END,
                CASE WHEN last.rank = one.rank THEN last.id ELSE '' END)
        ORDER BY run_at, id LIMIT $6) AS job
    WHERE last.id IS NULL OR (one.rank, one.due_at, one.id) <= (last.rank, last.due_at, last.id)),
-- The first $6 of all, counted without a lock.
first AS (
    SELECT queue, task, rank, run_at, head, due_at, id FROM early
    UNION ALL SELECT queue, task, rank, run_at, head, due_at, id FROM further
    ORDER BY rank, due_at, id LIMIT $6),
-- A single group has all of them: they are not counted.
{before_locks} (
    SELECT queue, task, rank, run_at, head, $6 AS share FROM due WHERE (SELECT count(*) FROM due) = 1
    UNION ALL
    SELECT queue, task, rank, run_at, head, count(*) FROM first WHERE (SELECT count(*) FROM due) > 1
    GROUP BY 1, 2, 3, 4, 5),
-- Locks that number of jobs of each group, without those that others have locked. So concurrent claims pass each other,
-- and none locks more than it takes, unless the jobs exceed {left}: a job's size is known only once it is locked.
-- octet_length does not read the text.
locked AS MATERIALIZED (
    SELECT one.rank, job.* FROM one CROSS JOIN LATERAL (
        SELECT ctid AS place, run_at, id, octet_length(payload) + octet_length(options) AS size FROM ONLY mainspring_jobs
        WHERE {due_in_group} AND (run_at, id) >= (one.run_at, one.head) ORDER BY run_at, id LIMIT one.share
        FOR NO KEY UPDATE SKIP LOCKED) AS job),
-- All of them, or, if they exceed {left}, the first of them in the claim order. The window is computed only then.
taken AS (
    UPDATE ONLY mainspring_jobs SET {start}
    WHERE ctid = ANY (ARRAY(
        SELECT place FROM locked WHERE (SELECT sum(size) FROM locked) < {left}
        UNION ALL
        SELECT place FROM (
            SELECT place, sum(size) OVER (ORDER BY rank, run_at, id) - size AS before FROM locked) AS cut
        WHERE before < {left} AND (SELECT sum(size) FROM locked) >= {left}))
    RETURNING {claimed_columns}),
noted AS (
    {record_lease})
SELECT taken.*, (
    -- When to claim again: at once if more may be due; -1 if open circuits decide, for which the view has to be read;
    -- else when the next job of a served group is due, or the next job expires.
    SELECT CASE
        WHEN (SELECT count(*) = $6 OR count(*) < (SELECT count(*) FROM first) FROM taken) THEN $2
        WHEN EXISTS (SELECT 1 FROM mainspring_circuits WHERE open_until IS NOT NULL) THEN -1
        ELSE least(
            (SELECT min((
                SELECT run_at FROM ONLY mainspring_jobs
                WHERE crashes < 2 AND NOT parked AND state = 'pending'
                    AND queue = one.queue AND task = one.task AND rank = one.rank AND run_at > $2
                ORDER BY run_at, id LIMIT 1))
            FROM groups AS one
            WHERE {served}),
            {next_line},
            (SELECT expires_at FROM ONLY mainspring_jobs
            WHERE expires_at IS NOT NULL AND NOT parked AND state = 'pending'
                AND id <> ALL (ARRAY(SELECT id FROM taken))
            ORDER BY expires_at LIMIT 1))
        END) AS next_at
FROM taken ORDER BY rank, run_at, id

-- statement lock_worker
-- Whether the worker $1 is alive. Locked, so that two claims of one worker do not both find that it runs no suspect.
SELECT 1 FROM mainspring_workers WHERE id = $1 AND until > $2 FOR NO KEY UPDATE

-- statement read_view
-- All that decides what a claim does: $1 worker, $2 now, $3 tasks, $4 queues (null: all). `kind` says what a row is; `key`
-- is the limit key of a suspect.
WITH RECURSIVE {all_groups}
SELECT 'group' AS kind, queue, task, rank, run_at AS at, NULL AS id, 0 AS crashes, NULL AS key FROM groups
WHERE {served}
UNION ALL
-- A worker runs one suspect at a time, so that a crash tells which job caused it.
SELECT 'suspect', queue, task, rank, run_at, id, crashes, NULL FROM ONLY mainspring_jobs
WHERE crashes >= 2 AND NOT parked AND state = 'pending'
    AND {served}
    AND NOT EXISTS (SELECT 1 FROM mainspring_jobs
        WHERE crashes >= 2 AND NOT parked AND state = 'running' AND worker = $1)
UNION ALL
SELECT 'circuit', '', task, 0, open_until, probe, 0, NULL FROM mainspring_circuits WHERE open_until IS NOT NULL
UNION ALL
SELECT 'alive', '', '', 0, until, NULL, 0, NULL FROM mainspring_workers WHERE id = $1 AND until > $2
UNION ALL
SELECT 'expiry', '', '', 0, min(expires_at), NULL, 0, NULL FROM ONLY mainspring_jobs
WHERE expires_at IS NOT NULL AND NOT parked AND state = 'pending'
UNION ALL
SELECT 'limits', '', '', 0, 0, NULL, 0, NULL WHERE EXISTS (SELECT FROM mainspring_limit_groups)

-- statement read_lines
-- What `read_view` does not say of jobs with a limit key; in the same columns.
WITH RECURSIVE {line_kinds}
-- A suspect counts from when it can start, if there is room.
SELECT 'suspect' AS kind, queue, task, rank, greatest(run_at, served_at - {ahead}, tat - tolerance), id, crashes, job.limit_key
FROM mainspring_limited AS job
LEFT JOIN mainspring_limit_groups AS grouped ON grouped.limit_key = job.limit_key
CROSS JOIN LATERAL (SELECT split_part(job.limit_key, E'\n', 1) AS name) AS kinds
LEFT JOIN mainspring_limits AS one ON one.name = kinds.name
WHERE crashes >= 2 AND NOT parked AND state = 'pending'
    AND {served}
    AND coalesce(grouped.running, 0) < coalesce(
        CASE WHEN kinds.name LIKE '{at_once}%' THEN split_part(kinds.name, ':', 2)::integer END, one.running, 2147483647)
    AND {has_total_room}
    AND NOT EXISTS (SELECT 1 FROM mainspring_jobs
        WHERE crashes >= 2 AND NOT parked AND state = 'running' AND worker = $1)
UNION ALL
-- The first of the next turns may open later than another of that second.
SELECT 'line', queue, task, rank, (
    SELECT min(opens_at) FROM (
        SELECT opens_at FROM mainspring_limit_lines AS line
        WHERE has_room AND line.name = kinds.name AND line.queue = kinds.queue AND line.task = kinds.task
            AND line.rank = kinds.rank AND line.turn <= kinds.turn + {ahead}
        ORDER BY turn LIMIT 100) AS next), NULL, 0, name
FROM kinds
WHERE {served} AND {has_total_room}
UNION ALL
SELECT 'look', '', '', 0, min(look_at), NULL, 0, NULL FROM mainspring_limit_groups WHERE look_at <= $2
UNION ALL
SELECT 'expiry', '', '', 0, min(expires_at), NULL, 0, NULL FROM mainspring_limited
WHERE expires_at IS NOT NULL AND NOT parked AND state = 'pending'

-- statement take_one
-- Claims the job $3, a probe or a suspect, if it is still as it was read: pending, after $4 crashes.
WITH taken AS (
    UPDATE mainspring_jobs SET {start}
    WHERE id = (
        SELECT id FROM mainspring_jobs
        WHERE id = $3 AND state = 'pending' AND crashes = $4 AND (expires_at IS NULL OR expires_at > $2)
        FOR NO KEY UPDATE SKIP LOCKED)
    RETURNING {claimed_columns}),
noted AS (
    {record_lease})
SELECT * FROM taken

-- statement lock_half_open
-- Whether the circuit of task $1 is half open, and no other claim looks for its probe.
SELECT 1 FROM mainspring_circuits WHERE task = $1 AND probe IS NULL AND open_until <= $2
FOR NO KEY UPDATE SKIP LOCKED

-- statement lock_head
-- The first due job of a group that no other claim has locked: $1 queue, $2 now, $3 task, $4 rank.
SELECT 'group', queue, task, rank, run_at, id, crashes, NULL FROM ONLY mainspring_jobs
WHERE crashes < 2 AND NOT parked AND state = 'pending'
    AND queue = $1 AND task = $3 AND rank = $4 AND run_at <= $2 AND (expires_at IS NULL OR expires_at > $2)
ORDER BY run_at, id LIMIT 1
FOR NO KEY UPDATE SKIP LOCKED

-- statement set_probe
UPDATE mainspring_circuits SET probe = $2 WHERE task = $1


-- fragment overdue
expires_at IS NOT NULL AND NOT parked AND state = 'pending' AND expires_at <= $1

-- fragment flow
-- The flow of a job of a step. A subquery, so that the planner looks each job up, and joins no tables.
(SELECT flow FROM mainspring_steps AS step WHERE step.job_id = mainspring_jobs.id)

-- statement expire
-- Moves up to $2 overdue jobs without a schedule or flow to the finished jobs. {ended_columns} are {all_columns} with the new
-- state and $1 as the end.
WITH gone AS (
    DELETE FROM ONLY mainspring_jobs WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM ONLY mainspring_jobs WHERE {overdue} AND schedule IS NULL AND {flow} IS NULL
        ORDER BY expires_at LIMIT $2
        FOR UPDATE SKIP LOCKED))
    RETURNING *)
INSERT INTO mainspring_finished ({all_columns})
SELECT {ended_columns} FROM gone
{overwrite}
RETURNING id

-- statement find_overdue_of_others
-- Jobs with a schedule, a flow or a limit, read without a lock: schedules and flows have to be locked first.
SELECT id, schedule, {flow} AS flow FROM mainspring_jobs
WHERE {overdue} AND (schedule IS NOT NULL OR {flow} IS NOT NULL OR tableoid = 'mainspring_limited'::regclass)
ORDER BY expires_at, id LIMIT $2

-- statement lock_overdue
SELECT {columns} FROM mainspring_jobs WHERE {overdue} AND id = ANY($2)
ORDER BY expires_at, id
FOR NO KEY UPDATE SKIP LOCKED


-- statement set_aside
-- Pauses jobs of lease $2, or of any lease if it is empty, and takes the run back that could not begin. Returns how many
-- there were of each limit key.
WITH aside AS (
    UPDATE mainspring_jobs SET state = 'paused', lease = '{unreadable}', worker = NULL,
        attempt = attempt - 1, runs = runs - 1
    WHERE id = ANY($1) AND state = 'running' AND (lease = $2 OR $2 = '')
    RETURNING id)
SELECT limit_key, count(*) FROM mainspring_limited WHERE id = ANY(ARRAY(SELECT id FROM aside)) GROUP BY 1

-- statement end_probes
UPDATE mainspring_circuits SET probe = NULL WHERE probe = ANY($1)
