-- The statements of count.py. {name} stands for a fragment, or for a text that count.py gives: {shown} is the state of
-- a job as users see it at $1. No fragment contains another one. tests/golden/statements/count.sql has every statement
-- as the server gets it.
--
-- Each statement of a table takes the parameter $1 (now), also where it means nothing: $1::bigint IS NOT NULL.


-- statement count_pages
-- Pages of 8 KiB of a table with its partitions.
SELECT sum(pg_relation_size(oid)) / 8192 FROM (
    SELECT $1::text::regclass AS oid UNION SELECT relid FROM pg_partition_tree($1::text::regclass)) AS parts

-- statement count_jobs
SELECT queue, {shown}, count(*) FROM mainspring_jobs GROUP BY 1, 2

-- statement count_finished
SELECT '', state, count(*) FROM mainspring_finished WHERE $1::bigint IS NOT NULL GROUP BY 2

-- statement sample_jobs
-- REPEATABLE samples the same pages each time, so that a number does not change while nothing happens.
SELECT queue, {shown}, task, rank, count(*) FROM mainspring_jobs TABLESAMPLE SYSTEM ($2::float8) REPEATABLE (1)
GROUP BY 1, 2, 3, 4

-- statement sample_finished
SELECT '', state, task, 0, count(*) FROM mainspring_finished TABLESAMPLE SYSTEM ($2::float8) REPEATABLE (1)
WHERE $1::bigint IS NOT NULL GROUP BY 1, 2, 3


-- fragment group_share
-- How many rows of each group are counted one by one.
(SELECT greatest({max_counted_rows} / (2 * count(*)), 10) FROM groups)

-- fragment new
-- Neither a retry nor expired.
state = 'pending' AND NOT retried AND (expires_at IS NULL OR expires_at > $1)

-- statement count_first_jobs
-- Each group of jobs along its index, up to its share of the rows; and the jobs of each special index, up to
-- {max_counted_rows} / 2. `many` is true where the limit was reached.
WITH RECURSIVE groups AS (
    (SELECT queue, task, rank FROM mainspring_jobs
        WHERE crashes < 2 AND NOT parked
        ORDER BY queue, task, rank LIMIT 1)
    UNION ALL
    SELECT hop.* FROM groups CROSS JOIN LATERAL (
        SELECT queue, task, rank FROM mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND (queue, task, rank) > (groups.queue, groups.task, groups.rank)
        ORDER BY queue, task, rank LIMIT 1) AS hop)
SELECT queue, shown, task, rank, size, size = {group_share} AS many
FROM groups AS one CROSS JOIN LATERAL (
    SELECT 'pending' AS shown, count(*) AS size FROM (
        SELECT FROM mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND queue = one.queue AND task = one.task AND rank = one.rank
            AND {new} AND run_at <= $1
        ORDER BY run_at, id LIMIT {group_share}) AS job
    UNION ALL
    SELECT 'scheduled', count(*) FROM (
        SELECT FROM mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND queue = one.queue AND task = one.task AND rank = one.rank
            AND {new} AND run_at > $1
        ORDER BY run_at, id LIMIT {group_share}) AS job) AS counted
UNION ALL
-- Running jobs, found by their leases.
SELECT queue, 'running', '', 0, count(*), false FROM mainspring_jobs
WHERE id = ANY(ARRAY(SELECT unnest(ids) FROM mainspring_leases)) AND state = 'running' GROUP BY 1
UNION ALL
SELECT queue, {shown}, '', 0, count(*), sum(count(*)) OVER () >= {max_counted_rows} / 2 FROM (
    (SELECT queue, state, expires_at, attempt, run_at FROM mainspring_jobs WHERE parked OR retried LIMIT {max_counted_rows} / 2)
    UNION ALL
    (SELECT queue, state, expires_at, attempt, run_at FROM mainspring_jobs WHERE crashes >= 2 AND NOT parked AND {new} LIMIT {max_counted_rows} / 2)
    UNION ALL
    (SELECT queue, state, expires_at, attempt, run_at FROM mainspring_jobs
    WHERE expires_at IS NOT NULL AND NOT parked AND expires_at <= $1 AND state = 'pending' AND NOT retried
    LIMIT {max_counted_rows} / 2)) AS job
GROUP BY 1, 2

-- statement count_first_finished
-- Each final state, up to its share of the rows. Hops to all groups would search the partition of each day for each.
SELECT '', state, '', 0, size, size = {max_counted_rows} / 4 AND $1::bigint IS NOT NULL AS many
FROM unnest(ARRAY['completed', 'dead', 'cancelled', 'expired']) AS one (state) CROSS JOIN LATERAL (
    SELECT count(*) AS size FROM (
        SELECT FROM mainspring_finished WHERE state = one.state LIMIT {max_counted_rows} / 4) AS job) AS counted


-- statement count_dead
-- Whether there are more jobs with an error than are grouped row by row.
SELECT count(*) FROM (
    SELECT FROM mainspring_finished WHERE error IS NOT NULL LIMIT {max_dead_rows} + 1) AS job

-- statement read_dead_groups
-- Up to {max_dead_rows} are faster to read from the index alone than by hops: a hop searches the partition of each day
-- for each kind. The newest job is looked up only for the $1 kinds that are returned.
WITH one AS MATERIALIZED (
    SELECT task, error, count(*) AS size, max(finished_at) AS last FROM mainspring_finished
    WHERE error IS NOT NULL AND state = 'dead'
    GROUP BY 1, 2 ORDER BY size DESC, task, error LIMIT $1)
SELECT task, error, size, false, (
    SELECT id FROM mainspring_finished
    WHERE error = one.error AND task = one.task AND state = 'dead' AND finished_at >= one.last
    ORDER BY finished_at DESC, id DESC LIMIT 1), last
FROM one

-- statement count_first_dead
-- Each kind of error of each task, by hops, with its newest job.
WITH RECURSIVE groups AS (
    (SELECT error, task FROM mainspring_finished
        WHERE error IS NOT NULL
        ORDER BY error, task LIMIT 1)
    UNION ALL
    SELECT hop.* FROM groups CROSS JOIN LATERAL (
        SELECT error, task FROM mainspring_finished
        WHERE error IS NOT NULL AND (error, task) > (groups.error, groups.task)
        ORDER BY error, task LIMIT 1) AS hop)
SELECT one.task, one.error, size, size = {group_share} AS many, id, finished_at
FROM groups AS one
CROSS JOIN LATERAL (
    SELECT id, finished_at FROM mainspring_finished
    WHERE error = one.error AND task = one.task AND state = 'dead'
    ORDER BY finished_at DESC, id DESC LIMIT 1) AS last
CROSS JOIN LATERAL (
    SELECT count(*) AS size FROM (
        SELECT FROM mainspring_finished WHERE error = one.error AND task = one.task AND state = 'dead'
        ORDER BY finished_at LIMIT {group_share}) AS job) AS counted

-- statement sample_dead
SELECT task, error, count(*) FROM mainspring_finished TABLESAMPLE SYSTEM ($1::float8) REPEATABLE (1)
WHERE error IS NOT NULL AND state = 'dead' GROUP BY 1, 2
