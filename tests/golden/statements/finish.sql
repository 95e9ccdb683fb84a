-- complete
WITH gone AS (DELETE FROM ONLY mainspring_jobs AS job WHERE id = ANY(string_to_array($1, '\x1f'))
        AND state = 'running' AND lease = $2::jsonb -> id ->> 0 RETURNING job.*, $2::jsonb -> id AS outcome) INSERT INTO mainspring_finished (id, queue, task, rank, run_at, created_at, expires_at, started_at, attempt, crashes, runs, lease,
    worker, cancel_reason, unique_key, idempotency_key, schedule, tags, options, payload, progress, state, ending, finished_at, result)
    SELECT id, queue, task, rank, run_at, created_at, expires_at, started_at, attempt, crashes, runs, lease,
    worker, cancel_reason, unique_key, idempotency_key, schedule, tags, options, payload, progress, 'completed', 'completed', (outcome ->> 1)::bigint, outcome ->> 2 FROM gone  ON CONFLICT (id) DO UPDATE SET queue = excluded.queue, task = excluded.task, rank = excluded.rank, state = excluded.state, run_at = excluded.run_at, created_at = excluded.created_at, expires_at = excluded.expires_at, attempt = excluded.attempt, crashes = excluded.crashes, runs = excluded.runs, lease = excluded.lease, worker = excluded.worker, started_at = excluded.started_at, finished_at = excluded.finished_at, cancel_reason = excluded.cancel_reason, unique_key = excluded.unique_key, idempotency_key = excluded.idempotency_key, options = excluded.options, failure = excluded.failure, payload = excluded.payload, result = excluded.result, progress = excluded.progress, error = excluded.error, tags = excluded.tags, schedule = excluded.schedule, ending = excluded.ending RETURNING id;

-- complete_all
WITH ended AS MATERIALIZED (SELECT string_to_array($2, '\x1f')::bigint[] AS at),
    gone AS (DELETE FROM ONLY mainspring_jobs WHERE id = ANY(string_to_array($1, '\x1f')) AND state = 'running'
        RETURNING id, queue, task, rank, run_at, created_at, expires_at, started_at, attempt, crashes, runs, lease,
    worker, cancel_reason, unique_key, idempotency_key, schedule, tags, options, payload, progress),
    kept AS (INSERT INTO mainspring_finished (id, queue, task, rank, run_at, created_at, expires_at, started_at, attempt, crashes, runs, lease,
    worker, cancel_reason, unique_key, idempotency_key, schedule, tags, options, payload, progress, state, ending, finished_at, result)
        SELECT id, queue, task, rank, run_at, created_at, expires_at, started_at, attempt, crashes, runs, lease,
    worker, cancel_reason, unique_key, idempotency_key, schedule, tags, options, payload, progress, 'completed', 'completed', ((SELECT at FROM ended))[row_number() OVER ()],
            CASE WHEN $10::jsonb IS NOT NULL THEN $10::jsonb ->> id END FROM gone),
    counted AS (INSERT INTO mainspring_counting (at, queue, task, sums)
        SELECT * FROM unnest($3::text[]::bigint[], $4::text[], $5::text[], $6::text[])),
    freed AS (DELETE FROM mainspring_leases WHERE worker = $7 AND lease = ANY($8))
    SELECT 1 / (coalesce(string_agg(id, '\x1f') = $1 AND string_agg(lease, '\x1f') = $9, false)
        AND NOT EXISTS (SELECT 1 FROM mainspring_circuits))::integer FROM gone;

-- complete_limited
WITH ended AS MATERIALIZED (SELECT string_to_array($2, '\x1f')::bigint[] AS at),
    gone AS (DELETE FROM mainspring_limited WHERE id = ANY(string_to_array($1, '\x1f')) AND state = 'running'
        RETURNING id, queue, task, rank, run_at, created_at, expires_at, started_at, attempt, crashes, runs, lease,
    worker, cancel_reason, unique_key, idempotency_key, schedule, tags, options, payload, progress),
    kept AS (INSERT INTO mainspring_finished (id, queue, task, rank, run_at, created_at, expires_at, started_at, attempt, crashes, runs, lease,
    worker, cancel_reason, unique_key, idempotency_key, schedule, tags, options, payload, progress, state, ending, finished_at, result)
        SELECT id, queue, task, rank, run_at, created_at, expires_at, started_at, attempt, crashes, runs, lease,
    worker, cancel_reason, unique_key, idempotency_key, schedule, tags, options, payload, progress, 'completed', 'completed', ((SELECT at FROM ended))[row_number() OVER ()],
            CASE WHEN $10::jsonb IS NOT NULL THEN $10::jsonb ->> id END FROM gone),
    counted AS (INSERT INTO mainspring_counting (at, queue, task, sums)
        SELECT * FROM unnest($3::text[]::bigint[], $4::text[], $5::text[], $6::text[])),
    freed AS (DELETE FROM mainspring_leases WHERE worker = $7 AND lease = ANY($8))
    , locked AS MATERIALIZED (
    SELECT limit_key FROM mainspring_limit_groups WHERE limit_key = ANY($11::text[])
    ORDER BY limit_key
    FOR NO KEY UPDATE),
    given_back AS (UPDATE mainspring_limit_groups AS known SET running = running - ended,
    look_at = CASE WHEN is_full OR (NOT pending AND running <= ended) THEN 0 ELSE look_at END
FROM unnest($11::text[], $12::text[]::bigint[]) AS given (limit_key, ended)
WHERE known.limit_key = given.limit_key AND (SELECT count(*) FROM locked) >= 0)
    SELECT 1 / (coalesce(string_agg(id, '\x1f') = $1 AND string_agg(lease, '\x1f') = $9, false)
        AND NOT EXISTS (SELECT 1 FROM mainspring_circuits))::integer FROM gone;
