-- claim[seen]
SELECT first.rank, first.due_at, first.id, (
    SELECT octet_length(payload) + octet_length(options) FROM ONLY mainspring_jobs AS job WHERE job.id = first.id)
FROM first WHERE $1::text IS NOT NULL AND $5::text IS NOT NULL
ORDER BY 1, 2, 3;

-- claim[record_lease]
INSERT INTO mainspring_leases SELECT $1, $5, array_agg(id) FROM taken HAVING count(*) > 0
ON CONFLICT (worker, lease) DO UPDATE SET ids = mainspring_leases.ids || excluded.ids;

-- add_groups
INSERT INTO mainspring_limit_groups (limit_key, pending)
SELECT unnest($1::text[]), false ON CONFLICT DO NOTHING;

-- add_lines
WITH given AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]::bigint[], $5::text[]::bigint[], $6::text[])
        AS given (limit_key, queue, task, rank, run_at, head)),
grouped AS (
    INSERT INTO mainspring_limit_groups AS known (limit_key)
    SELECT DISTINCT limit_key FROM given ORDER BY limit_key
    ON CONFLICT (limit_key) DO UPDATE SET pending = true WHERE NOT known.pending
    RETURNING 1)
INSERT INTO mainspring_limit_lines AS line
    (limit_key, name, queue, task, rank, run_at, head, turn, opens_at, has_room)
SELECT limit_key, split_part(limit_key, E'\n', 1), queue, task, rank, run_at, head,
    greatest(run_at, served_at), greatest(run_at, served_at - 1000000), true
FROM given CROSS JOIN LATERAL (
    SELECT (SELECT served_at FROM mainspring_limit_groups AS known WHERE known.limit_key = given.limit_key)) AS known
WHERE (SELECT count(*) FROM grouped) >= 0
ON CONFLICT (limit_key, queue, task, rank) DO UPDATE SET
    run_at = excluded.run_at, head = excluded.head,
    turn = least(line.turn, excluded.turn), opens_at = least(line.opens_at, excluded.opens_at)
WHERE (excluded.run_at, excluded.head) < (line.run_at, line.head);

-- give_back
WITH locked AS MATERIALIZED (
    SELECT limit_key FROM mainspring_limit_groups WHERE limit_key = ANY($1::text[])
    ORDER BY limit_key
    FOR NO KEY UPDATE)
UPDATE mainspring_limit_groups AS known SET running = running - ended,
    look_at = CASE WHEN is_full OR (NOT pending AND running <= ended) THEN 0 ELSE look_at END
FROM unnest($1::text[], $2::text[]::bigint[]) AS given (limit_key, ended)
WHERE known.limit_key = given.limit_key AND (SELECT count(*) FROM locked) >= 0;

-- look_again
UPDATE mainspring_limit_groups AS known SET look_at = 0
FROM unnest($1::text[], $2::text[]) AS given (limit_key, id)
WHERE known.limit_key = given.limit_key
    AND EXISTS (SELECT FROM mainspring_limit_lines AS line WHERE line.limit_key = given.limit_key AND head = given.id);

-- lock_groups
SELECT FROM mainspring_limit_groups WHERE limit_key = ANY($1::text[])
ORDER BY limit_key
FOR NO KEY UPDATE;

-- lock_totals
SELECT name, total FROM mainspring_limits WHERE total IS NOT NULL FOR NO KEY UPDATE SKIP LOCKED;

-- count_totals
SELECT name, (
    SELECT count(*) FROM mainspring_limited
    WHERE state = 'running' AND id = ANY(ARRAY(SELECT unnest(ids) FROM mainspring_leases))
        AND starts_with(limit_key, name || E'\n'))
FROM mainspring_limits WHERE total IS NOT NULL;

-- pick_groups
WITH RECURSIVE kinds AS (
    (SELECT name, queue, task, rank, turn FROM mainspring_limit_lines
        WHERE has_room
        ORDER BY name, queue, task, rank, turn LIMIT 1)
    UNION ALL
    SELECT hop.* FROM kinds CROSS JOIN LATERAL (
        SELECT name, queue, task, rank, turn FROM mainspring_limit_lines
        WHERE has_room AND (name, queue, task, rank) > (kinds.name, kinds.queue, kinds.task, kinds.rank)
        ORDER BY name, queue, task, rank, turn LIMIT 1) AS hop),
first AS MATERIALIZED (
    SELECT line.limit_key FROM kinds CROSS JOIN LATERAL (
        SELECT limit_key, turn, head FROM mainspring_limit_lines AS line
        WHERE has_room AND line.name = kinds.name AND line.queue = kinds.queue AND line.task = kinds.task
            AND line.rank = kinds.rank AND line.turn <= $2::bigint + 1000000 AND line.opens_at <= $2
        ORDER BY turn, head LIMIT $5) AS line
    WHERE (task IN (SELECT unnest($3::text[]))) IS TRUE AND ($4::text[] IS NULL OR queue = ANY($4))
        AND queue <> ALL (ARRAY(SELECT name FROM mainspring_queues WHERE paused)) AND name <> ALL($6::text[]) AND $1::text IS NOT NULL
        AND task <> ALL (ARRAY(SELECT task FROM mainspring_circuits WHERE open_until IS NOT NULL))
    ORDER BY rank, line.turn, line.head LIMIT $5),
