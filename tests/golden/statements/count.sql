-- count_pages
SELECT sum(pg_relation_size(oid)) / 8192 FROM (
    SELECT $1::text::regclass AS oid UNION SELECT relid FROM pg_partition_tree($1::text::regclass)) AS parts;

-- count[mainspring_jobs]
SELECT queue, CASE WHEN state <> 'pending' THEN state WHEN expires_at <= $1::bigint THEN 'expired'
        WHEN attempt > 0 THEN 'retrying' WHEN run_at > $1::bigint THEN 'scheduled' ELSE 'pending' END, count(*) FROM mainspring_jobs GROUP BY 1, 2;

-- count[mainspring_finished]
SELECT '', state, count(*) FROM mainspring_finished WHERE $1::bigint IS NOT NULL GROUP BY 2;

-- sample[mainspring_jobs]
SELECT queue, CASE WHEN state <> 'pending' THEN state WHEN expires_at <= $1::bigint THEN 'expired'
        WHEN attempt > 0 THEN 'retrying' WHEN run_at > $1::bigint THEN 'scheduled' ELSE 'pending' END, task, rank, count(*) FROM mainspring_jobs TABLESAMPLE SYSTEM ($2::float8) REPEATABLE (1)
GROUP BY 1, 2, 3, 4;

-- sample[mainspring_finished]
SELECT '', state, task, 0, count(*) FROM mainspring_finished TABLESAMPLE SYSTEM ($2::float8) REPEATABLE (1)
WHERE $1::bigint IS NOT NULL GROUP BY 1, 2, 3;

-- count_first[mainspring_jobs]
WITH RECURSIVE groups AS (
    (SELECT queue, task, rank FROM mainspring_jobs
        WHERE crashes < 2 AND NOT parked
        ORDER BY queue, task, rank LIMIT 1)
    UNION ALL
    SELECT hop.* FROM groups CROSS JOIN LATERAL (
        SELECT queue, task, rank FROM mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND (queue, task, rank) > (groups.queue, groups.task, groups.rank)
        ORDER BY queue, task, rank LIMIT 1) AS hop)
SELECT queue, shown, task, rank, size, size = (SELECT greatest(20000 / (2 * count(*)), 10) FROM groups) AS many
FROM groups AS one CROSS JOIN LATERAL (
    SELECT 'pending' AS shown, count(*) AS size FROM (
        SELECT FROM mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND queue = one.queue AND task = one.task AND rank = one.rank
            AND state = 'pending' AND NOT retried AND (expires_at IS NULL OR expires_at > $1) AND run_at <= $1
        ORDER BY run_at, id LIMIT (SELECT greatest(20000 / (2 * count(*)), 10) FROM groups)) AS job
    UNION ALL
    SELECT 'scheduled', count(*) FROM (
        SELECT FROM mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND queue = one.queue AND task = one.task AND rank = one.rank
            AND state = 'pending' AND NOT retried AND (expires_at IS NULL OR expires_at > $1) AND run_at > $1
        ORDER BY run_at, id LIMIT (SELECT greatest(20000 / (2 * count(*)), 10) FROM groups)) AS job) AS counted
UNION ALL
SELECT queue, 'running', '', 0, count(*), false FROM mainspring_jobs
WHERE id = ANY(ARRAY(SELECT unnest(ids) FROM mainspring_leases)) AND state = 'running' GROUP BY 1
UNION ALL
SELECT queue, CASE WHEN state <> 'pending' THEN state WHEN expires_at <= $1::bigint THEN 'expired'
        WHEN attempt > 0 THEN 'retrying' WHEN run_at > $1::bigint THEN 'scheduled' ELSE 'pending' END, '', 0, count(*), sum(count(*)) OVER () >= 20000 / 2 FROM (
    (SELECT queue, state, expires_at, attempt, run_at FROM mainspring_jobs WHERE parked OR retried LIMIT 20000 / 2)
    UNION ALL
    (SELECT queue, state, expires_at, attempt, run_at FROM mainspring_jobs WHERE crashes >= 2 AND NOT parked AND state = 'pending' AND NOT retried AND (expires_at IS NULL OR expires_at > $1) LIMIT 20000 / 2)
    UNION ALL
    (SELECT queue, state, expires_at, attempt, run_at FROM mainspring_jobs
    WHERE expires_at IS NOT NULL AND NOT parked AND expires_at <= $1 AND state = 'pending' AND NOT retried
    LIMIT 20000 / 2)) AS job
GROUP BY 1, 2;

-- count_first[mainspring_finished]
SELECT '', state, '', 0, size, size = 20000 / 4 AND $1::bigint IS NOT NULL AS many
FROM unnest(ARRAY['completed', 'dead', 'cancelled', 'expired']) AS one (state) CROSS JOIN LATERAL (
    SELECT count(*) AS size FROM (
        SELECT FROM mainspring_finished WHERE state = one.state LIMIT 20000 / 4) AS job) AS counted;

-- count_dead
SELECT count(*) FROM (
    SELECT FROM mainspring_finished WHERE error IS NOT NULL LIMIT 200000 + 1) AS job;

-- read_dead_groups
WITH one AS MATERIALIZED (
    SELECT task, error, count(*) AS size, max(finished_at) AS last FROM mainspring_finished
    WHERE error IS NOT NULL AND state = 'dead'
    GROUP BY 1, 2 ORDER BY size DESC, task, error LIMIT $1)
SELECT task, error, size, false, (
    SELECT id FROM mainspring_finished
    WHERE error = one.error AND task = one.task AND state = 'dead' AND finished_at >= one.last
    ORDER BY finished_at DESC, id DESC LIMIT 1), last
FROM one;

-- count_first_dead
WITH RECURSIVE groups AS (
    (SELECT error, task FROM mainspring_finished
        WHERE error IS NOT NULL
        ORDER BY error, task LIMIT 1)
    UNION ALL
    SELECT hop.* FROM groups CROSS JOIN LATERAL (
        SELECT error, task FROM mainspring_finished
        WHERE error IS NOT NULL AND (error, task) > (groups.error, groups.task)
        ORDER BY error, task LIMIT 1) AS hop)
SELECT one.task, one.error, size, size = (SELECT greatest(20000 / (2 * count(*)), 10) FROM groups) AS many, id, finished_at
FROM groups AS one
CROSS JOIN LATERAL (
    SELECT id, finished_at FROM mainspring_finished
    WHERE error = one.error AND task = one.task AND state = 'dead'
    ORDER BY finished_at DESC, id DESC LIMIT 1) AS last
CROSS JOIN LATERAL (
    SELECT count(*) AS size FROM (
        SELECT FROM mainspring_finished WHERE error = one.error AND task = one.task AND state = 'dead'
        ORDER BY finished_at LIMIT (SELECT greatest(20000 / (2 * count(*)), 10) FROM groups)) AS job) AS counted;

-- sample_dead
SELECT task, error, count(*) FROM mainspring_finished TABLESAMPLE SYSTEM ($1::float8) REPEATABLE (1)
WHERE error IS NOT NULL AND state = 'dead' GROUP BY 1, 2;
