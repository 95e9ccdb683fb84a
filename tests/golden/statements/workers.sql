-- forget_silent
DELETE FROM mainspring_workers WHERE until <= $1;

-- beat
INSERT INTO mainspring_workers AS known (id, until, info) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET
    until = CASE WHEN substring(known.info from '"beats":([0-9]{1,18})')::bigint
        > substring(excluded.info from '"beats":([0-9]{1,18})')::bigint THEN known.until ELSE excluded.until END,
    info = CASE WHEN substring(known.info from '"beats":([0-9]{1,18})')::bigint
        > substring(excluded.info from '"beats":([0-9]{1,18})')::bigint THEN known.info ELSE excluded.info END
RETURNING orders;

-- end_worker
DELETE FROM mainspring_workers WHERE id = $1 RETURNING orders;

-- clear_leases
WITH gone AS (
    DELETE FROM mainspring_leases AS held WHERE worker = $1 AND NOT EXISTS (
        SELECT 1 FROM mainspring_jobs WHERE id = ANY(held.ids) AND lease = held.lease AND state = 'running'))
SELECT n FROM mainspring_marks WHERE name = 'watched';

-- runs_of_worker
SELECT id, lease, cancel_reason FROM mainspring_jobs WHERE state = 'running' AND worker = $1
    AND id = ANY(ARRAY(SELECT unnest(ids) FROM mainspring_leases WHERE worker = $1));

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
