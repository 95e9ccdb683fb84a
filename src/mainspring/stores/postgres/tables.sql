-- The schema of the PostgreSQL store, as numbered migrations. Instants are microseconds since 1970 (UTC); `rank` is the
-- negated priority, so that one ascending index has the claim order. Text is compared by code point, as Python does.
-- JSON is stored as text: jsonb cannot hold every string. `mainspring_` stands for the prefix in use.
-- After `-- up N, for M` a release that knows schema M still works; after a plain `-- up N` its statements fail.
--
-- The way of a job: enqueue inserts a row into mainspring_jobs (pending). A claim walks along the index of ready jobs,
-- locks rows with SKIP LOCKED, sets state = 'running' with a lease, and adds a row to mainspring_leases. Finish moves
-- the row to mainspring_finished if it is still running under that lease.
-- The way of a tick: a firing locks the rows of its schedules, writes the next revision if the stored one is the one it
-- was planned with, and inserts the tick's job and a row into mainspring_ticks, all in one transaction.

-- up 1
-- Unfinished jobs. A claim changes state, lease, worker, started_at, attempt and runs: no index may contain these. The
-- fillfactor leaves room in the row's page, so a claim is a HOT update, which writes no index.
CREATE TABLE mainspring_jobs (
    id              text COLLATE "C" NOT NULL,
    queue           text COLLATE "C" NOT NULL,
    task            text COLLATE "C" NOT NULL,
    rank            integer          NOT NULL,
    state           text COLLATE "C" NOT NULL,
    run_at          bigint           NOT NULL,
    created_at      bigint           NOT NULL,
    expires_at      bigint,
    started_at      bigint,
    finished_at     bigint,
    attempt         integer          NOT NULL DEFAULT 0,
    crashes         integer          NOT NULL DEFAULT 0,
    runs            integer          NOT NULL DEFAULT 0,
    lease           text COLLATE "C",
    worker          text COLLATE "C",
    cancel_reason   text,
    unique_key      text COLLATE "C",
    idempotency_key text COLLATE "C",
    schedule        text COLLATE "C",
    error           text COLLATE "C",   -- the kind of the job's failure
    tags            text[] COLLATE "C", -- null: none
    options         text             NOT NULL,  -- JSON: timeout, max_retries, backoff, tags, metadata, schedule, …
    failure         text,               -- JSON: type, message, stack
    payload         text             NOT NULL,
    result          text,
    progress        text                -- JSON: run, at, done, total, note
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);

-- Finished jobs, written once. The run that completed a job is recorded in its row, marked by `ending`.
CREATE TABLE mainspring_finished (LIKE mainspring_jobs INCLUDING DEFAULTS);
ALTER TABLE mainspring_finished ADD COLUMN ending text COLLATE "C";

-- parked: neither pending nor running; retried: pending again. A claim of a new job changes neither.
ALTER TABLE mainspring_jobs
    ADD COLUMN parked boolean NOT NULL GENERATED ALWAYS AS (state NOT IN ('pending', 'running')) STORED,
    ADD COLUMN retried boolean NOT NULL GENERATED ALWAYS AS (state = 'pending' AND attempt > 0) STORED;
ALTER TABLE mainspring_jobs ADD PRIMARY KEY (id);
CREATE INDEX mainspring_jobs_ready ON mainspring_jobs (queue, task, rank, run_at, id) WHERE crashes < 2 AND NOT parked;
CREATE INDEX mainspring_jobs_suspects ON mainspring_jobs (rank, run_at, id) WHERE crashes >= 2 AND NOT parked;
CREATE INDEX mainspring_jobs_expiring ON mainspring_jobs (expires_at) WHERE expires_at IS NOT NULL AND NOT parked;
-- For lists: parked and retried jobs, and jobs created at another time than their id says. Other jobs cost no write.
CREATE INDEX mainspring_jobs_aside ON mainspring_jobs (id) WHERE parked OR retried;
CREATE INDEX mainspring_jobs_odd ON mainspring_jobs (created_at)
    WHERE left(id, 10) <> left(lpad(to_hex(created_at / 1000), 12, '0'), 8) || '-'
        || substr(lpad(to_hex(created_at / 1000), 12, '0'), 9, 1);