wanted AS MATERIALIZED (
    SELECT limit_key FROM first
    UNION
    (SELECT limit_key FROM mainspring_limit_groups WHERE look_at <= $2 ORDER BY look_at LIMIT 1000))
SELECT limit_key, running, tat, served_at, is_full, pending, look_at, (
        SELECT body FROM mainspring_limits WHERE name = split_part(limit_key, E'\n', 1)) AS body,
    (SELECT count(*) FROM first) AS lines, (SELECT count(*) FROM wanted) AS wanted
FROM mainspring_limit_groups WHERE limit_key = ANY(ARRAY(SELECT limit_key FROM wanted))
FOR NO KEY UPDATE SKIP LOCKED;

-- lines_of_task
WITH RECURSIVE kinds AS (
    (SELECT name, queue, task, rank, turn FROM mainspring_limit_lines
        WHERE has_room
        ORDER BY name, queue, task, rank, turn LIMIT 1)
    UNION ALL
    SELECT hop.* FROM kinds CROSS JOIN LATERAL (
        SELECT name, queue, task, rank, turn FROM mainspring_limit_lines
        WHERE has_room AND (name, queue, task, rank) > (kinds.name, kinds.queue, kinds.task, kinds.rank)
        ORDER BY name, queue, task, rank, turn LIMIT 1) AS hop)
SELECT DISTINCT line.limit_key FROM kinds CROSS JOIN LATERAL (
    SELECT limit_key FROM mainspring_limit_lines AS line
    WHERE has_room AND line.name = kinds.name AND line.queue = kinds.queue AND line.task = kinds.task
        AND line.rank = kinds.rank AND line.turn <= $2::bigint + 1000000 AND line.opens_at <= $2
    ORDER BY turn, head LIMIT 10) AS line
WHERE (task IN (SELECT unnest($3::text[]))) IS TRUE AND ($4::text[] IS NULL OR queue = ANY($4))
    AND queue <> ALL (ARRAY(SELECT name FROM mainspring_queues WHERE paused)) AND $1::text IS NOT NULL;

-- crashes_and_key
SELECT crashes, limit_key FROM mainspring_limited WHERE id = $1;

-- start
WITH taken AS (
    UPDATE mainspring_limited SET state = 'running', lease = $5, worker = $1, started_at = $2,
        attempt = attempt + 1, runs = runs + 1
    WHERE id = ANY(ARRAY(
        SELECT id FROM mainspring_limited
        WHERE id = ANY($3::text[]) AND state = 'pending' AND crashes < $4 AND run_at <= $2
            AND (expires_at IS NULL OR expires_at > $2)
        FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING id, queue, task, rank, run_at, created_at, expires_at, attempt, crashes, runs, cancel_reason, unique_key, idempotency_key, options, failure, payload, progress),
noted AS (
    INSERT INTO mainspring_leases SELECT $1, $5, array_agg(id) FROM taken HAVING count(*) > 0
    ON CONFLICT (worker, lease) DO UPDATE SET ids = mainspring_leases.ids || excluded.ids)
SELECT * FROM taken;

-- lock_some_groups
SELECT limit_key, running, tat, served_at, is_full, pending, look_at, (
        SELECT body FROM mainspring_limits WHERE name = split_part(limit_key, E'\n', 1)) AS body, 0, 0
FROM mainspring_limit_groups WHERE limit_key = ANY($1::text[])
ORDER BY limit_key
FOR NO KEY UPDATE;

-- read_lines
SELECT line.limit_key, line.queue, line.task, line.rank, line.run_at, line.head, line.turn, line.opens_at, line.has_room,
    job.run_at, job.id, job.size, (
        SELECT (task IN (SELECT unnest($3::text[]))) IS TRUE AND ($4::text[] IS NULL OR queue = ANY($4))
            AND queue <> ALL (ARRAY(SELECT name FROM mainspring_queues WHERE paused)) AND task <> ALL (ARRAY(SELECT task FROM mainspring_circuits WHERE open_until IS NOT NULL))
        FROM (SELECT line.queue, line.task) AS one) AS is_served
FROM mainspring_limit_lines AS line LEFT JOIN LATERAL (
    SELECT run_at, id, octet_length(payload) + octet_length(options) AS size FROM mainspring_limited AS job
    WHERE crashes < 2 AND NOT parked AND state = 'pending' AND job.limit_key = line.limit_key AND job.queue = line.queue
        AND job.task = line.task AND job.rank = line.rank ORDER BY run_at, id LIMIT $2) AS job ON true
WHERE line.limit_key = ANY($1::text[])
ORDER BY line.limit_key, line.queue, line.task, line.rank, job.run_at, job.id;

-- read_further
SELECT line.n, job.run_at, job.id, job.size
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]::bigint[], $5::text[]::bigint[], $6::text[])
    WITH ORDINALITY AS line (limit_key, queue, task, rank, run_at, id, n)
