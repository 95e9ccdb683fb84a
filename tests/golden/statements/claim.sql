-- parts[seen]
SELECT first.rank, first.due_at, first.id, (
    SELECT octet_length(payload) + octet_length(options) FROM ONLY mainspring_jobs AS job WHERE job.id = first.id)
FROM first WHERE $1::text IS NOT NULL AND $5::text IS NOT NULL
ORDER BY 1, 2, 3;

-- parts[record_lease]
INSERT INTO mainspring_leases SELECT $1, $5, array_agg(id) FROM taken HAVING count(*) > 0
ON CONFLICT (worker, lease) DO UPDATE SET ids = mainspring_leases.ids || excluded.ids;

-- take_plain
WITH RECURSIVE groups AS (
    (SELECT queue, task, rank, run_at, id AS head FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
        ORDER BY queue, task, rank, run_at, id LIMIT 1)
    UNION ALL
    SELECT hop.* FROM groups CROSS JOIN LATERAL (
        SELECT queue, task, rank, run_at, id FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
            AND (queue, task, rank) > (groups.queue, groups.task, groups.rank)
        ORDER BY queue, task, rank, run_at, id LIMIT 1) AS hop),
due AS MATERIALIZED (
    SELECT * FROM groups
    WHERE (task IN (SELECT unnest($3::text[]))) IS TRUE AND ($4::text[] IS NULL OR queue = ANY($4))
        AND queue <> ALL (ARRAY(SELECT name FROM mainspring_queues WHERE paused))
        AND task <> ALL (ARRAY(SELECT task FROM mainspring_circuits WHERE open_until IS NOT NULL))
        AND run_at <= $2 AND (SELECT EXISTS (SELECT 1 FROM mainspring_workers WHERE id = $1 AND until > $2)
            AND NOT EXISTS (SELECT 1 FROM ONLY mainspring_jobs
                WHERE expires_at IS NOT NULL AND NOT parked AND state = 'pending' AND expires_at <= $2)
            AND NOT EXISTS (SELECT 1 FROM ONLY mainspring_jobs WHERE crashes >= 2 AND NOT parked AND state = 'pending')
            AND NOT EXISTS (SELECT 1 FROM mainspring_circuits WHERE open_until <= $2 AND probe IS NULL)
            AND NOT EXISTS (SELECT FROM mainspring_limit_groups))
    ORDER BY rank, run_at, head LIMIT $6),
sample AS MATERIALIZED (
    SELECT CASE WHEN count(*) < $6 THEN least(2 * $6 / nullif(count(*), 0) + 1, $6) ELSE 0 END AS size FROM due),
early AS MATERIALIZED (
    SELECT one.*, job.* FROM due AS one CROSS JOIN LATERAL (
        SELECT run_at AS due_at, id, row_number() OVER (ORDER BY run_at, id) AS n FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
            AND queue = one.queue AND task = one.task AND rank = one.rank
            AND run_at <= $2 AND (expires_at IS NULL OR expires_at > $2) AND (run_at, id) >= (one.run_at, one.head)
        ORDER BY run_at, id LIMIT (SELECT size FROM sample)) AS job
    WHERE (SELECT size FROM sample) > 0),
last AS MATERIALIZED (
    SELECT * FROM (
        SELECT rank, due_at, id FROM early
        UNION ALL SELECT rank, run_at, head FROM due WHERE (SELECT size FROM sample) = 0) AS job
    ORDER BY rank, due_at, id OFFSET $6 - 1 LIMIT 1),
further AS (
    SELECT one.queue, one.task, one.rank, one.run_at, one.head, job.* FROM (
        SELECT * FROM early WHERE n = (SELECT size FROM sample) AND n < $6
        UNION ALL SELECT due.*, run_at, '', 0 FROM due WHERE (SELECT size FROM sample) = 0) AS one
    LEFT JOIN last ON true
    CROSS JOIN LATERAL (
        SELECT run_at AS due_at, id FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
            AND queue = one.queue AND task = one.task AND rank = one.rank
            AND run_at <= $2 AND (expires_at IS NULL OR expires_at > $2) AND (run_at, id) >= (one.run_at, one.head) AND (run_at, id) > (one.due_at, one.id)
            AND (run_at, id) <= (CASE WHEN last.rank = one.rank THEN last.due_at ELSE $2 + 1 END,
                CASE WHEN last.rank = one.rank THEN last.id ELSE '' END)
        ORDER BY run_at, id LIMIT $6) AS job
    WHERE last.id IS NULL OR (one.rank, one.due_at, one.id) <= (last.rank, last.due_at, last.id)),
first AS (
    SELECT queue, task, rank, run_at, head, due_at, id FROM early
    UNION ALL SELECT queue, task, rank, run_at, head, due_at, id FROM further
    ORDER BY rank, due_at, id LIMIT $6),
one AS MATERIALIZED (
    SELECT queue, task, rank, run_at, head, $6 AS share FROM due WHERE (SELECT count(*) FROM due) = 1
    UNION ALL
    SELECT queue, task, rank, run_at, head, count(*) FROM first WHERE (SELECT count(*) FROM due) > 1
    GROUP BY 1, 2, 3, 4, 5),
locked AS MATERIALIZED (
    SELECT one.rank, job.* FROM one CROSS JOIN LATERAL (
        SELECT ctid AS place, run_at, id, octet_length(payload) + octet_length(options) AS size FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
            AND queue = one.queue AND task = one.task AND rank = one.rank
            AND run_at <= $2 AND (expires_at IS NULL OR expires_at > $2) AND (run_at, id) >= (one.run_at, one.head) ORDER BY run_at, id LIMIT one.share
        FOR NO KEY UPDATE SKIP LOCKED) AS job),
