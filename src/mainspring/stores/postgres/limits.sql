-- The statements of limit_lines.py, limited_claim.py and limits.py: how the groups and lines of jobs with a limit key are
-- kept, and how a claim takes from them. statement_file.py reads them. {name} stands for a fragment, or for a text that
-- the caller gives.
--
-- The lines of a group are written under the lock of its row. A claim locks groups with SKIP LOCKED, and reads
-- their jobs in a later statement: its snapshot has whatever was committed before the lock was given. So a line that it
-- finds empty is empty. All others know only the job that they write: they make an instant earlier, never later.


-- statement add_lines
-- Pending jobs: $1 limit keys, $2 queues, $3 tasks, $4 ranks, $5 run_at, $6 ids; one of each line, the first one.
WITH given AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::{bigints}, $5::{bigints}, $6::text[])
        AS given (limit_key, queue, task, rank, run_at, head)),
grouped AS (
    INSERT INTO mainspring_limit_groups AS known (limit_key)
    SELECT DISTINCT limit_key FROM given ORDER BY limit_key
    ON CONFLICT (limit_key) DO UPDATE SET pending = true WHERE NOT known.pending
    RETURNING 1)
INSERT INTO mainspring_limit_lines AS line
    (limit_key, name, queue, task, rank, run_at, head, turn, opens_at, has_room)
SELECT limit_key, split_part(limit_key, E'\n', 1), queue, task, rank, run_at, head,
    greatest(run_at, served_at), greatest(run_at, served_at - {ahead}), true
FROM given CROSS JOIN LATERAL (
    SELECT (SELECT served_at FROM mainspring_limit_groups AS known WHERE known.limit_key = given.limit_key)) AS known
-- The groups are locked first, in order.
WHERE (SELECT count(*) FROM grouped) >= 0
ON CONFLICT (limit_key, queue, task, rank) DO UPDATE SET
    run_at = excluded.run_at, head = excluded.head,
    turn = least(line.turn, excluded.turn), opens_at = least(line.opens_at, excluded.opens_at)
WHERE (excluded.run_at, excluded.head) < (line.run_at, line.head)

-- statement give_back
-- Ended runs: $1 limit keys, $2 how many. A claim looks at a group whose lines had no room, or that may be over.
WITH locked AS MATERIALIZED (
    SELECT limit_key FROM mainspring_limit_groups WHERE limit_key = ANY($1::text[])
    ORDER BY limit_key
    FOR NO KEY UPDATE)
UPDATE mainspring_limit_groups AS known SET running = running - ended,
    look_at = CASE WHEN is_full OR (NOT pending AND running <= ended) THEN 0 ELSE look_at END
FROM unnest($1::text[], $2::{bigints}) AS given (limit_key, ended)
WHERE known.limit_key = given.limit_key AND (SELECT count(*) FROM locked) >= 0

-- statement look_again
-- Jobs that are pending no longer, or later: $1 limit keys, $2 ids. A claim looks for the new first job of a line.
UPDATE mainspring_limit_groups AS known SET look_at = 0
FROM unnest($1::text[], $2::text[]) AS given (limit_key, id)
WHERE known.limit_key = given.limit_key
    AND EXISTS (SELECT FROM mainspring_limit_lines AS line WHERE line.limit_key = given.limit_key AND head = given.id)

-- statement lock_groups
-- Locks groups that may be written twice by one transaction: the order is kept once.
SELECT FROM mainspring_limit_groups WHERE limit_key = ANY($1::text[])
ORDER BY limit_key
FOR NO KEY UPDATE

-- statement lock_totals
-- Limits with a total: no other claim takes from them until the commit.
SELECT name, total FROM mainspring_limits WHERE total IS NOT NULL FOR NO KEY UPDATE SKIP LOCKED

-- statement count_totals
-- The running jobs of limits with a total; read after the lock. Running jobs are found by their leases.
SELECT name, (
    SELECT count(*) FROM mainspring_limited
    WHERE state = 'running' AND id = ANY(ARRAY(SELECT unnest(ids) FROM mainspring_leases))
        AND starts_with(limit_key, name || E'\n'))
