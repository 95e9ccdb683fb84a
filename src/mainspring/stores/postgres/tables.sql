-- The schema of the PostgreSQL store, as numbered steps. Instants are microseconds since 1970 (UTC); `rank` is the
-- negated priority, so that one ascending index is the claim order. Text is compared by code point, as Python does.
-- JSON is kept as text: jsonb cannot hold every string. `mainspring_` stands for the prefix in use.
-- `-- up N, for M`: who knows schema M still works on it. Without, a step breaks what the older release writes.

-- up 1
-- What is not final. Rows come, are claimed and go. A claim changes no column that an index knows (state, lease, worker,
-- started_at, attempt, runs: mind that when adding one) and finds room in the row's own page, so it writes no index.
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
    error           text COLLATE "C",   -- the kind of its failure
    tags            text[] COLLATE "C", -- null: none
    options         text             NOT NULL,  -- JSON: timeout, max_retries, backoff, tags, metadata, schedule, …
    failure         text,               -- JSON: type, message, stack
    payload         text             NOT NULL,
    result          text,
    progress        text                -- JSON: run, at, done, total, note
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);

-- What is final. Written once; the last run of a job that went well is in its row, and `ending` says so.
CREATE TABLE mainspring_finished (LIKE mainspring_jobs INCLUDING DEFAULTS);
ALTER TABLE mainspring_finished ADD COLUMN ending text COLLATE "C";

-- Neither pending nor running; pending again. No claim of a new job changes these.
ALTER TABLE mainspring_jobs
    ADD COLUMN parked boolean NOT NULL GENERATED ALWAYS AS (state NOT IN ('pending', 'running')) STORED,
    ADD COLUMN retried boolean NOT NULL GENERATED ALWAYS AS (state = 'pending' AND attempt > 0) STORED;
ALTER TABLE mainspring_jobs ADD PRIMARY KEY (id);
CREATE INDEX mainspring_jobs_ready ON mainspring_jobs (queue, task, rank, run_at, id) WHERE crashes < 2 AND NOT parked;
CREATE INDEX mainspring_jobs_suspects ON mainspring_jobs (rank, run_at, id) WHERE crashes >= 2 AND NOT parked;
CREATE INDEX mainspring_jobs_expiring ON mainspring_jobs (expires_at) WHERE expires_at IS NOT NULL AND NOT parked;
-- For lists, free for a job that is neither: what stands aside, and what was created at another time than its id says.
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

-- Every run but the last of a job that went well.
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

-- What was claimed together. Every running job is in one of these; a row goes when none of its jobs is running any more,
-- at the latest with its worker's next beat.
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

-- Runs counted by span; what has been counted since the last beat waits apart, so that no two finishes meet in a row.
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
    body     text    NOT NULL           -- JSON: all of it
);
CREATE INDEX mainspring_schedules_due ON mainspring_schedules (due_at, name) WHERE due_at IS NOT NULL;
CREATE INDEX mainspring_schedules_waiting ON mainspring_schedules (waits_on) WHERE waits_on IS NOT NULL;

-- What became of the ticks of each schedule, the newest of them.
CREATE TABLE mainspring_ticks (
    schedule text COLLATE "C" NOT NULL,
    n        bigint NOT NULL,
    body     text   NOT NULL,           -- JSON: at, seen_at, what, reason, job_id, count, last_at
    PRIMARY KEY (schedule, n)
);

CREATE TABLE mainspring_leaders (
    name   text COLLATE "C" PRIMARY KEY,
    holder text   NOT NULL,             -- empty: nobody
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
-- What is final, by day of creation: ids grow with time, so a span of ids is a span of time, and the key stays the id
-- alone. The table as it was becomes the part for all that lies in no day; its indexes are taken over as they are.
-- A unique index would have to contain the id: of two completed jobs with one idempotency key only locks keep us.
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

-- The completed jobs that hold these idempotency keys. A key says nothing of the day, so all parts are asked: to plan
-- that takes five times as long as to do it, and a function is the one place where a plan of our own choice is kept.
CREATE FUNCTION mainspring_done(keys text[]) RETURNS SETOF mainspring_finished
    LANGUAGE plpgsql STABLE SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY SELECT * FROM mainspring_finished AS job
        WHERE job.idempotency_key = ANY(keys) AND job.idempotency_key IS NOT NULL AND job.state = 'completed';
END $$;

-- One job without keys, if it is in neither table, as they are at one moment: what ends meanwhile goes from one to the
-- other. Planned anew for each call, a third fewer of them are made in a second.
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
-- What the service keeps: an API key, a webhook, a session.
CREATE TABLE mainspring_documents (
    kind       text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    revision   bigint           NOT NULL,
    expires_at bigint,
    text       text             NOT NULL,
    PRIMARY KEY (kind, name)
) WITH (fillfactor = 80);
CREATE INDEX mainspring_documents_expiring ON mainspring_documents (expires_at) WHERE expires_at IS NOT NULL;

-- Who did what. Read along the id; the other index is for those who tidy up.
CREATE TABLE mainspring_audit (
    id      text COLLATE "C" PRIMARY KEY,
    at      bigint NOT NULL,
    who     text   NOT NULL,
    action  text   NOT NULL,
    target  text   NOT NULL,
    asked   text   NOT NULL,            -- JSON
    outcome text                        -- JSON; null: nobody lived to tell
);
CREATE INDEX mainspring_audit_old ON mainspring_audit (at);

-- Numbers that outlast a crash. `watched`: until when somebody wants news. `promised`: no news has had a number beyond.
CREATE TABLE mainspring_marks (
    name text COLLATE "C" PRIMARY KEY,
    n    bigint NOT NULL
) WITH (fillfactor = 50);

-- The newest of what has happened. Not logged: a crash of the server, or another one in its place, loses them all, and
-- readers see it by the numbers; in return to publish is to write no log, and to wait for no disk while others wait.
CREATE UNLOGGED TABLE mainspring_news (
    n    bigint PRIMARY KEY,
    text text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Numbers news on from the newest, and says until when somebody wants them. One at a time up to its commit, so whoever
-- sees a number sees all below it. A function, since each of its statements sees what was committed before it begins; a
-- statement that had waited for the lock would not. Of `kept` and up to a tenth more, the oldest go by the tenth; where
-- the last ones went, no dead row is met again.
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

-- For lists, free for a job that does not stand aside.
CREATE INDEX mainspring_jobs_parked ON mainspring_jobs (task, queue) WHERE parked;

-- down 3
DROP INDEX mainspring_jobs_parked;
DROP FUNCTION mainspring_publish(text[], integer, bigint);
DROP TABLE mainspring_news;
DROP TABLE mainspring_marks;
DROP TABLE mainspring_audit;
DROP TABLE mainspring_documents;

-- up 4, for 1
-- The state is compared in a way that no index can serve: on a table that was never analysed the planner took the index
-- with the state in it, and so read every completed job of the day for each batch of keys.
CREATE OR REPLACE FUNCTION mainspring_done(keys text[]) RETURNS SETOF mainspring_finished
    LANGUAGE plpgsql STABLE SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY SELECT * FROM mainspring_finished AS job
        WHERE job.idempotency_key = ANY(keys) AND job.idempotency_key IS NOT NULL AND job.state || '' = 'completed';
END $$;

-- Each tick writes its schedule's row twice, the second time without a change of an index if the page has room.
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