taken AS (
    UPDATE ONLY mainspring_jobs SET state = 'running', lease = $5, worker = $1, started_at = $2,
        attempt = attempt + 1, runs = runs + 1
    WHERE ctid = ANY (ARRAY(
        SELECT place FROM locked WHERE (SELECT sum(size) FROM locked) < 16777216
        UNION ALL
        SELECT place FROM (
            SELECT place, sum(size) OVER (ORDER BY rank, run_at, id) - size AS before FROM locked) AS cut
        WHERE before < 16777216 AND (SELECT sum(size) FROM locked) >= 16777216))
    RETURNING id, queue, task, rank, run_at, created_at, expires_at, attempt, crashes, runs, cancel_reason, unique_key, idempotency_key, options, failure, payload, progress),
noted AS (
    INSERT INTO mainspring_leases SELECT $1, $5, array_agg(id) FROM taken HAVING count(*) > 0
    ON CONFLICT (worker, lease) DO UPDATE SET ids = mainspring_leases.ids || excluded.ids)
SELECT taken.*, (
    SELECT CASE
        WHEN (SELECT count(*) = $6 OR count(*) < (SELECT count(*) FROM first) FROM taken) THEN $2
        WHEN EXISTS (SELECT 1 FROM mainspring_circuits WHERE open_until IS NOT NULL) THEN -1
        ELSE least(
            (SELECT min((
                SELECT run_at FROM ONLY mainspring_jobs
                WHERE crashes < 2 AND NOT parked AND state = 'pending'
                    AND queue = one.queue AND task = one.task AND rank = one.rank AND run_at > $2
                ORDER BY run_at, id LIMIT 1))
            FROM groups AS one
            WHERE (task IN (SELECT unnest($3::text[]))) IS TRUE AND ($4::text[] IS NULL OR queue = ANY($4))
                AND queue <> ALL (ARRAY(SELECT name FROM mainspring_queues WHERE paused))),
            NULL,
            (SELECT expires_at FROM ONLY mainspring_jobs
            WHERE expires_at IS NOT NULL AND NOT parked AND state = 'pending'
                AND id <> ALL (ARRAY(SELECT id FROM taken))
            ORDER BY expires_at LIMIT 1))
        END) AS next_at
FROM taken ORDER BY rank, run_at, id;

-- take_known
WITH RECURSIVE groups AS (
    SELECT queue, task, rank, job.* FROM unnest($7::text[], $8::text[], $9::integer[], $10::bigint[], $11::text[])
        AS known (queue, task, rank, run_at, after)
    CROSS JOIN LATERAL (
        SELECT run_at, id AS head FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
            AND queue = known.queue AND task = known.task AND rank = known.rank
            AND (run_at, id) > (known.run_at, known.after)
        ORDER BY run_at, id LIMIT 1) AS job),
due AS MATERIALIZED (
    SELECT * FROM groups
    WHERE (task IN (SELECT unnest($3::text[]))) IS TRUE AND ($4::text[] IS NULL OR queue = ANY($4))
        AND queue <> ALL (ARRAY(SELECT name FROM mainspring_queues WHERE paused))
        AND task <> ALL (ARRAY(SELECT task FROM mainspring_circuits WHERE open_until IS NOT NULL))
        AND run_at <= $2 AND (SELECT EXISTS (SELECT 1 FROM mainspring_workers WHERE id = $1 AND until > $2)
            AND NOT EXISTS (SELECT 1 FROM ONLY mainspring_jobs
                WHERE expires_at IS NOT NULL AND NOT parked AND state = 'pending' AND expires_at <= $2)
            AND NOT EXISTS (SELECT 1 FROM ONLY mainspring_jobs WHERE crashes >= 2 AND NOT parked AND state = 'pending')
            AND NOT EXISTS (SELECT 1 FROM mainspring_circuits WHERE open_until <= $2 AND probe IS NULL)
            AND NOT EXISTS (SELECT FROM mainspring_limit_groups))
    ORDER BY rank, run_at, head LIMIT $6),
sample AS MATERIALIZED (
    SELECT CASE WHEN count(*) < $6 THEN least(2 * $6 / nullif(count(*), 0) + 1, $6) ELSE 0 END AS size FROM due),
early AS MATERIALIZED (
    SELECT one.*, job.* FROM due AS one CROSS JOIN LATERAL (
        SELECT run_at AS due_at, id, row_number() OVER (ORDER BY run_at, id) AS n FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
            AND queue = one.queue AND task = one.task AND rank = one.rank
            AND run_at <= $2 AND (expires_at IS NULL OR expires_at > $2) AND (run_at, id) >= (one.run_at, one.head)
        ORDER BY run_at, id LIMIT (SELECT size FROM sample)) AS job
    WHERE (SELECT size FROM sample) > 0),
last AS MATERIALIZED (
    SELECT * FROM (
        SELECT rank, due_at, id FROM early
        UNION ALL SELECT rank, run_at, head FROM due WHERE (SELECT size FROM sample) = 0) AS job
    ORDER BY rank, due_at, id OFFSET $6 - 1 LIMIT 1),
further AS (
    SELECT one.queue, one.task, one.rank, one.run_at, one.head, job.* FROM (
        SELECT * FROM early WHERE n = (SELECT size FROM sample) AND n < $6
        UNION ALL SELECT due.*, run_at, '', 0 FROM due WHERE (SELECT size FROM sample) = 0) AS one
    LEFT JOIN last ON true
    CROSS JOIN LATERAL (
        SELECT run_at AS due_at, id FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
            AND queue = one.queue AND task = one.task AND rank = one.rank
            AND run_at <= $2 AND (expires_at IS NULL OR expires_at > $2) AND (run_at, id) >= (one.run_at, one.head) AND (run_at, id) > (one.due_at, one.id)
            AND (run_at, id) <= (CASE WHEN last.rank = one.rank THEN last.due_at ELSE $2 + 1 END,
                CASE WHEN last.rank = one.rank THEN last.id ELSE '' END)
        ORDER BY run_at, id LIMIT $6) AS job
    WHERE last.id IS NULL OR (one.rank, one.due_at, one.id) <= (last.rank, last.due_at, last.id)),
