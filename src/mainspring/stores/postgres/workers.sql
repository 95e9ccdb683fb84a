-- The statements of workers.py: how a worker beats and takes commands, and how the runs of silent workers are found.
-- statement_file.py reads them. {name} stands for a fragment, or for a text that workers.py gives.
-- tests/golden/statements/workers.sql has every statement as the server gets it.


-- fragment is_late_beat
-- A later beat has overtaken this one. Not parsed as JSON: a row that cannot be decoded would make every beat of its
-- worker fail. A row that has been silent since $2 counts as deleted.
known.until > $2 AND substring(known.info from '"beats":([0-9]{1,18})')::bigint
    > substring(excluded.info from '"beats":([0-9]{1,18})')::bigint

-- fragment begin_beat
-- Deletes the rows of workers that have been silent since $2, and the leases of worker $1 without a running job.
silent AS (
    DELETE FROM mainspring_workers WHERE until <= $2 AND id <> $1 AND EXISTS (SELECT FROM may)),
gone AS (
    DELETE FROM mainspring_leases AS held WHERE worker = $1 AND EXISTS (SELECT FROM may) AND NOT EXISTS (
        SELECT 1 FROM mainspring_jobs WHERE id = ANY(held.ids) AND lease = held.lease AND state = 'running'))

-- fragment reply
-- What every beat returns: until when the feed is watched, and the runs of worker $1.
({watched}) AS watched, (
    SELECT json_agg(json_build_array(id, lease, cancel_reason)) FROM mainspring_jobs
    WHERE state = 'running' AND worker = $1
        AND id = ANY(ARRAY(SELECT unnest(ids) FROM mainspring_leases WHERE worker = $1)))::text AS runs

-- statement beat
-- Extends the life of worker $1 to $3, with $4 about it; $5 now. Writes nothing if the release, which knows schema $6,
-- cannot work on these tables. All subqueries see the tables as they were before. Also returns what a worker that listens
-- need not poll for: beat_findings.py.
WITH may AS (
    SELECT FROM mainspring_schema WHERE coalesce(oldest, version) <= $6 AND version >= $6),
{begin_beat},
beaten AS (
    INSERT INTO mainspring_workers AS known (id, until, info) SELECT $1, $3, $4 FROM may
    ON CONFLICT (id) DO UPDATE SET
        until = CASE WHEN {is_late_beat} THEN known.until ELSE excluded.until END,
        info = CASE WHEN {is_late_beat} THEN known.info ELSE excluded.info END,
        orders = CASE WHEN known.until > $2 THEN known.orders END
    RETURNING orders),
alive AS (
    SELECT id FROM mainspring_workers WHERE until > $5 AND id <> $1)
SELECT (SELECT orders FROM beaten) AS orders, {reply},
    (SELECT version FROM mainspring_schema) AS version, (SELECT oldest FROM mainspring_schema) AS oldest,
    EXISTS (SELECT 1 FROM mainspring_counting) AS counts,
    1 + (SELECT count(*) FROM alive) AS live_workers,
    EXISTS (SELECT 1 FROM mainspring_leases WHERE worker <> $1 AND worker <> ALL (ARRAY(SELECT id FROM alive))) AS lost,
    EXISTS (SELECT 1 FROM mainspring_schedules WHERE due_at <= $5 AND NOT computed) AS due,
    -- A row that is written again has another xmin.
    (SELECT coalesce(string_agg(name || xmin::text, ',' ORDER BY name), '') FROM mainspring_documents
    WHERE kind = 'webhook') AS webhooks

-- statement end_worker
-- The last beat of worker $1.
WITH may AS (
    SELECT),
{begin_beat},
ended AS (
    DELETE FROM mainspring_workers WHERE id = $1 RETURNING orders)
SELECT (SELECT orders FROM ended) AS orders, {reply}

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
