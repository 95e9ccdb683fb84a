-- walk along the ids
SELECT id, queue, task, rank, state, run_at, created_at, expires_at, attempt, crashes, runs, lease, worker, started_at, finished_at, cancel_reason, unique_key, idempotency_key, options, failure, payload, result, progress FROM ((SELECT id, queue, task, rank, state, run_at, created_at, expires_at, attempt, crashes, runs, lease, worker, started_at, finished_at, cancel_reason, unique_key, idempotency_key, options, failure, payload, result, progress, error, tags, schedule FROM mainspring_jobs WHERE true ORDER BY id DESC LIMIT $1::bigint)) AS job
            WHERE true ORDER BY id DESC LIMIT $1::bigint;

-- walk along the groups of unfinished jobs
WITH RECURSIVE groups AS (
        (SELECT queue, task, rank FROM mainspring_jobs WHERE crashes < 2 AND NOT parked AND queue >= $3::text AND queue <= $4::text ORDER BY queue, task, rank LIMIT 1)
        UNION ALL
        SELECT hop.* FROM groups CROSS JOIN LATERAL (SELECT queue, task, rank FROM mainspring_jobs
            WHERE crashes < 2 AND NOT parked AND queue >= $3::text AND queue <= $4::text AND (queue, task, rank) > (groups.queue, groups.task, groups.rank) ORDER BY queue, task, rank LIMIT 1) AS hop), edge AS MATERIALIZED (SELECT (SELECT heads.at FROM groups AS one
            CROSS JOIN LATERAL (
                SELECT run_at AS at FROM mainspring_jobs WHERE crashes < 2 AND NOT parked AND queue = one.queue AND task = one.task AND rank = one.rank AND state = 'pending' ORDER BY run_at ASC LIMIT (SELECT 2 * $1::bigint / greatest(count(*), 1) + 1 FROM groups AS one WHERE one.queue = ANY($2::text[]))) AS heads
            WHERE one.queue = ANY($2::text[]) ORDER BY heads.at ASC OFFSET $1::bigint - 1 LIMIT 1) AS at) SELECT id, queue, task, rank, state, run_at, created_at, expires_at, attempt, crashes, runs, lease, worker, started_at, finished_at, cancel_reason, unique_key, idempotency_key, options, failure, payload, result, progress FROM ((SELECT * FROM ((SELECT job.* FROM groups AS one CROSS JOIN edge CROSS JOIN LATERAL (SELECT id, queue, task, rank, state, run_at, created_at, expires_at, attempt, crashes, runs, lease, worker, started_at, finished_at, cancel_reason, unique_key, idempotency_key, options, failure, payload, result, progress, error, tags, schedule FROM mainspring_jobs WHERE crashes < 2 AND NOT parked AND queue = one.queue AND task = one.task AND rank = one.rank AND state = 'pending' AND run_at <= coalesce(edge.at, 4611686018427387904) ORDER BY run_at ASC, id ASC LIMIT $1::bigint) AS job WHERE one.queue = ANY($2::text[])) UNION ALL (SELECT id, queue, task, rank, state, run_at, created_at, expires_at, attempt, crashes, runs, lease, worker, started_at, finished_at, cancel_reason, unique_key, idempotency_key, options, failure, payload, result, progress, error, tags, schedule FROM mainspring_jobs WHERE crashes >= 2 AND NOT parked AND queue = ANY($2::text[]) AND state = 'pending' ORDER BY run_at ASC, id ASC LIMIT $1::bigint)) AS job ORDER BY run_at ASC, id ASC LIMIT $1::bigint)) AS job
            WHERE true ORDER BY run_at ASC, id ASC LIMIT $1::bigint;