FROM mainspring_limits WHERE total IS NOT NULL

-- statement pick_groups
-- Locks the groups of the first $5 lines that a claim may take from, and those that it has to look at: $1 worker, $2 now,
-- $3 tasks, $4 queues (null: all), $6 limits without room.
WITH RECURSIVE {line_kinds},
first AS MATERIALIZED (
    SELECT line.limit_key FROM kinds CROSS JOIN LATERAL (
        SELECT limit_key, turn, head FROM mainspring_limit_lines AS line
        WHERE has_room AND line.name = kinds.name AND line.queue = kinds.queue AND line.task = kinds.task
            AND line.rank = kinds.rank AND line.turn <= $2::bigint + {ahead} AND line.opens_at <= $2
        ORDER BY turn, head LIMIT $5) AS line
    WHERE {served} AND name <> ALL($6::text[]) AND $1::text IS NOT NULL
        AND task <> ALL (ARRAY(SELECT task FROM mainspring_circuits WHERE open_until IS NOT NULL))
    ORDER BY rank, line.turn, line.head LIMIT $5),
wanted AS MATERIALIZED (
    SELECT limit_key FROM first
    UNION
    (SELECT limit_key FROM mainspring_limit_groups WHERE look_at <= $2 ORDER BY look_at LIMIT {max_looked}))
SELECT limit_key, running, tat, served_at, is_full, pending, look_at, (
        SELECT body FROM mainspring_limits WHERE name = split_part(limit_key, E'\n', 1)) AS body,
    (SELECT count(*) FROM first) AS lines, (SELECT count(*) FROM wanted) AS wanted
FROM mainspring_limit_groups WHERE limit_key = ANY(ARRAY(SELECT limit_key FROM wanted))
FOR NO KEY UPDATE SKIP LOCKED

-- statement lock_some_groups
-- These groups, as pick_groups returns them.
SELECT limit_key, running, tat, served_at, is_full, pending, look_at, (
        SELECT body FROM mainspring_limits WHERE name = split_part(limit_key, E'\n', 1)) AS body, 0, 0
FROM mainspring_limit_groups WHERE limit_key = ANY($1::text[])
ORDER BY limit_key
FOR NO KEY UPDATE

-- statement lines_of_task
-- The groups of the first lines of task $3 at $2, and their limit keys: for the probe of a circuit. $1 worker, $4 queues
-- (null: all).
WITH RECURSIVE {line_kinds}
SELECT DISTINCT line.limit_key FROM kinds CROSS JOIN LATERAL (
    SELECT limit_key FROM mainspring_limit_lines AS line
    WHERE has_room AND line.name = kinds.name AND line.queue = kinds.queue AND line.task = kinds.task
        AND line.rank = kinds.rank AND line.turn <= $2::bigint + {ahead} AND line.opens_at <= $2
    ORDER BY turn, head LIMIT {max_probe_lines}) AS line
WHERE {served} AND $1::text IS NOT NULL

-- statement crashes_and_key
SELECT crashes, limit_key FROM mainspring_limited WHERE id = $1

-- statement add_groups
-- Groups of suspects, which are in no line.
INSERT INTO mainspring_limit_groups (limit_key, pending)
SELECT unnest($1::text[]), false ON CONFLICT DO NOTHING

-- fragment of_line
-- The jobs of the line `line` that can be claimed once they are due; their order is run_at, id.
crashes < 2 AND NOT parked AND state = 'pending' AND job.limit_key = line.limit_key AND job.queue = line.queue
    AND job.task = line.task AND job.rank = line.rank

-- statement read_lines
-- The lines of these groups ($1), each with its first jobs, at most $2, and whether the worker serves it: $3 tasks, $4
-- queues (null: all).
SELECT line.limit_key, line.queue, line.task, line.rank, line.run_at, line.head, line.turn, line.opens_at, line.has_room,
    job.run_at, job.id, job.size, (
        SELECT {served} AND task <> ALL (ARRAY(SELECT task FROM mainspring_circuits WHERE open_until IS NOT NULL))
        FROM (SELECT line.queue, line.task) AS one) AS is_served