first AS (
    SELECT queue, task, rank, run_at, head, due_at, id FROM early
    UNION ALL SELECT queue, task, rank, run_at, head, due_at, id FROM further
    ORDER BY rank, due_at, id LIMIT $6),
one AS MATERIALIZED (
    SELECT queue, task, rank, run_at, head, $6 AS share FROM due WHERE (SELECT count(*) FROM due) = 1
    UNION ALL
    SELECT queue, task, rank, run_at, head, count(*) FROM first WHERE (SELECT count(*) FROM due) > 1
    GROUP BY 1, 2, 3, 4, 5),
locked AS MATERIALIZED (
    SELECT one.rank, job.* FROM one CROSS JOIN LATERAL (
        SELECT ctid AS place, run_at, id, octet_length(payload) + octet_length(options) AS size FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
            AND queue = one.queue AND task = one.task AND rank = one.rank
            AND run_at <= $2 AND (expires_at IS NULL OR expires_at > $2) AND (run_at, id) >= (one.run_at, one.head) ORDER BY run_at, id LIMIT one.share
        FOR NO KEY UPDATE SKIP LOCKED) AS job),
taken AS (
    UPDATE ONLY mainspring_jobs SET state = 'running', lease = $5, worker = $1, started_at = $2,
        attempt = attempt + 1, runs = runs + 1
    WHERE ctid = ANY (ARRAY(
        SELECT place FROM locked WHERE (SELECT sum(size) FROM locked) < 16777216
        UNION ALL
        SELECT place FROM (
            SELECT place, sum(size) OVER (ORDER BY rank, run_at, id) - size AS before FROM locked) AS cut
        WHERE before < 16777216 AND (SELECT sum(size) FROM locked) >= 16777216))
    RETURNING id, queue, task, rank, run_at, created_at, expires_at, attempt, crashes, runs, cancel_reason, unique_key, idempotency_key, options, failure, payload, progress),
noted AS (
    INSERT INTO mainspring_leases SELECT $1, $5, array_agg(id) FROM taken HAVING count(*) > 0
    ON CONFLICT (worker, lease) DO UPDATE SET ids = mainspring_leases.ids || excluded.ids)
SELECT taken.*, (
    SELECT CASE
        WHEN (SELECT count(*) = $6 OR count(*) < (SELECT count(*) FROM first) FROM taken) THEN $2
        WHEN EXISTS (SELECT 1 FROM mainspring_circuits WHERE open_until IS NOT NULL) THEN -1
        ELSE least(
            (SELECT min((
                SELECT run_at FROM ONLY mainspring_jobs
                WHERE crashes < 2 AND NOT parked AND state = 'pending'
                    AND queue = one.queue AND task = one.task AND rank = one.rank AND run_at > $2
                ORDER BY run_at, id LIMIT 1))
            FROM groups AS one
            WHERE (task IN (SELECT unnest($3::text[]))) IS TRUE AND ($4::text[] IS NULL OR queue = ANY($4))
                AND queue <> ALL (ARRAY(SELECT name FROM mainspring_queues WHERE paused))),
            NULL,
            (SELECT expires_at FROM ONLY mainspring_jobs
            WHERE expires_at IS NOT NULL AND NOT parked AND state = 'pending'
                AND id <> ALL (ARRAY(SELECT id FROM taken))
            ORDER BY expires_at LIMIT 1))
        END) AS next_at
FROM taken ORDER BY rank, run_at, id;

-- take_beside
WITH RECURSIVE groups AS (
    (SELECT queue, task, rank, run_at, id AS head FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
        ORDER BY queue, task, rank, run_at, id LIMIT 1)
    UNION ALL
    SELECT hop.* FROM groups CROSS JOIN LATERAL (
        SELECT queue, task, rank, run_at, id FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
            AND (queue, task, rank) > (groups.queue, groups.task, groups.rank)
        ORDER BY queue, task, rank, run_at, id LIMIT 1) AS hop),
due AS MATERIALIZED (
    SELECT * FROM groups
    WHERE (task IN (SELECT unnest($3::text[]))) IS TRUE AND ($4::text[] IS NULL OR queue = ANY($4))
        AND queue <> ALL (ARRAY(SELECT name FROM mainspring_queues WHERE paused))
        AND task <> ALL (ARRAY(SELECT task FROM mainspring_circuits WHERE open_until IS NOT NULL))
        AND run_at <= $2 AND (SELECT EXISTS (SELECT 1 FROM mainspring_workers WHERE id = $1 AND until > $2)
            AND NOT EXISTS (SELECT 1 FROM ONLY mainspring_jobs
                WHERE expires_at IS NOT NULL AND NOT parked AND state = 'pending' AND expires_at <= $2)
            AND NOT EXISTS (SELECT 1 FROM ONLY mainspring_jobs WHERE crashes >= 2 AND NOT parked AND state = 'pending')
            AND NOT EXISTS (SELECT 1 FROM mainspring_circuits WHERE open_until <= $2 AND probe IS NULL)
            AND NOT EXISTS (SELECT FROM mainspring_limit_groups WHERE look_at <= $2)
            AND NOT EXISTS (SELECT FROM mainspring_limited
                WHERE expires_at IS NOT NULL AND NOT parked AND state = 'pending' AND expires_at <= $2)
            AND NOT EXISTS (SELECT FROM mainspring_limited WHERE crashes >= 2 AND NOT parked AND state = 'pending')
            AND NOT EXISTS (
                WITH RECURSIVE kinds AS (
                    (SELECT name, queue, task, rank, turn FROM mainspring_limit_lines
                        WHERE has_room
                        ORDER BY name, queue, task, rank, turn LIMIT 1)
                    UNION ALL
                    SELECT hop.* FROM kinds CROSS JOIN LATERAL (
                        SELECT name, queue, task, rank, turn FROM mainspring_limit_lines
                        WHERE has_room AND (name, queue, task, rank) > (kinds.name, kinds.queue, kinds.task, kinds.rank)
                        ORDER BY name, queue, task, rank, turn LIMIT 1) AS hop)
                SELECT FROM kinds
                WHERE (task IN (SELECT unnest($3::text[]))) IS TRUE AND ($4::text[] IS NULL OR queue = ANY($4))
                    AND queue <> ALL (ARRAY(SELECT name FROM mainspring_queues WHERE paused))
                    AND task <> ALL (ARRAY(SELECT task FROM mainspring_circuits WHERE open_until IS NOT NULL))
                    AND turn <= $2::bigint + 1000000 AND NOT EXISTS (SELECT FROM mainspring_limits AS whole WHERE whole.name = kinds.name AND whole.total <= (
                        SELECT count(*) FROM mainspring_limited
                        WHERE state = 'running' AND id = ANY(ARRAY(SELECT unnest(ids) FROM mainspring_leases))
                            AND starts_with(limit_key, kinds.name || E'\n')))))
    ORDER BY rank, run_at, head LIMIT $6),