CROSS JOIN LATERAL (
    SELECT run_at, id, octet_length(payload) + octet_length(options) AS size FROM mainspring_limited AS job
    WHERE crashes < 2 AND NOT parked AND state = 'pending' AND job.limit_key = line.limit_key AND job.queue = line.queue
        AND job.task = line.task AND job.rank = line.rank AND (run_at, id) > (line.run_at, line.id) ORDER BY run_at, id LIMIT $7) AS job
ORDER BY line.n, job.run_at, job.id;

-- write_groups
UPDATE mainspring_limit_groups AS known SET running = given.running, tat = given.tat, served_at = given.served_at,
    is_full = given.is_full, pending = given.pending, look_at = given.look_at
FROM unnest($1::text[], $2::text[]::bigint[], $3::text[]::bigint[], $4::text[]::bigint[], $5::text[]::boolean[], $6::text[]::boolean[], $7::text[]::bigint[])
    AS given (limit_key, running, tat, served_at, is_full, pending, look_at)
WHERE known.limit_key = given.limit_key;

-- write_lines
INSERT INTO mainspring_limit_lines AS line
    (limit_key, name, queue, task, rank, run_at, head, turn, opens_at, has_room)
SELECT limit_key, split_part(limit_key, E'\n', 1), queue, task, rank, run_at, head, turn, opens_at, has_room
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]::bigint[], $5::text[]::bigint[], $6::text[], $7::text[]::bigint[], $8::text[]::bigint[],
        $9::text[]::boolean[])
    AS given (limit_key, queue, task, rank, run_at, head, turn, opens_at, has_room)
ON CONFLICT (limit_key, queue, task, rank) DO UPDATE SET run_at = excluded.run_at, head = excluded.head,
    turn = excluded.turn, opens_at = excluded.opens_at, has_room = excluded.has_room;

-- drop_lines
DELETE FROM mainspring_limit_lines AS line
USING unnest($1::text[], $2::text[], $3::text[], $4::text[]::bigint[]) AS given (limit_key, queue, task, rank)
WHERE line.limit_key = given.limit_key AND line.queue = given.queue AND line.task = given.task
    AND line.rank = given.rank;

-- drop_groups
DELETE FROM mainspring_limit_groups AS known WHERE limit_key = ANY($1::text[]) AND NOT EXISTS (
    SELECT FROM mainspring_limited AS job
    WHERE crashes >= 2 AND NOT parked AND state = 'pending' AND job.limit_key = known.limit_key)
RETURNING limit_key;

-- set_limits
INSERT INTO mainspring_limits (name, running, tolerance, total, body)
SELECT * FROM unnest($1::text[], $2::text[]::integer[], $3::text[]::bigint[], $4::text[]::integer[], $5::text[])
ON CONFLICT (name) DO UPDATE SET running = excluded.running, tolerance = excluded.tolerance, total = excluded.total,
    body = excluded.body;

-- next_groups
SELECT limit_key FROM mainspring_limit_groups
WHERE limit_key > $2 AND ($1::text[] IS NULL OR split_part(limit_key, E'\n', 1) = ANY($1))
ORDER BY limit_key LIMIT $3;

-- uses
SELECT body, (SELECT coalesce(sum(running), 0)::bigint FROM (
        SELECT running FROM mainspring_limit_groups
        WHERE limit_key >= name || E'\n' AND limit_key < name || E'\x0b' AND running > 0 LIMIT 10000) AS one),
    (SELECT count(*) FROM (
        SELECT FROM mainspring_limit_groups
        WHERE limit_key >= name || E'\n' AND limit_key < name || E'\x0b' LIMIT 10000) AS one)
FROM mainspring_limits ORDER BY name;

-- groups
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
ORDER BY running DESC, waiting DESC, limit_key LIMIT $3;

-- first_waiting
SELECT one.limit_key, (
    SELECT min(run_at) FROM mainspring_limited AS job WHERE job.limit_key = one.limit_key AND state = 'pending')
FROM unnest($1::text[]) AS one (limit_key);

-- holders
SELECT one.limit_key, job.id FROM unnest($1::text[]) AS one (limit_key) CROSS JOIN LATERAL (
    SELECT id FROM mainspring_limited
    WHERE state = 'running' AND id = ANY(ARRAY(SELECT unnest(ids) FROM mainspring_leases))
        AND limit_key = one.limit_key
    ORDER BY id LIMIT $2) AS job
ORDER BY one.limit_key, job.id;

-- count_running
SELECT limit_key, count(*) FROM mainspring_limited
WHERE state = 'running' AND id = ANY(ARRAY(SELECT unnest(ids) FROM mainspring_leases)) AND limit_key = ANY($1::text[])
GROUP BY 1;

-- lines_of_groups
SELECT DISTINCT limit_key, queue, task, rank FROM mainspring_limited
WHERE limit_key = ANY($1::text[]) AND crashes < 2 AND NOT parked AND state = 'pending';

-- remove_limits
DELETE FROM mainspring_limits WHERE name = ANY($1);