-- walk along the groups of finished jobs
WITH groups AS (SELECT unnest($3::text[]) AS state), edge AS MATERIALIZED (SELECT (SELECT heads.at FROM groups AS one
            CROSS JOIN LATERAL (
                SELECT finished_at AS at FROM mainspring_finished WHERE state = one.state AND state = ANY($2::text[]) ORDER BY finished_at DESC LIMIT (SELECT 2 * $1::bigint / greatest(count(*), 1) + 1 FROM groups AS one WHERE true)) AS heads
            WHERE true ORDER BY heads.at DESC OFFSET $1::bigint - 1 LIMIT 1) AS at) SELECT id, queue, task, rank, state, run_at, created_at, expires_at, attempt, crashes, runs, lease, worker, started_at, finished_at, cancel_reason, unique_key, idempotency_key, options, failure, payload, result, progress FROM ((SELECT * FROM ((SELECT job.* FROM groups AS one CROSS JOIN edge CROSS JOIN LATERAL (SELECT id, queue, task, rank, state, run_at, created_at, expires_at, attempt, crashes, runs, lease, worker, started_at, finished_at, cancel_reason, unique_key, idempotency_key, options, failure, payload, result, progress, error, tags, schedule FROM mainspring_finished WHERE state = one.state AND state = ANY($2::text[]) AND finished_at >= coalesce(edge.at, -4611686018427387904) ORDER BY finished_at DESC, id DESC LIMIT $1::bigint) AS job WHERE true)) AS job ORDER BY finished_at DESC, id DESC LIMIT $1::bigint)) AS job
            WHERE true ORDER BY finished_at DESC, id DESC LIMIT $1::bigint;

-- nearby page of brief jobs
SELECT id, queue, task, rank, state, run_at, created_at, expires_at, attempt, crashes, runs, lease, worker, started_at, finished_at, cancel_reason, unique_key, idempotency_key, CASE WHEN (octet_length(options) > 4096
    AND (octet_length(options) > 4 * 4096 OR length(options) > 4096)) THEN json_strip_nulls(json_build_object('tags', tags, 'schedule', schedule, 'scheduled_at',
    CASE WHEN schedule IS NOT NULL THEN options::json -> 'scheduled_at' END, 'cut', true))::text ELSE options END AS options, failure, CASE WHEN (octet_length(payload) > 4096
    AND (octet_length(payload) > 4 * 4096 OR length(payload) > 4096)) THEN '' ELSE payload END AS payload, CASE WHEN (octet_length(result) > 4096
    AND (octet_length(result) > 4 * 4096 OR length(result) > 4096)) THEN '' ELSE result END AS result, progress FROM ((SELECT id, queue, task, rank, state, run_at, created_at, expires_at, attempt, crashes, runs, lease, worker, started_at, finished_at, cancel_reason, unique_key, idempotency_key, options, failure, payload, result, progress, error, tags, schedule FROM mainspring_jobs WHERE true ORDER BY id DESC LIMIT 5000)) AS job
            WHERE queue = ANY($2::text[]) AND tags @> $3::text[] ORDER BY id DESC LIMIT $1::bigint;

-- nearby page between two times of creation
SELECT id, queue, task, rank, state, run_at, created_at, expires_at, attempt, crashes, runs, lease, worker, started_at, finished_at, cancel_reason, unique_key, idempotency_key, options, failure, payload, result, progress FROM ((SELECT id, queue, task, rank, state, run_at, created_at, expires_at, attempt, crashes, runs, lease, worker, started_at, finished_at, cancel_reason, unique_key, idempotency_key, options, failure, payload, result, progress, error, tags, schedule FROM mainspring_finished WHERE id >= $2::text AND id < $3::text ORDER BY id DESC LIMIT 5000) UNION ALL (SELECT * FROM (SELECT id, queue, task, rank, state, run_at, created_at, expires_at, attempt, crashes, runs, lease, worker, started_at, finished_at, cancel_reason, unique_key, idempotency_key, options, failure, payload, result, progress, error, tags, schedule FROM mainspring_finished WHERE left(id, 10) <> left(lpad(to_hex(created_at / 1000), 12, '0'), 8) || '-' || substr(lpad(to_hex(created_at / 1000), 12, '0'), 9, 1) AND created_at >= $6::bigint AND created_at <= $7::bigint AND NOT (id >= $2::text AND id < $3::text) OFFSET 0) AS other ORDER BY id DESC LIMIT 5000)) AS job
            WHERE created_at >= $4::bigint AND created_at <= $5::bigint ORDER BY id DESC LIMIT $1::bigint;