sample AS MATERIALIZED (
    SELECT CASE WHEN count(*) < $6 THEN least(2 * $6 / nullif(count(*), 0) + 1, $6) ELSE 0 END AS size FROM due),
early AS MATERIALIZED (
    SELECT one.*, job.* FROM due AS one CROSS JOIN LATERAL (
        SELECT run_at AS due_at, id, row_number() OVER (ORDER BY run_at, id) AS n FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
            AND queue = one.queue AND task = one.task AND rank = one.rank
            AND run_at <= $2 AND (expires_at IS NULL OR expires_at > $2) AND (run_at, id) >= (one.run_at, one.head)
        ORDER BY run_at, id LIMIT (SELECT size FROM sample)) AS job
    WHERE (SELECT size FROM sample) > 0),
last AS MATERIALIZED (
    SELECT * FROM (
        SELECT rank, due_at, id FROM early
        UNION ALL SELECT rank, run_at, head FROM due WHERE (SELECT size FROM sample) = 0) AS job
    ORDER BY rank, due_at, id OFFSET $6 - 1 LIMIT 1),
further AS (
    SELECT one.queue, one.task, one.rank, one.run_at, one.head, job.* FROM (
        SELECT * FROM early WHERE n = (SELECT size FROM sample) AND n < $6
        UNION ALL SELECT due.*, run_at, '', 0 FROM due WHERE (SELECT size FROM sample) = 0) AS one
    LEFT JOIN last ON true
    CROSS JOIN LATERAL (
        SELECT run_at AS due_at, id FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
            AND queue = one.queue AND task = one.task AND rank = one.rank
            AND run_at <= $2 AND (expires_at IS NULL OR expires_at > $2) AND (run_at, id) >= (one.run_at, one.head) AND (run_at, id) > (one.due_at, one.id)
            AND (run_at, id) <= (CASE WHEN last.rank = one.rank THEN last.due_at ELSE $2 + 1 END,
                CASE WHEN last.rank = one.rank THEN last.id ELSE '' END)
        ORDER BY run_at, id LIMIT $6) AS job
    WHERE last.id IS NULL OR (one.rank, one.due_at, one.id) <= (last.rank, last.due_at, last.id)),
first AS (
    SELECT queue, task, rank, run_at, head, due_at, id FROM early
    UNION ALL SELECT queue, task, rank, run_at, head, due_at, id FROM further
    ORDER BY rank, due_at, id LIMIT $6),
one AS MATERIALIZED (
    SELECT queue, task, rank, run_at, head, $6 AS share FROM due WHERE (SELECT count(*) FROM due) = 1
    UNION ALL
    SELECT queue, task, rank, run_at, head, count(*) FROM first WHERE (SELECT count(*) FROM due) > 1
    GROUP BY 1, 2, 3, 4, 5),
locked AS MATERIALIZED (
    SELECT one.rank, job.* FROM one CROSS JOIN LATERAL (
        SELECT ctid AS place, run_at, id, octet_length(payload) + octet_length(options) AS size FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
            AND queue = one.queue AND task = one.task AND rank = one.rank
            AND run_at <= $2 AND (expires_at IS NULL OR expires_at > $2) AND (run_at, id) >= (one.run_at, one.head) ORDER BY run_at, id LIMIT one.share
        FOR NO KEY UPDATE SKIP LOCKED) AS job),
taken AS (
    UPDATE ONLY mainspring_jobs SET state = 'running', lease = $5, worker = $1, started_at = $2,
        attempt = attempt + 1, runs = runs + 1
    WHERE ctid = ANY (ARRAY(
        SELECT place FROM locked WHERE (SELECT sum(size) FROM locked) < 16777216
        UNION ALL
        SELECT place FROM (
            SELECT place, sum(size) OVER (ORDER BY rank, run_at, id) - size AS before FROM locked) AS cut
        WHERE before < 16777216 AND (SELECT sum(size) FROM locked) >= 16777216))
    RETURNING id, queue, task, rank, run_at, created_at, expires_at, attempt, crashes, runs, cancel_reason, unique_key, idempotency_key, options, failure, payload, progress),
noted AS (
    INSERT INTO mainspring_leases SELECT $1, $5, array_agg(id) FROM taken HAVING count(*) > 0
    ON CONFLICT (worker, lease) DO UPDATE SET ids = mainspring_leases.ids || excluded.ids)