FROM mainspring_limit_lines AS line LEFT JOIN LATERAL (
    SELECT run_at, id, octet_length(payload) + octet_length(options) AS size FROM mainspring_limited AS job
    WHERE {of_line} ORDER BY run_at, id LIMIT $2) AS job ON true
WHERE line.limit_key = ANY($1::text[])
ORDER BY line.limit_key, line.queue, line.task, line.rank, job.run_at, job.id

-- statement read_further
-- The jobs of these lines behind ($5 run_at, $6 id), at most $7: $1 limit keys, $2 queues, $3 tasks, $4 ranks.
SELECT line.n, job.run_at, job.id, job.size
FROM unnest($1::text[], $2::text[], $3::text[], $4::{bigints}, $5::{bigints}, $6::text[])
    WITH ORDINALITY AS line (limit_key, queue, task, rank, run_at, id, n)
CROSS JOIN LATERAL (
    SELECT run_at, id, octet_length(payload) + octet_length(options) AS size FROM mainspring_limited AS job
    WHERE {of_line} AND (run_at, id) > (line.run_at, line.id) ORDER BY run_at, id LIMIT $7) AS job
ORDER BY line.n, job.run_at, job.id

-- statement start
-- Starts those of the jobs $3 that are still pending, and that no other transaction has locked.
WITH taken AS (
    UPDATE mainspring_limited SET state = 'running', lease = $5, worker = $1, started_at = $2,
        attempt = attempt + 1, runs = runs + 1
    WHERE id = ANY(ARRAY(
        SELECT id FROM mainspring_limited
        WHERE id = ANY($3::text[]) AND state = 'pending' AND crashes < $4 AND run_at <= $2
            AND (expires_at IS NULL OR expires_at > $2)
        FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING {claimed_columns}),
noted AS (
    INSERT INTO mainspring_leases SELECT $1, $5, array_agg(id) FROM taken HAVING count(*) > 0
    ON CONFLICT (worker, lease) DO UPDATE SET ids = mainspring_leases.ids || excluded.ids)
SELECT * FROM taken

-- statement write_groups
-- $1 limit keys, $2 running jobs, $3 tat, $4 served_at, $5 is_full, $6 pending, $7 look_at.
UPDATE mainspring_limit_groups AS known SET running = given.running, tat = given.tat, served_at = given.served_at,
    is_full = given.is_full, pending = given.pending, look_at = given.look_at
FROM unnest($1::text[], $2::{bigints}, $3::{bigints}, $4::{bigints}, $5::{booleans}, $6::{booleans}, $7::{bigints})
    AS given (limit_key, running, tat, served_at, is_full, pending, look_at)
WHERE known.limit_key = given.limit_key

-- statement write_lines
-- $1 limit keys, $2 queues, $3 tasks, $4 ranks, $5 run_at, $6 ids, $7 turns, $8 opens_at, $9 has_room.
INSERT INTO mainspring_limit_lines AS line
    (limit_key, name, queue, task, rank, run_at, head, turn, opens_at, has_room)
SELECT limit_key, split_part(limit_key, E'\n', 1), queue, task, rank, run_at, head, turn, opens_at, has_room
FROM unnest($1::text[], $2::text[], $3::text[], $4::{bigints}, $5::{bigints}, $6::text[], $7::{bigints}, $8::{bigints},
        $9::{booleans})
    AS given (limit_key, queue, task, rank, run_at, head, turn, opens_at, has_room)
ON CONFLICT (limit_key, queue, task, rank) DO UPDATE SET run_at = excluded.run_at, head = excluded.head,
    turn = excluded.turn, opens_at = excluded.opens_at, has_room = excluded.has_room

-- statement drop_groups
-- Those of the groups $1 without a suspect, which is in no line.
DELETE FROM mainspring_limit_groups AS known WHERE limit_key = ANY($1::text[]) AND NOT EXISTS (
    SELECT FROM mainspring_limited AS job
    WHERE crashes >= 2 AND NOT parked AND state = 'pending' AND job.limit_key = known.limit_key)
RETURNING limit_key

-- statement drop_lines
DELETE FROM mainspring_limit_lines AS line
USING unnest($1::text[], $2::text[], $3::text[], $4::{bigints}) AS given (limit_key, queue, task, rank)
WHERE line.limit_key = given.limit_key AND line.queue = given.queue AND line.task = given.task
    AND line.rank = given.rank


-- statement set_limits
-- $1 names, $2 running, $3 tolerance, $4 total, $5 bodies.
INSERT INTO mainspring_limits (name, running, tolerance, total, body)
SELECT * FROM unnest($1::text[], $2::text[]::integer[], $3::{bigints}, $4::text[]::integer[], $5::text[])
ON CONFLICT (name) DO UPDATE SET running = excluded.running, tolerance = excluded.tolerance, total = excluded.total,
    body = excluded.body

-- statement next_groups
-- The next $3 groups behind $2; of the limits $1, or of all (null).
SELECT limit_key FROM mainspring_limit_groups
WHERE limit_key > $2 AND ($1::text[] IS NULL OR split_part(limit_key, E'\n', 1) = ANY($1))
ORDER BY limit_key LIMIT $3

-- statement uses
-- The stored limits with their running jobs and groups; at most {max_counted} groups are counted.
SELECT body, (SELECT coalesce(sum(running), 0)::bigint FROM (
        SELECT running FROM mainspring_limit_groups
        WHERE limit_key >= name || E'\n' AND limit_key < name || E'\x0b' AND running > 0 LIMIT {max_counted}) AS one),
    (SELECT count(*) FROM (
        SELECT FROM mainspring_limit_groups
        WHERE limit_key >= name || E'\n' AND limit_key < name || E'\x0b' LIMIT {max_counted}) AS one)
FROM mainspring_limits ORDER BY name

-- statement groups
-- Groups of the limit $1 with what they hold, those with the most running jobs first; $2 their key, or null; at most $3,
-- each with up to $4 waiting jobs.
SELECT limit_key, running, tat, served_at, waiting, (
        SELECT body FROM mainspring_limits WHERE name = $1) AS body, (
        SELECT coalesce(sum(running), 0)::bigint FROM mainspring_limit_groups
        WHERE limit_key >= $1 || E'\n' AND limit_key < $1 || E'\x0b') AS total
FROM mainspring_limit_groups AS one CROSS JOIN LATERAL (
    SELECT count(*) AS waiting FROM (
        SELECT FROM mainspring_limited
        WHERE limit_key = one.limit_key AND state = 'pending' LIMIT $4) AS job) AS counted
WHERE limit_key >= $1 || E'\n' AND limit_key < $1 || E'\x0b' AND ($2::text IS NULL OR limit_key = $2)
    AND (running > 0 OR waiting > 0)
ORDER BY running DESC, waiting DESC, limit_key LIMIT $3

-- statement first_waiting
-- When the first pending job of each of these groups ($1) is due.
SELECT one.limit_key, (
    SELECT min(run_at) FROM mainspring_limited AS job WHERE job.limit_key = one.limit_key AND state = 'pending')
FROM unnest($1::text[]) AS one (limit_key)

-- statement holders
-- The first $2 running jobs of each of these groups ($1).
SELECT one.limit_key, job.id FROM unnest($1::text[]) AS one (limit_key) CROSS JOIN LATERAL (
    SELECT id FROM mainspring_limited
    WHERE state = 'running' AND id = ANY(ARRAY(SELECT unnest(ids) FROM mainspring_leases))
        AND limit_key = one.limit_key
    ORDER BY id LIMIT $2) AS job
ORDER BY one.limit_key, job.id

-- statement count_running
-- The running jobs of each of these groups ($1).
SELECT limit_key, count(*) FROM mainspring_limited
WHERE state = 'running' AND id = ANY(ARRAY(SELECT unnest(ids) FROM mainspring_leases)) AND limit_key = ANY($1::text[])
GROUP BY 1

-- statement lines_of_groups
-- The lines that the jobs of these groups ($1) make.
SELECT DISTINCT limit_key, queue, task, rank FROM mainspring_limited
WHERE limit_key = ANY($1::text[]) AND crashes < 2 AND NOT parked AND state = 'pending'