-- page by a small index
WITH RECURSIVE groups AS (
        (SELECT queue, task, rank FROM mainspring_jobs WHERE crashes < 2 AND NOT parked ORDER BY queue, task, rank LIMIT 1)
        UNION ALL
        SELECT hop.* FROM groups CROSS JOIN LATERAL (SELECT queue, task, rank FROM mainspring_jobs
            WHERE crashes < 2 AND NOT parked AND (queue, task, rank) > (groups.queue, groups.task, groups.rank) ORDER BY queue, task, rank LIMIT 1) AS hop),
                few AS MATERIALIZED (SELECT * FROM ((SELECT id, 0::bigint AS at, ((unique_key >= $2::text AND unique_key < $3::text) OR (idempotency_key >= $2::text AND idempotency_key < $3::text)) AS matches FROM mainspring_jobs WHERE unique_key >= $4::text AND unique_key < $5::text LIMIT 501) UNION ALL (SELECT id, 0::bigint AS at, ((unique_key >= $2::text AND unique_key < $3::text) OR (idempotency_key >= $2::text AND idempotency_key < $3::text)) AS matches FROM mainspring_jobs WHERE idempotency_key >= $4::text AND idempotency_key < $5::text LIMIT 501)) AS found LIMIT 501),
                page AS (SELECT id FROM few WHERE matches ORDER BY at DESC, id DESC
                    LIMIT 2 * $1::bigint)
                SELECT job.*, found FROM (SELECT count(*) AS found FROM few) AS size LEFT JOIN (
                    SELECT id, queue, task, rank, state, run_at, created_at, expires_at, attempt, crashes, runs, lease, worker, started_at, finished_at, cancel_reason, unique_key, idempotency_key, options, failure, payload, result, progress FROM mainspring_jobs WHERE id = ANY(ARRAY(SELECT id FROM page))) AS job ON true
                ORDER BY id DESC LIMIT $1::bigint;

-- page by groups
WITH RECURSIVE groups AS (
        (SELECT queue, task, rank FROM mainspring_jobs WHERE crashes < 2 AND NOT parked AND queue >= $4::text AND queue <= $5::text ORDER BY queue, task, rank LIMIT 1)
        UNION ALL
        SELECT hop.* FROM groups CROSS JOIN LATERAL (SELECT queue, task, rank FROM mainspring_jobs
            WHERE crashes < 2 AND NOT parked AND queue >= $4::text AND queue <= $5::text AND (queue, task, rank) > (groups.queue, groups.task, groups.rank) ORDER BY queue, task, rank LIMIT 1) AS hop),
                few AS MATERIALIZED (SELECT * FROM ((SELECT job.* FROM groups AS one CROSS JOIN LATERAL (SELECT id, 0::bigint AS at, queue = ANY($2::text[]) AND tags @> $3::text[] AS matches FROM mainspring_jobs
            WHERE crashes < 2 AND NOT parked AND queue = one.queue AND task = one.task AND rank = one.rank AND true) AS job WHERE one.queue = ANY($2::text[])) UNION ALL (SELECT id, 0::bigint AS at, queue = ANY($2::text[]) AND tags @> $3::text[] AS matches FROM mainspring_jobs WHERE parked AND queue = ANY($2::text[]) LIMIT 10001) UNION ALL (SELECT id, 0::bigint AS at, queue = ANY($2::text[]) AND tags @> $3::text[] AS matches FROM mainspring_jobs WHERE crashes >= 2 AND NOT parked AND queue = ANY($2::text[]) LIMIT 10001)) AS found LIMIT 10001),
                page AS (SELECT id FROM few WHERE matches ORDER BY at DESC, id DESC
                    LIMIT 2 * $1::bigint)
                SELECT job.*, found FROM (SELECT count(*) AS found FROM few) AS size LEFT JOIN (
                    SELECT id, queue, task, rank, state, run_at, created_at, expires_at, attempt, crashes, runs, lease, worker, started_at, finished_at, cancel_reason, unique_key, idempotency_key, CASE WHEN (octet_length(options) > 4096
    AND (octet_length(options) > 4 * 4096 OR length(options) > 4096)) THEN json_strip_nulls(json_build_object('tags', tags, 'schedule', schedule, 'scheduled_at',
    CASE WHEN schedule IS NOT NULL THEN options::json -> 'scheduled_at' END, 'cut', true))::text ELSE options END AS options, failure, CASE WHEN (octet_length(payload) > 4096
    AND (octet_length(payload) > 4 * 4096 OR length(payload) > 4096)) THEN '' ELSE payload END AS payload, CASE WHEN (octet_length(result) > 4096
    AND (octet_length(result) > 4 * 4096 OR length(result) > 4096)) THEN '' ELSE result END AS result, progress FROM mainspring_jobs WHERE id = ANY(ARRAY(SELECT id FROM page))) AS job ON true
                ORDER BY id DESC LIMIT $1::bigint;