SELECT taken.*, (
    SELECT CASE
        WHEN (SELECT count(*) = $6 OR count(*) < (SELECT count(*) FROM first) FROM taken) THEN $2
        WHEN EXISTS (SELECT 1 FROM mainspring_circuits WHERE open_until IS NOT NULL) THEN -1
        ELSE least(
            (SELECT min((
                SELECT run_at FROM ONLY mainspring_jobs
                WHERE crashes < 2 AND NOT parked AND state = 'pending'
                    AND queue = one.queue AND task = one.task AND rank = one.rank AND run_at > $2
                ORDER BY run_at, id LIMIT 1))
            FROM groups AS one
            WHERE (task IN (SELECT unnest($3::text[]))) IS TRUE AND ($4::text[] IS NULL OR queue = ANY($4))
                AND queue <> ALL (ARRAY(SELECT name FROM mainspring_queues WHERE paused))),
            least(
                (WITH RECURSIVE kinds AS (
                    (SELECT name, queue, task, rank, turn FROM mainspring_limit_lines
                        WHERE has_room
                        ORDER BY name, queue, task, rank, turn LIMIT 1)
                    UNION ALL
                    SELECT hop.* FROM kinds CROSS JOIN LATERAL (
                        SELECT name, queue, task, rank, turn FROM mainspring_limit_lines
                        WHERE has_room AND (name, queue, task, rank) > (kinds.name, kinds.queue, kinds.task, kinds.rank)
                        ORDER BY name, queue, task, rank, turn LIMIT 1) AS hop) SELECT min(turn) FROM kinds WHERE (task IN (SELECT unnest($3::text[]))) IS TRUE AND ($4::text[] IS NULL OR queue = ANY($4))
                    AND queue <> ALL (ARRAY(SELECT name FROM mainspring_queues WHERE paused)) AND NOT EXISTS (SELECT FROM mainspring_limits AS whole WHERE whole.name = kinds.name AND whole.total <= (
                    SELECT count(*) FROM mainspring_limited
                    WHERE state = 'running' AND id = ANY(ARRAY(SELECT unnest(ids) FROM mainspring_leases))
                        AND starts_with(limit_key, kinds.name || E'\n')))),
                (SELECT min(expires_at) FROM mainspring_limited
                WHERE expires_at IS NOT NULL AND NOT parked AND state = 'pending')),
            (SELECT expires_at FROM ONLY mainspring_jobs
            WHERE expires_at IS NOT NULL AND NOT parked AND state = 'pending'
                AND id <> ALL (ARRAY(SELECT id FROM taken))
            ORDER BY expires_at LIMIT 1))
        END) AS next_at
FROM taken ORDER BY rank, run_at, id;

-- take_rest
WITH RECURSIVE groups AS (
    (SELECT queue, task, rank, run_at, id AS head FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
        ORDER BY queue, task, rank, run_at, id LIMIT 1)
    UNION ALL
    SELECT hop.* FROM groups CROSS JOIN LATERAL (
        SELECT queue, task, rank, run_at, id FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
            AND (queue, task, rank) > (groups.queue, groups.task, groups.rank)
        ORDER BY queue, task, rank, run_at, id LIMIT 1) AS hop),
due AS MATERIALIZED (
    SELECT * FROM groups
    WHERE (task IN (SELECT unnest($3::text[]))) IS TRUE AND ($4::text[] IS NULL OR queue = ANY($4))
        AND queue <> ALL (ARRAY(SELECT name FROM mainspring_queues WHERE paused))
        AND task <> ALL (ARRAY(SELECT task FROM mainspring_circuits WHERE open_until IS NOT NULL))
        AND run_at <= $2 AND true
    ORDER BY rank, run_at, head LIMIT $6),
sample AS MATERIALIZED (
    SELECT CASE WHEN count(*) < $6 THEN least(2 * $6 / nullif(count(*), 0) + 1, $6) ELSE 0 END AS size FROM due),
early AS MATERIALIZED (
    SELECT one.*, job.* FROM due AS one CROSS JOIN LATERAL (
        SELECT run_at AS due_at, id, row_number() OVER (ORDER BY run_at, id) AS n FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
            AND queue = one.queue AND task = one.task AND rank = one.rank
            AND run_at <= $2 AND (expires_at IS NULL OR expires_at > $2) AND (run_at, id) >= (one.run_at, one.head)
        ORDER BY run_at, id LIMIT (SELECT size FROM sample)) AS job
    WHERE (SELECT size FROM sample) > 0),
last AS MATERIALIZED (
    SELECT * FROM (
        SELECT rank, due_at, id FROM early
        UNION ALL SELECT rank, run_at, head FROM due WHERE (SELECT size FROM sample) = 0) AS job
    ORDER BY rank, due_at, id OFFSET $6 - 1 LIMIT 1),
further AS (
    SELECT one.queue, one.task, one.rank, one.run_at, one.head, job.* FROM (
        SELECT * FROM early WHERE n = (SELECT size FROM sample) AND n < $6
        UNION ALL SELECT due.*, run_at, '', 0 FROM due WHERE (SELECT size FROM sample) = 0) AS one
    LEFT JOIN last ON true
    CROSS JOIN LATERAL (
        SELECT run_at AS due_at, id FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
            AND queue = one.queue AND task = one.task AND rank = one.rank
            AND run_at <= $2 AND (expires_at IS NULL OR expires_at > $2) AND (run_at, id) >= (one.run_at, one.head) AND (run_at, id) > (one.due_at, one.id)
            AND (run_at, id) <= (CASE WHEN last.rank = one.rank THEN last.due_at ELSE $2 + 1 END,
                CASE WHEN last.rank = one.rank THEN last.id ELSE '' END)
        ORDER BY run_at, id LIMIT $6) AS job
    WHERE last.id IS NULL OR (one.rank, one.due_at, one.id) <= (last.rank, last.due_at, last.id)),
first AS (
    SELECT queue, task, rank, run_at, head, due_at, id FROM early
    UNION ALL SELECT queue, task, rank, run_at, head, due_at, id FROM further
    ORDER BY rank, due_at, id LIMIT $6),
one AS MATERIALIZED (
    SELECT queue, task, rank, run_at, head, $6 AS share FROM due WHERE (SELECT count(*) FROM due) = 1
    UNION ALL
    SELECT queue, task, rank, run_at, head, count(*) FROM first WHERE (SELECT count(*) FROM due) > 1
    GROUP BY 1, 2, 3, 4, 5),
