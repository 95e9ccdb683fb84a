-- beat
WITH may AS (
    SELECT FROM mainspring_schema WHERE coalesce(oldest, version) <= $6 AND version >= $6),
silent AS (
    DELETE FROM mainspring_workers WHERE until <= $2 AND id <> $1 AND EXISTS (SELECT FROM may)),
gone AS (
    DELETE FROM mainspring_leases AS held WHERE worker = $1 AND EXISTS (SELECT FROM may) AND NOT EXISTS (
        SELECT 1 FROM mainspring_jobs WHERE id = ANY(held.ids) AND lease = held.lease AND state = 'running')),
beaten AS (
    INSERT INTO mainspring_workers AS known (id, until, info) SELECT $1, $3, $4 FROM may
    ON CONFLICT (id) DO UPDATE SET
        until = CASE WHEN known.until > $2 AND substring(known.info from '"beats":([0-9]{1,18})')::bigint
            > substring(excluded.info from '"beats":([0-9]{1,18})')::bigint THEN known.until ELSE excluded.until END,
        info = CASE WHEN known.until > $2 AND substring(known.info from '"beats":([0-9]{1,18})')::bigint
            > substring(excluded.info from '"beats":([0-9]{1,18})')::bigint THEN known.info ELSE excluded.info END,
        orders = CASE WHEN known.until > $2 THEN known.orders END
    RETURNING orders),
alive AS (
    SELECT id FROM mainspring_workers WHERE until > $5 AND id <> $1)
SELECT (SELECT orders FROM beaten) AS orders, (SELECT n FROM mainspring_marks WHERE name = 'watched') AS watched, (
    SELECT json_agg(json_build_array(id, lease, cancel_reason)) FROM mainspring_jobs
    WHERE state = 'running' AND worker = $1
        AND id = ANY(ARRAY(SELECT unnest(ids) FROM mainspring_leases WHERE worker = $1)))::text AS runs,
    (SELECT version FROM mainspring_schema) AS version, (SELECT oldest FROM mainspring_schema) AS oldest,
    EXISTS (SELECT 1 FROM mainspring_counting) AS counts,
    1 + (SELECT count(*) FROM alive) AS live_workers,
    EXISTS (SELECT 1 FROM mainspring_leases WHERE worker <> $1 AND worker <> ALL (ARRAY(SELECT id FROM alive))) AS lost,
    EXISTS (SELECT 1 FROM mainspring_schedules WHERE due_at <= $5 AND NOT computed) AS due,
    (SELECT coalesce(string_agg(name || xmin::text, ',' ORDER BY name), '') FROM mainspring_documents
    WHERE kind = 'webhook') AS webhooks;

-- end_worker
WITH may AS (
    SELECT),
silent AS (
    DELETE FROM mainspring_workers WHERE until <= $2 AND id <> $1 AND EXISTS (SELECT FROM may)),
gone AS (
    DELETE FROM mainspring_leases AS held WHERE worker = $1 AND EXISTS (SELECT FROM may) AND NOT EXISTS (
        SELECT 1 FROM mainspring_jobs WHERE id = ANY(held.ids) AND lease = held.lease AND state = 'running')),
ended AS (
    DELETE FROM mainspring_workers WHERE id = $1 RETURNING orders)
SELECT (SELECT orders FROM ended) AS orders, (SELECT n FROM mainspring_marks WHERE name = 'watched') AS watched, (
    SELECT json_agg(json_build_array(id, lease, cancel_reason)) FROM mainspring_jobs
    WHERE state = 'running' AND worker = $1
        AND id = ANY(ARRAY(SELECT unnest(ids) FROM mainspring_leases WHERE worker = $1)))::text AS runs;

-- orphaned_runs
WITH gone AS (
    DELETE FROM mainspring_leases AS held WHERE worker <> ALL (ARRAY(SELECT id FROM mainspring_workers WHERE until > $1)) AND NOT EXISTS (
        SELECT 1 FROM mainspring_jobs WHERE id = ANY(held.ids) AND lease = held.lease AND state = 'running'))
SELECT id, queue, task, rank, state, run_at, created_at, expires_at, attempt, crashes, runs, lease, worker, started_at, finished_at, cancel_reason, unique_key, idempotency_key, options, failure, payload, result, progress FROM mainspring_jobs WHERE state = 'running' AND worker <> ALL (ARRAY(SELECT id FROM mainspring_workers WHERE until > $1))
    AND id = ANY(ARRAY(SELECT unnest(ids) FROM mainspring_leases WHERE worker <> ALL (ARRAY(SELECT id FROM mainspring_workers WHERE until > $1))))
ORDER BY id LIMIT $2;

-- lock_orders
SELECT id, orders FROM mainspring_workers WHERE until > $1 AND ($2::text[] IS NULL OR id = ANY($2))
ORDER BY id
FOR NO KEY UPDATE;

-- set_orders
UPDATE mainspring_workers AS worker SET orders = given.orders
FROM unnest($1::text[], $2::text[]) AS given (id, orders) WHERE worker.id = given.id;

-- live_workers
SELECT id, info, until, orders FROM mainspring_workers WHERE until > $1 ORDER BY id;
