-- The statements of workers.py: how a worker beats and takes commands, and how the runs of silent workers are found.
-- statement_file.py reads them. {name} stands for a fragment, or for a text that workers.py gives.
-- tests/golden/statements/workers.sql has every statement as the server gets it.


-- statement forget_silent
DELETE FROM mainspring_workers WHERE until <= $1

-- fragment is_late_beat
-- A later beat has overtaken this one. Not parsed as JSON: a row that cannot be decoded would make every beat of its
-- worker fail.
substring(known.info from '"beats":([0-9]{1,18})')::bigint
    > substring(excluded.info from '"beats":([0-9]{1,18})')::bigint

-- statement beat
INSERT INTO mainspring_workers AS known (id, until, info) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET
    until = CASE WHEN {is_late_beat} THEN known.until ELSE excluded.until END,
    info = CASE WHEN {is_late_beat} THEN known.info ELSE excluded.info END
RETURNING orders

-- statement end_worker
DELETE FROM mainspring_workers WHERE id = $1 RETURNING orders

-- statement clear_leases
-- Deletes the worker's leases without a running job, and reads until when the feed is watched.
WITH gone AS (
    DELETE FROM mainspring_leases AS held WHERE worker = $1 AND NOT EXISTS (
        SELECT 1 FROM mainspring_jobs WHERE id = ANY(held.ids) AND lease = held.lease AND state = 'running'))
{watched}

-- statement runs_of_worker
SELECT id, lease, cancel_reason FROM mainspring_jobs WHERE state = 'running' AND worker = $1
    AND id = ANY(ARRAY(SELECT unnest(ids) FROM mainspring_leases WHERE worker = $1))

-- fragment is_silent
worker <> ALL (ARRAY(SELECT id FROM mainspring_workers WHERE until > $1))

-- statement orphaned_runs
-- Up to $2 runs of workers that are silent at $1. Deletes the leases of such workers that have no running job.
WITH gone AS (
    DELETE FROM mainspring_leases AS held WHERE {is_silent} AND NOT EXISTS (
        SELECT 1 FROM mainspring_jobs WHERE id = ANY(held.ids) AND lease = held.lease AND state = 'running'))
SELECT {columns} FROM mainspring_jobs WHERE state = 'running' AND {is_silent}
    AND id = ANY(ARRAY(SELECT unnest(ids) FROM mainspring_leases WHERE {is_silent}))
ORDER BY id LIMIT $2

-- statement lock_orders
SELECT id, orders FROM mainspring_workers WHERE until > $1 AND ($2::text[] IS NULL OR id = ANY($2))
ORDER BY id
FOR NO KEY UPDATE

-- statement set_orders
UPDATE mainspring_workers AS worker SET orders = given.orders
FROM unnest($1::text[], $2::text[]) AS given (id, orders) WHERE worker.id = given.id

-- statement live_workers
SELECT id, info, until, orders FROM mainspring_workers WHERE until > $1 ORDER BY id