locked AS MATERIALIZED (
    SELECT one.rank, job.* FROM one CROSS JOIN LATERAL (
        SELECT ctid AS place, run_at, id, octet_length(payload) + octet_length(options) AS size FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
            AND queue = one.queue AND task = one.task AND rank = one.rank
            AND run_at <= $2 AND (expires_at IS NULL OR expires_at > $2) AND (run_at, id) >= (one.run_at, one.head) ORDER BY run_at, id LIMIT one.share
        FOR NO KEY UPDATE SKIP LOCKED) AS job),
taken AS (
    UPDATE ONLY mainspring_jobs SET state = 'running', lease = $5, worker = $1, started_at = $2,
        attempt = attempt + 1, runs = runs + 1
    WHERE ctid = ANY (ARRAY(
        SELECT place FROM locked WHERE (SELECT sum(size) FROM locked) < $7::bigint
        UNION ALL
        SELECT place FROM (
            SELECT place, sum(size) OVER (ORDER BY rank, run_at, id) - size AS before FROM locked) AS cut
        WHERE before < $7::bigint AND (SELECT sum(size) FROM locked) >= $7::bigint))
    RETURNING id, queue, task, rank, run_at, created_at, expires_at, attempt, crashes, runs, cancel_reason, unique_key, idempotency_key, options, failure, payload, progress),
noted AS (
    INSERT INTO mainspring_leases SELECT $1, $5, array_agg(id) FROM taken HAVING count(*) > 0
    ON CONFLICT (worker, lease) DO UPDATE SET ids = mainspring_leases.ids || excluded.ids)
SELECT taken.*, (
    SELECT CASE
        WHEN (SELECT count(*) = $6 OR count(*) < (SELECT count(*) FROM first) FROM taken) THEN $2
        WHEN EXISTS (SELECT 1 FROM mainspring_circuits WHERE open_until IS NOT NULL) THEN -1
        ELSE least(
            (SELECT min((
                SELECT run_at FROM ONLY mainspring_jobs
                WHERE crashes < 2 AND NOT parked AND state = 'pending'
                    AND queue = one.queue AND task = one.task AND rank = one.rank AND run_at > $2
                ORDER BY run_at, id LIMIT 1))
            FROM groups AS one
            WHERE (task IN (SELECT unnest($3::text[]))) IS TRUE AND ($4::text[] IS NULL OR queue = ANY($4))
                AND queue <> ALL (ARRAY(SELECT name FROM mainspring_queues WHERE paused))),
            NULL,
            (SELECT expires_at FROM ONLY mainspring_jobs
            WHERE expires_at IS NOT NULL AND NOT parked AND state = 'pending'
                AND id <> ALL (ARRAY(SELECT id FROM taken))
            ORDER BY expires_at LIMIT 1))
        END) AS next_at
FROM taken ORDER BY rank, run_at, id;

-- see_rest
WITH RECURSIVE groups AS (
    (SELECT queue, task, rank, run_at, id AS head FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
        ORDER BY queue, task, rank, run_at, id LIMIT 1)
    UNION ALL
    SELECT hop.* FROM groups CROSS JOIN LATERAL (
        SELECT queue, task, rank, run_at, id FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
            AND (queue, task, rank) > (groups.queue, groups.task, groups.rank)
        ORDER BY queue, task, rank, run_at, id LIMIT 1) AS hop),
due AS MATERIALIZED (
    SELECT * FROM groups
    WHERE (task IN (SELECT unnest($3::text[]))) IS TRUE AND ($4::text[] IS NULL OR queue = ANY($4))
        AND queue <> ALL (ARRAY(SELECT name FROM mainspring_queues WHERE paused))
        AND task <> ALL (ARRAY(SELECT task FROM mainspring_circuits WHERE open_until IS NOT NULL))
        AND run_at <= $2 AND true
    ORDER BY rank, run_at, head LIMIT $6),
sample AS MATERIALIZED (
    SELECT CASE WHEN count(*) < $6 THEN least(2 * $6 / nullif(count(*), 0) + 1, $6) ELSE 0 END AS size FROM due),
early AS MATERIALIZED (
    SELECT one.*, job.* FROM due AS one CROSS JOIN LATERAL (
        SELECT run_at AS due_at, id, row_number() OVER (ORDER BY run_at, id) AS n FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
            AND queue = one.queue AND task = one.task AND rank = one.rank
            AND run_at <= $2 AND (expires_at IS NULL OR expires_at > $2) AND (run_at, id) >= (one.run_at, one.head)
        ORDER BY run_at, id LIMIT (SELECT size FROM sample)) AS job
    WHERE (SELECT size FROM sample) > 0),
last AS MATERIALIZED (
    SELECT * FROM (
        SELECT rank, due_at, id FROM early
        UNION ALL SELECT rank, run_at, head FROM due WHERE (SELECT size FROM sample) = 0) AS job
    ORDER BY rank, due_at, id OFFSET $6 - 1 LIMIT 1),
further AS (
    SELECT one.queue, one.task, one.rank, one.run_at, one.head, job.* FROM (
        SELECT * FROM early WHERE n = (SELECT size FROM sample) AND n < $6
        UNION ALL SELECT due.*, run_at, '', 0 FROM due WHERE (SELECT size FROM sample) = 0) AS one
    LEFT JOIN last ON true
    CROSS JOIN LATERAL (
        SELECT run_at AS due_at, id FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
            AND queue = one.queue AND task = one.task AND rank = one.rank
            AND run_at <= $2 AND (expires_at IS NULL OR expires_at > $2) AND (run_at, id) >= (one.run_at, one.head) AND (run_at, id) > (one.due_at, one.id)
            AND (run_at, id) <= (CASE WHEN last.rank = one.rank THEN last.due_at ELSE $2 + 1 END,
                CASE WHEN last.rank = one.rank THEN last.id ELSE '' END)
        ORDER BY run_at, id LIMIT $6) AS job
    WHERE last.id IS NULL OR (one.rank, one.due_at, one.id) <= (last.rank, last.due_at, last.id)),