CREATE UNIQUE INDEX mainspring_jobs_unique ON mainspring_jobs (unique_key) WHERE unique_key IS NOT NULL;
CREATE UNIQUE INDEX mainspring_jobs_idempotent ON mainspring_jobs (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX mainspring_jobs_schedule ON mainspring_jobs (schedule) WHERE schedule IS NOT NULL;
CREATE INDEX mainspring_jobs_error ON mainspring_jobs (error) WHERE error IS NOT NULL;
CREATE INDEX mainspring_jobs_tags ON mainspring_jobs USING gin (tags) WHERE tags IS NOT NULL;

ALTER TABLE mainspring_finished ADD PRIMARY KEY (id);
CREATE INDEX mainspring_finished_order ON mainspring_finished (task, queue, state, finished_at);
CREATE INDEX mainspring_finished_odd ON mainspring_finished (created_at)
    WHERE left(id, 10) <> left(lpad(to_hex(created_at / 1000), 12, '0'), 8) || '-'
        || substr(lpad(to_hex(created_at / 1000), 12, '0'), 9, 1);
CREATE UNIQUE INDEX mainspring_finished_done ON mainspring_finished (idempotency_key)
    WHERE idempotency_key IS NOT NULL AND state = 'completed';
CREATE INDEX mainspring_finished_idempotent ON mainspring_finished (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX mainspring_finished_unique ON mainspring_finished (unique_key) WHERE unique_key IS NOT NULL;
CREATE INDEX mainspring_finished_schedule ON mainspring_finished (schedule) WHERE schedule IS NOT NULL;
CREATE INDEX mainspring_finished_error ON mainspring_finished (error, task, state, finished_at) WHERE error IS NOT NULL;
CREATE INDEX mainspring_finished_tags ON mainspring_finished USING gin (tags) WHERE tags IS NOT NULL;

-- Every run but the one that completed its job.
CREATE TABLE mainspring_executions (
    job_id      text COLLATE "C" NOT NULL,
    number      integer          NOT NULL,
    attempt     integer          NOT NULL,
    ending      text             NOT NULL,
    worker      text             NOT NULL,
    lease       text             NOT NULL,
    started_at  bigint           NOT NULL,
    finished_at bigint           NOT NULL,
    result_size integer          NOT NULL,
    failure     text,
    account     text,                   -- JSON: items, usage, metadata
    PRIMARY KEY (job_id, number)
);

CREATE TABLE mainspring_logs (
    job_id text COLLATE "C" NOT NULL,
    run    integer          NOT NULL,
    n      integer          NOT NULL,
    at     bigint           NOT NULL,
    level  integer          NOT NULL,
    text   text             NOT NULL,
    PRIMARY KEY (job_id, run, n)
);

-- The jobs of one claim. Every running job is in one row; a row is deleted when none of its jobs is running any more,
-- at the latest by its worker's next beat.
CREATE TABLE mainspring_leases (
    worker text COLLATE "C"   NOT NULL,
    lease  text COLLATE "C"   NOT NULL,
    ids    text[] COLLATE "C" NOT NULL,
    PRIMARY KEY (worker, lease)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE mainspring_leases ALTER COLUMN ids SET STORAGE EXTERNAL;

CREATE TABLE mainspring_workers (
    id     text COLLATE "C" PRIMARY KEY,
    until  bigint NOT NULL,
    info   text   NOT NULL,             -- JSON: host, pid, queues, tasks, concurrency, …
    orders text                         -- JSON: concurrency, drained, stopped
) WITH (fillfactor = 50);

CREATE TABLE mainspring_queues (
    name   text COLLATE "C" PRIMARY KEY,
    paused boolean NOT NULL
);

CREATE TABLE mainspring_circuits (
    task       text COLLATE "C" PRIMARY KEY,
    failures   integer NOT NULL,
    open_until bigint,
    probe      text
);

-- Run statistics by span. Counts since the last beat are in mainspring_counting: no two finishes update one row.
CREATE TABLE mainspring_tallies (
    span  text   COLLATE "C" NOT NULL,  -- minute, hour, day or ever
    at    bigint NOT NULL,
    queue text   COLLATE "C" NOT NULL,
    task  text   COLLATE "C" NOT NULL,
    sums  text   NOT NULL,              -- JSON: endings, took, spread, errors, last
    PRIMARY KEY (span, at, queue, task)
);
CREATE TABLE mainspring_counting (
    at    bigint NOT NULL,              -- the minute
    queue text   NOT NULL,
    task  text   NOT NULL,
    sums  text   NOT NULL
);

CREATE TABLE mainspring_schedules (
    name     text COLLATE "C" PRIMARY KEY,
    revision bigint  NOT NULL,
    due_at   bigint,
    computed boolean NOT NULL,
    waits_on text COLLATE "C",
    body     text    NOT NULL           -- JSON: the whole schedule
);
CREATE INDEX mainspring_schedules_due ON mainspring_schedules (due_at, name) WHERE due_at IS NOT NULL;
CREATE INDEX mainspring_schedules_waiting ON mainspring_schedules (waits_on) WHERE waits_on IS NOT NULL;

-- The newest ticks of each schedule, with their fate.
CREATE TABLE mainspring_ticks (
    schedule text COLLATE "C" NOT NULL,
    n        bigint NOT NULL,
    body     text   NOT NULL,           -- JSON: at, seen_at, what, reason, job_id, count, last_at
    PRIMARY KEY (schedule, n)
);

CREATE TABLE mainspring_leaders (
    name   text COLLATE "C" PRIMARY KEY,
    holder text   NOT NULL,             -- empty: none
    term   bigint NOT NULL,
    until  bigint NOT NULL
);

-- down 1
DROP TABLE mainspring_leaders;
DROP TABLE mainspring_ticks;
DROP TABLE mainspring_schedules;
DROP TABLE mainspring_counting;
DROP TABLE mainspring_tallies;
DROP TABLE mainspring_circuits;
DROP TABLE mainspring_queues;
DROP TABLE mainspring_workers;
DROP TABLE mainspring_leases;
DROP TABLE mainspring_logs;
DROP TABLE mainspring_executions;
DROP TABLE mainspring_finished;
DROP TABLE mainspring_jobs;

-- up 2, for 1
-- Finished jobs are partitioned by day of creation. Ids grow with time, so a range of ids is a range of time, and the
-- key is still the id alone. The old table becomes the default partition, and keeps its indexes. A unique index would
-- have to contain the id, so only locks prevent two completed jobs with one idempotency key.
DROP INDEX mainspring_finished_done;
ALTER TABLE mainspring_finished RENAME TO mainspring_finished_rest;
ALTER INDEX mainspring_finished_pkey RENAME TO mainspring_rest_pkey;
ALTER INDEX mainspring_finished_order RENAME TO mainspring_rest_order;
ALTER INDEX mainspring_finished_odd RENAME TO mainspring_rest_odd;
ALTER INDEX mainspring_finished_idempotent RENAME TO mainspring_rest_idempotent;
ALTER INDEX mainspring_finished_unique RENAME TO mainspring_rest_unique;
ALTER INDEX mainspring_finished_schedule RENAME TO mainspring_rest_schedule;
ALTER INDEX mainspring_finished_error RENAME TO mainspring_rest_error;
ALTER INDEX mainspring_finished_tags RENAME TO mainspring_rest_tags;
CREATE TABLE mainspring_finished (LIKE mainspring_finished_rest INCLUDING DEFAULTS INCLUDING STORAGE)
    PARTITION BY RANGE (id);
ALTER TABLE mainspring_finished ADD PRIMARY KEY (id);
CREATE INDEX mainspring_finished_order ON mainspring_finished (task, queue, state, finished_at);
CREATE INDEX mainspring_finished_odd ON mainspring_finished (created_at)
    WHERE left(id, 10) <> left(lpad(to_hex(created_at / 1000), 12, '0'), 8) || '-'
        || substr(lpad(to_hex(created_at / 1000), 12, '0'), 9, 1);
CREATE INDEX mainspring_finished_idempotent ON mainspring_finished (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX mainspring_finished_unique ON mainspring_finished (unique_key) WHERE unique_key IS NOT NULL;
CREATE INDEX mainspring_finished_schedule ON mainspring_finished (schedule) WHERE schedule IS NOT NULL;
CREATE INDEX mainspring_finished_error ON mainspring_finished (error, task, state, finished_at) WHERE error IS NOT NULL;
CREATE INDEX mainspring_finished_tags ON mainspring_finished USING gin (tags) WHERE tags IS NOT NULL;
ALTER TABLE mainspring_finished ATTACH PARTITION mainspring_finished_rest DEFAULT;

-- The completed jobs that hold these idempotency keys. A key does not tell the day, so all partitions are searched.
-- Planning that takes five times as long as executing it; only a function keeps a plan of our choice.
CREATE FUNCTION mainspring_done(keys text[]) RETURNS SETOF mainspring_finished
    LANGUAGE plpgsql STABLE SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY SELECT * FROM mainspring_finished AS job
        WHERE job.idempotency_key = ANY(keys) AND job.idempotency_key IS NOT NULL AND job.state = 'completed';
END $$;

-- Inserts one job without keys, if it is in neither table. Both are searched in one snapshot, since a job that ends
-- meanwhile moves from one to the other. Without the kept plan, a third fewer inserts per second are possible.
CREATE FUNCTION mainspring_put(the_id text, queue text, task text, rank integer, run_at bigint, created_at bigint,
    expires_at bigint, schedule text, tags text[], options text, payload text, channel text, word text) RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    INSERT INTO mainspring_jobs
        (id, queue, task, rank, run_at, created_at, expires_at, schedule, tags, options, payload, state)
        SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 'pending'
        WHERE NOT EXISTS (SELECT 1 FROM mainspring_jobs AS job WHERE job.id = $1
            UNION ALL SELECT 1 FROM mainspring_finished AS job WHERE job.id = $1)
        ON CONFLICT (id) DO NOTHING;
    IF channel IS NOT NULL THEN PERFORM pg_notify(channel, word); END IF;
END $$;

-- down 2
DROP FUNCTION mainspring_put(
    text, text, text, integer, bigint, bigint, bigint, text, text[], text, text, text, text);
DROP FUNCTION mainspring_done(text[]);
ALTER TABLE mainspring_finished DETACH PARTITION mainspring_finished_rest;
INSERT INTO mainspring_finished_rest SELECT * FROM mainspring_finished;
DROP TABLE mainspring_finished;
ALTER TABLE mainspring_finished_rest RENAME TO mainspring_finished;
ALTER INDEX mainspring_rest_pkey RENAME TO mainspring_finished_pkey;
ALTER INDEX mainspring_rest_order RENAME TO mainspring_finished_order;
ALTER INDEX mainspring_rest_odd RENAME TO mainspring_finished_odd;
ALTER INDEX mainspring_rest_idempotent RENAME TO mainspring_finished_idempotent;
ALTER INDEX mainspring_rest_unique RENAME TO mainspring_finished_unique;
ALTER INDEX mainspring_rest_schedule RENAME TO mainspring_finished_schedule;
ALTER INDEX mainspring_rest_error RENAME TO mainspring_finished_error;
ALTER INDEX mainspring_rest_tags RENAME TO mainspring_finished_tags;
CREATE UNIQUE INDEX mainspring_finished_done ON mainspring_finished (idempotency_key)
    WHERE idempotency_key IS NOT NULL AND state = 'completed';

-- up 3, for 1
-- Documents: small texts under a kind and a name, such as API keys, webhooks and sessions.
CREATE TABLE mainspring_documents (
    kind       text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    revision   bigint           NOT NULL,
    expires_at bigint,
    text       text             NOT NULL,
    PRIMARY KEY (kind, name)
) WITH (fillfactor = 80);
CREATE INDEX mainspring_documents_expiring ON mainspring_documents (expires_at) WHERE expires_at IS NOT NULL;

-- The audit trail, read along the id; the other index is for pruning.
CREATE TABLE mainspring_audit (
    id      text COLLATE "C" PRIMARY KEY,
    at      bigint NOT NULL,
    who     text   NOT NULL,
    action  text   NOT NULL,
    target  text   NOT NULL,
    asked   text   NOT NULL,            -- JSON
    outcome text                        -- JSON; null: the process died before it could record the outcome
);
CREATE INDEX mainspring_audit_old ON mainspring_audit (at);

-- Numbers that survive a crash. `watched`: until when a reader watches the feed. `promised`: no item has a higher one.
CREATE TABLE mainspring_marks (
    name text COLLATE "C" PRIMARY KEY,
    n    bigint NOT NULL
) WITH (fillfactor = 50);

-- The live feed: the newest events. Unlogged: a crash or failover of the server loses all of them, which readers see by
-- the numbers. In return, publishing writes no WAL and does not wait for the disk while it holds its lock.
CREATE UNLOGGED TABLE mainspring_news (
    n    bigint PRIMARY KEY,
    text text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Appends events to the feed with the next numbers, and returns until when a reader watches it. Only one transaction at
-- a time publishes, so a reader that sees a number sees all below it. It is a function, because each statement of a
-- function sees what was committed before it began; a single statement that waited for the lock would not. The feed
-- keeps `kept` items and up to a tenth more; the oldest are deleted by the tenth, in a range without earlier dead rows.
CREATE FUNCTION mainspring_publish(texts text[], lock integer, kept bigint) RETURNS bigint
    LANGUAGE plpgsql SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    step bigint := kept / 10;
    promised bigint;
    old bigint;
    new bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(lock, -5);
    promised := coalesce((SELECT n FROM mainspring_marks WHERE name = 'promised'), 0);
    old := coalesce((SELECT max(n) FROM mainspring_news), promised);
    new := old + cardinality(texts);
    IF new > promised THEN
        -- On the disk before anybody sees a number beyond it.
        IF current_setting('synchronous_commit') = 'off' THEN SET LOCAL synchronous_commit = on; END IF;
        INSERT INTO mainspring_marks VALUES ('promised', new + kept) ON CONFLICT (name) DO UPDATE SET n = excluded.n;
    END IF;
    INSERT INTO mainspring_news SELECT old + at, one FROM unnest(texts) WITH ORDINALITY AS told (one, at);
    IF new / step > old / step THEN
        DELETE FROM mainspring_news WHERE n > old / step * step - kept AND n <= new / step * step - kept;
    END IF;
    RETURN (SELECT n FROM mainspring_marks WHERE name = 'watched');
END $$;

-- For lists of parked jobs; other jobs cost no write.
CREATE INDEX mainspring_jobs_parked ON mainspring_jobs (task, queue) WHERE parked;

-- down 3
DROP INDEX mainspring_jobs_parked;
DROP FUNCTION mainspring_publish(text[], integer, bigint);
DROP TABLE mainspring_news;
DROP TABLE mainspring_marks;
DROP TABLE mainspring_audit;
DROP TABLE mainspring_documents;

-- up 4, for 1
-- `state || ''` keeps the planner from an index with the state: on a table that was never analysed it chose that index,
-- and read every completed job of the day for each batch of keys.
CREATE OR REPLACE FUNCTION mainspring_done(keys text[]) RETURNS SETOF mainspring_finished
    LANGUAGE plpgsql STABLE SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY SELECT * FROM mainspring_finished AS job
        WHERE job.idempotency_key = ANY(keys) AND job.idempotency_key IS NOT NULL AND job.state || '' = 'completed';
END $$;

-- Each tick writes its schedule's row twice; the second write is a HOT update if the page has room.
ALTER TABLE mainspring_schedules SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- down 4
ALTER TABLE mainspring_schedules RESET (fillfactor, autovacuum_vacuum_scale_factor,
    autovacuum_vacuum_threshold, autovacuum_vacuum_cost_delay);
CREATE OR REPLACE FUNCTION mainspring_done(keys text[]) RETURNS SETOF mainspring_finished
    LANGUAGE plpgsql STABLE SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY SELECT * FROM mainspring_finished AS job
        WHERE job.idempotency_key = ANY(keys) AND job.idempotency_key IS NOT NULL AND job.state = 'completed';
END $$;

-- up 5, for 1
-- For lists of finished jobs without a queue or task: hops through the groups of mainspring_finished_order search the
-- partition of each day for each queue, task and state.
CREATE INDEX mainspring_finished_ended ON mainspring_finished (state, finished_at);

-- down 5
DROP INDEX mainspring_finished_ended;

-- up 6, for 1
-- Flows, by the id of their own job: a row that changes with every step, and the plan, which does not. The fillfactor
-- leaves room in the row's page, so that its updates are HOT.
CREATE TABLE mainspring_flows (
    id   text COLLATE "C" PRIMARY KEY,
    body text NOT NULL                  -- JSON
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0);
CREATE TABLE mainspring_plans (
    flow text COLLATE "C" PRIMARY KEY,
    body text NOT NULL                  -- JSON
);
-- The jobs of the steps. The other index is for expiry and pruning, which find the flow of a job.
CREATE TABLE mainspring_steps (
    flow     text COLLATE "C" NOT NULL,
    position bigint           NOT NULL, -- life << 56 | step << 32 | index
    job_id   text COLLATE "C" NOT NULL,
    PRIMARY KEY (flow, position)
);
CREATE INDEX mainspring_steps_job ON mainspring_steps (job_id);

-- down 6
DROP TABLE mainspring_steps;
DROP TABLE mainspring_plans;
DROP TABLE mainspring_flows;

-- up 7, for 1
-- Ends of a map's items that were counted beside the flow's row, see item_counts.py. `position` is that of the step; no
-- more ends than `allowed` are counted here.
CREATE TABLE mainspring_item_counts (
    flow     text COLLATE "C" NOT NULL,
    position bigint           NOT NULL,
    ended    bigint           NOT NULL,
    allowed  bigint           NOT NULL,
    PRIMARY KEY (flow, position)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0);

-- down 7
DROP TABLE mainspring_item_counts;

-- up 8, for 1
-- The same tables: releases that know this schema also know signals.

-- down 8

-- up 9, for 1
-- The stored values of durable steps, which a later run of the job does not take again. `n` counts from 1 in the life
-- of the job; `value` is JSON.
CREATE TABLE mainspring_checkpoints (
    job_id text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    n      integer          NOT NULL,
    at     bigint           NOT NULL,
    value  text             NOT NULL,
    PRIMARY KEY (job_id, name)
);

-- down 9
DROP TABLE mainspring_checkpoints;

-- up 10, for 1
-- The same tables: releases that know this schema also know plans that grow.

-- down 10

-- up 11, for 1
-- Unfinished jobs with a limit key. They are apart from the others, so that the index of ready jobs has none of them: a
-- claim takes no more of them than their limits allow. Statements on mainspring_jobs read them too, except with ONLY.
-- A table that inherits is created without a look at the rows of the other one, and without a lock that writers mind.
CREATE TABLE mainspring_limited (
    limit_key text COLLATE "C" NOT NULL
) INHERITS (mainspring_jobs) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE mainspring_limited ADD PRIMARY KEY (id);
-- The jobs of a limit group in the order of a claim.
CREATE INDEX mainspring_limited_order ON mainspring_limited (limit_key, queue, task, rank, run_at, id)
    WHERE crashes < 2 AND NOT parked;
-- The indexes of mainspring_jobs.
CREATE INDEX mainspring_limited_ready ON mainspring_limited (queue, task, rank, run_at, id)
    WHERE crashes < 2 AND NOT parked;
CREATE INDEX mainspring_limited_suspects ON mainspring_limited (rank, run_at, id)
    WHERE crashes >= 2 AND NOT parked;
CREATE INDEX mainspring_limited_expiring ON mainspring_limited (expires_at)
    WHERE expires_at IS NOT NULL AND NOT parked;
CREATE INDEX mainspring_limited_aside ON mainspring_limited (id) WHERE parked OR retried;
CREATE INDEX mainspring_limited_parked ON mainspring_limited (task, queue) WHERE parked;
CREATE INDEX mainspring_limited_odd ON mainspring_limited (created_at)
    WHERE left(id, 10) <> left(lpad(to_hex(created_at / 1000), 12, '0'), 8) || '-'
        || substr(lpad(to_hex(created_at / 1000), 12, '0'), 9, 1);
CREATE UNIQUE INDEX mainspring_limited_unique ON mainspring_limited (unique_key) WHERE unique_key IS NOT NULL;
CREATE UNIQUE INDEX mainspring_limited_idempotent ON mainspring_limited (idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX mainspring_limited_schedule ON mainspring_limited (schedule) WHERE schedule IS NOT NULL;
CREATE INDEX mainspring_limited_error ON mainspring_limited (error) WHERE error IS NOT NULL;
CREATE INDEX mainspring_limited_tags ON mainspring_limited USING gin (tags) WHERE tags IS NOT NULL;

CREATE TABLE mainspring_limits (
    name      text COLLATE "C" PRIMARY KEY,
    running   integer,                  -- null: not limited; as are these:
    tolerance bigint,
    total     integer,
    body      text NOT NULL             -- JSON
);
-- One row per limit key with pending or running jobs. Its lines are written under the lock of its row.
CREATE TABLE mainspring_limit_groups (
    limit_key text COLLATE "C" PRIMARY KEY,
    running   integer NOT NULL DEFAULT 0,
    tat       bigint  NOT NULL DEFAULT 0,
    served_at bigint  NOT NULL DEFAULT 0,
    is_full   boolean NOT NULL DEFAULT false, -- lines wait for the end of a run
    pending   boolean NOT NULL DEFAULT true,  -- false: it has no lines
    look_at   bigint                    -- the next claim from then on looks at the group
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0);
CREATE INDEX mainspring_limit_groups_look ON mainspring_limit_groups (look_at) WHERE look_at IS NOT NULL;
-- The pending jobs of one group, queue, task and rank, with the first of them and what stands for it in the order of
-- claims. The instants may be too early, never too late: only a claim reads the jobs, and makes them exact.
CREATE TABLE mainspring_limit_lines (
    limit_key text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL, -- of the limit
    queue     text COLLATE "C" NOT NULL,
    task      text COLLATE "C" NOT NULL,
    rank      integer NOT NULL,
    run_at    bigint  NOT NULL,
    head      text COLLATE "C" NOT NULL,
    turn      bigint  NOT NULL,
    opens_at  bigint  NOT NULL,
    has_room  boolean NOT NULL,
    PRIMARY KEY (limit_key, queue, task, rank)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0);
CREATE INDEX mainspring_limit_lines_turn ON mainspring_limit_lines (name, queue, task, rank, turn, head, opens_at)
    WHERE has_room;

-- down 11
DROP TABLE mainspring_limit_lines;
DROP TABLE mainspring_limit_groups;
DROP TABLE mainspring_limits;
DROP TABLE mainspring_limited;