first AS (
    SELECT queue, task, rank, run_at, head, due_at, id FROM early
    UNION ALL SELECT queue, task, rank, run_at, head, due_at, id FROM further
    ORDER BY rank, due_at, id LIMIT $6)
SELECT first.rank, first.due_at, first.id, (
    SELECT octet_length(payload) + octet_length(options) FROM ONLY mainspring_jobs AS job WHERE job.id = first.id)
FROM first WHERE $1::text IS NOT NULL AND $5::text IS NOT NULL
ORDER BY 1, 2, 3;

-- take_one
WITH taken AS (
    UPDATE mainspring_jobs SET state = 'running', lease = $5, worker = $1, started_at = $2,
        attempt = attempt + 1, runs = runs + 1
    WHERE id = (
        SELECT id FROM mainspring_jobs
        WHERE id = $3 AND state = 'pending' AND crashes = $4 AND (expires_at IS NULL OR expires_at > $2)
        FOR NO KEY UPDATE SKIP LOCKED)
    RETURNING id, queue, task, rank, run_at, created_at, expires_at, attempt, crashes, runs, cancel_reason, unique_key, idempotency_key, options, failure, payload, progress),
noted AS (
    INSERT INTO mainspring_leases SELECT $1, $5, array_agg(id) FROM taken HAVING count(*) > 0
    ON CONFLICT (worker, lease) DO UPDATE SET ids = mainspring_leases.ids || excluded.ids)
SELECT * FROM taken;

-- lock_worker
SELECT 1 FROM mainspring_workers WHERE id = $1 AND until > $2 FOR NO KEY UPDATE;

-- read_view
WITH RECURSIVE groups AS (
    (SELECT queue, task, rank, run_at, id AS head FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
        ORDER BY queue, task, rank, run_at, id LIMIT 1)
    UNION ALL
    SELECT hop.* FROM groups CROSS JOIN LATERAL (
        SELECT queue, task, rank, run_at, id FROM ONLY mainspring_jobs
        WHERE crashes < 2 AND NOT parked AND state = 'pending'
            AND (queue, task, rank) > (groups.queue, groups.task, groups.rank)
        ORDER BY queue, task, rank, run_at, id LIMIT 1) AS hop)
SELECT 'group' AS kind, queue, task, rank, run_at AS at, NULL AS id, 0 AS crashes, NULL AS key FROM groups
WHERE (task IN (SELECT unnest($3::text[]))) IS TRUE AND ($4::text[] IS NULL OR queue = ANY($4))
    AND queue <> ALL (ARRAY(SELECT name FROM mainspring_queues WHERE paused))
UNION ALL
SELECT 'suspect', queue, task, rank, run_at, id, crashes, NULL FROM ONLY mainspring_jobs
WHERE crashes >= 2 AND NOT parked AND state = 'pending'
    AND (task IN (SELECT unnest($3::text[]))) IS TRUE AND ($4::text[] IS NULL OR queue = ANY($4))
        AND queue <> ALL (ARRAY(SELECT name FROM mainspring_queues WHERE paused))
    AND NOT EXISTS (SELECT 1 FROM mainspring_jobs
        WHERE crashes >= 2 AND NOT parked AND state = 'running' AND worker = $1)
UNION ALL
SELECT 'circuit', '', task, 0, open_until, probe, 0, NULL FROM mainspring_circuits WHERE open_until IS NOT NULL
UNION ALL
SELECT 'alive', '', '', 0, until, NULL, 0, NULL FROM mainspring_workers WHERE id = $1 AND until > $2
UNION ALL
SELECT 'expiry', '', '', 0, min(expires_at), NULL, 0, NULL FROM ONLY mainspring_jobs
WHERE expires_at IS NOT NULL AND NOT parked AND state = 'pending'
UNION ALL
SELECT 'limits', '', '', 0, 0, NULL, 0, NULL WHERE EXISTS (SELECT FROM mainspring_limit_groups);

-- read_lines
WITH RECURSIVE kinds AS (
    (SELECT name, queue, task, rank, turn FROM mainspring_limit_lines
        WHERE has_room
        ORDER BY name, queue, task, rank, turn LIMIT 1)
    UNION ALL
    SELECT hop.* FROM kinds CROSS JOIN LATERAL (
        SELECT name, queue, task, rank, turn FROM mainspring_limit_lines
        WHERE has_room AND (name, queue, task, rank) > (kinds.name, kinds.queue, kinds.task, kinds.rank)
        ORDER BY name, queue, task, rank, turn LIMIT 1) AS hop)
SELECT 'suspect' AS kind, queue, task, rank, greatest(run_at, served_at - 1000000, tat - tolerance), id, crashes, job.limit_key
FROM mainspring_limited AS job
LEFT JOIN mainspring_limit_groups AS grouped ON grouped.limit_key = job.limit_key
CROSS JOIN LATERAL (SELECT split_part(job.limit_key, E'\n', 1) AS name) AS kinds
LEFT JOIN mainspring_limits AS one ON one.name = kinds.name
WHERE crashes >= 2 AND NOT parked AND state = 'pending'
    AND (task IN (SELECT unnest($3::text[]))) IS TRUE AND ($4::text[] IS NULL OR queue = ANY($4))
        AND queue <> ALL (ARRAY(SELECT name FROM mainspring_queues WHERE paused))
    AND coalesce(grouped.running, 0) < coalesce(
        CASE WHEN kinds.name LIKE 'at_once:%' THEN split_part(kinds.name, ':', 2)::integer END, one.running, 2147483647)
    AND NOT EXISTS (SELECT FROM mainspring_limits AS whole WHERE whole.name = kinds.name AND whole.total <= (
        SELECT count(*) FROM mainspring_limited
        WHERE state = 'running' AND id = ANY(ARRAY(SELECT unnest(ids) FROM mainspring_leases))
            AND starts_with(limit_key, kinds.name || E'\n')))
    AND NOT EXISTS (SELECT 1 FROM mainspring_jobs
        WHERE crashes >= 2 AND NOT parked AND state = 'running' AND worker = $1)
UNION ALL
SELECT 'line', queue, task, rank, (
    SELECT min(opens_at) FROM (
        SELECT opens_at FROM mainspring_limit_lines AS line
        WHERE has_room AND line.name = kinds.name AND line.queue = kinds.queue AND line.task = kinds.task
            AND line.rank = kinds.rank AND line.turn <= kinds.turn + 1000000
        ORDER BY turn LIMIT 100) AS next), NULL, 0, name
FROM kinds
WHERE (task IN (SELECT unnest($3::text[]))) IS TRUE AND ($4::text[] IS NULL OR queue = ANY($4))
    AND queue <> ALL (ARRAY(SELECT name FROM mainspring_queues WHERE paused)) AND NOT EXISTS (SELECT FROM mainspring_limits AS whole WHERE whole.name = kinds.name AND whole.total <= (
    SELECT count(*) FROM mainspring_limited
    WHERE state = 'running' AND id = ANY(ARRAY(SELECT unnest(ids) FROM mainspring_leases))
        AND starts_with(limit_key, kinds.name || E'\n')))
UNION ALL
SELECT 'look', '', '', 0, min(look_at), NULL, 0, NULL FROM mainspring_limit_groups WHERE look_at <= $2
UNION ALL
SELECT 'expiry', '', '', 0, min(expires_at), NULL, 0, NULL FROM mainspring_limited
WHERE expires_at IS NOT NULL AND NOT parked AND state = 'pending';

-- expire
WITH gone AS (
    DELETE FROM ONLY mainspring_jobs WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM ONLY mainspring_jobs WHERE expires_at IS NOT NULL AND NOT parked AND state = 'pending' AND expires_at <= $1 AND schedule IS NULL AND (SELECT flow FROM mainspring_steps AS step WHERE step.job_id = mainspring_jobs.id) IS NULL
        ORDER BY expires_at LIMIT $2
        FOR UPDATE SKIP LOCKED))
    RETURNING *)
INSERT INTO mainspring_finished (id, queue, task, rank, state, run_at, created_at, expires_at, attempt, crashes, runs, lease, worker, started_at, finished_at, cancel_reason, unique_key, idempotency_key, options, failure, payload, result, progress, error, tags, schedule)
SELECT id, queue, task, rank, 'expired', run_at, created_at, expires_at, attempt, crashes, runs, lease, worker, started_at, $1, cancel_reason, unique_key, idempotency_key, options, failure, payload, result, progress, error, tags, schedule FROM gone
ON CONFLICT (id) DO UPDATE SET queue = excluded.queue, task = excluded.task, rank = excluded.rank, state = excluded.state, run_at = excluded.run_at, created_at = excluded.created_at, expires_at = excluded.expires_at, attempt = excluded.attempt, crashes = excluded.crashes, runs = excluded.runs, lease = excluded.lease, worker = excluded.worker, started_at = excluded.started_at, finished_at = excluded.finished_at, cancel_reason = excluded.cancel_reason, unique_key = excluded.unique_key, idempotency_key = excluded.idempotency_key, options = excluded.options, failure = excluded.failure, payload = excluded.payload, result = excluded.result, progress = excluded.progress, error = excluded.error, tags = excluded.tags, schedule = excluded.schedule, ending = excluded.ending
RETURNING id;

-- find_overdue_of_others
SELECT id, schedule, (SELECT flow FROM mainspring_steps AS step WHERE step.job_id = mainspring_jobs.id) AS flow FROM mainspring_jobs
WHERE expires_at IS NOT NULL AND NOT parked AND state = 'pending' AND expires_at <= $1 AND (schedule IS NOT NULL OR (SELECT flow FROM mainspring_steps AS step WHERE step.job_id = mainspring_jobs.id) IS NOT NULL OR tableoid = 'mainspring_limited'::regclass)
ORDER BY expires_at, id LIMIT $2;

-- lock_overdue
SELECT id, queue, task, rank, state, run_at, created_at, expires_at, attempt, crashes, runs, lease, worker, started_at, finished_at, cancel_reason, unique_key, idempotency_key, options, failure, payload, result, progress FROM mainspring_jobs WHERE expires_at IS NOT NULL AND NOT parked AND state = 'pending' AND expires_at <= $1 AND id = ANY($2)
ORDER BY expires_at, id
FOR NO KEY UPDATE SKIP LOCKED;

-- lock_half_open
SELECT 1 FROM mainspring_circuits WHERE task = $1 AND probe IS NULL AND open_until <= $2
FOR NO KEY UPDATE SKIP LOCKED;

-- lock_head
SELECT 'group', queue, task, rank, run_at, id, crashes, NULL FROM ONLY mainspring_jobs
WHERE crashes < 2 AND NOT parked AND state = 'pending'
    AND queue = $1 AND task = $3 AND rank = $4 AND run_at <= $2 AND (expires_at IS NULL OR expires_at > $2)
ORDER BY run_at, id LIMIT 1
FOR NO KEY UPDATE SKIP LOCKED;

-- set_probe
UPDATE mainspring_circuits SET probe = $2 WHERE task = $1;

-- set_aside
WITH aside AS (
    UPDATE mainspring_jobs SET state = 'paused', lease = 'mainspring.Unreadable', worker = NULL,
        attempt = attempt - 1, runs = runs - 1
    WHERE id = ANY($1) AND state = 'running' AND (lease = $2 OR $2 = '')
    RETURNING id)
SELECT limit_key, count(*) FROM mainspring_limited WHERE id = ANY(ARRAY(SELECT id FROM aside)) GROUP BY 1;

-- end_probes
UPDATE mainspring_circuits SET probe = NULL WHERE probe = ANY($1);
