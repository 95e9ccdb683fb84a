-- The schema of the SQLite store, as numbered migrations. Instants are microseconds since 1970 (UTC).
-- `rank` is the negated priority, so that one ascending index has the claim order.
-- After `-- up N, for M` a release that knows schema M still works; after a plain `-- up N` its statements fail.
--
-- The way of a job: enqueue inserts a row into mainspring_jobs (pending). A claim walks along mainspring_jobs_ready,
-- sets state = 'running' and gives the row a lease. Finish updates the row if it is still running under that lease.
-- The way of a tick: a firing writes the next revision into mainspring_schedules if the stored one is the one it was
-- planned with, inserts the tick's job and a row into mainspring_ticks, all in one transaction.

-- up 1
CREATE TABLE mainspring_jobs (
    n               INTEGER PRIMARY KEY,
    id              TEXT    NOT NULL UNIQUE,
    queue           TEXT    NOT NULL,
    task            TEXT    NOT NULL,
    rank            INTEGER NOT NULL,
    state           TEXT    NOT NULL,
    run_at          INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    expires_at      INTEGER,
    attempt         INTEGER NOT NULL DEFAULT 0,
    crashes         INTEGER NOT NULL DEFAULT 0,
    runs            INTEGER NOT NULL DEFAULT 0,
    lease           TEXT,
    worker          TEXT,
    started_at      INTEGER,
    finished_at     INTEGER,
    ending          TEXT,               -- how the run ended that completed the job; else null
    cancel_reason   TEXT,
    unique_key      TEXT,
    idempotency_key TEXT,
    options         TEXT    NOT NULL,   -- JSON: timeout, max_retries, backoff, tags, metadata
    failure         TEXT,               -- JSON: type, message, stack
    payload         TEXT    NOT NULL,
    result          TEXT
) STRICT;
CREATE INDEX mainspring_jobs_ready ON mainspring_jobs (queue, task, rank, run_at, id)
    WHERE state = 'pending' AND crashes < 2;
CREATE INDEX mainspring_jobs_suspects ON mainspring_jobs (rank, run_at, id) WHERE state = 'pending' AND crashes >= 2;
CREATE INDEX mainspring_jobs_running ON mainspring_jobs (worker) WHERE state = 'running';
CREATE INDEX mainspring_jobs_expiring ON mainspring_jobs (expires_at)
    WHERE state = 'pending' AND expires_at IS NOT NULL;
CREATE UNIQUE INDEX mainspring_jobs_unique_key ON mainspring_jobs (unique_key)
    WHERE unique_key IS NOT NULL AND state IN ('pending', 'running', 'waiting', 'paused');
CREATE UNIQUE INDEX mainspring_jobs_idempotency_key ON mainspring_jobs (idempotency_key)
    WHERE idempotency_key IS NOT NULL AND state IN ('pending', 'running', 'waiting', 'paused', 'completed');

-- Every run but the one that completed its job: that one is in the job's own row.
CREATE TABLE mainspring_executions (
    job_id      TEXT    NOT NULL,
    number      INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    ending      TEXT    NOT NULL,
    worker      TEXT    NOT NULL,
    lease       TEXT    NOT NULL,
    started_at  INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    result_size INTEGER NOT NULL,
    failure     TEXT,
    PRIMARY KEY (job_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE mainspring_workers (
    id    TEXT    PRIMARY KEY,
    until INTEGER NOT NULL,
    info  TEXT    NOT NULL              -- JSON: host, pid, queues, tasks, concurrency, …
) STRICT;

CREATE TABLE mainspring_queues (
    name   TEXT    PRIMARY KEY,
    paused INTEGER NOT NULL
) STRICT;

-- down 1
DROP TABLE mainspring_queues;
DROP TABLE mainspring_workers;
DROP TABLE mainspring_executions;
DROP TABLE mainspring_jobs;

-- up 2
ALTER TABLE mainspring_jobs ADD COLUMN error TEXT;      -- the kind of the job's failure
UPDATE mainspring_jobs SET error = mainspring_kind(failure) WHERE failure IS NOT NULL;
ALTER TABLE mainspring_jobs ADD COLUMN progress TEXT;   -- JSON: run, at, done, total, note
ALTER TABLE mainspring_executions ADD COLUMN account TEXT;  -- JSON: items, usage, metadata
ALTER TABLE mainspring_workers ADD COLUMN orders TEXT;  -- JSON: concurrency, drained, stopped

-- Every change of a row evaluates the condition of each partial index, so there are as few as possible.
DROP INDEX mainspring_jobs_running;
CREATE INDEX mainspring_jobs_held ON mainspring_jobs (state, worker) WHERE state IN ('running', 'paused', 'waiting');
-- For lists and pruning. The condition keeps unfinished jobs out, so that a job enters the index once.
CREATE INDEX mainspring_jobs_finished ON mainspring_jobs (state, queue, task, finished_at)
    WHERE finished_at IS NOT NULL;

-- Dead jobs by task and kind of failure.
CREATE TABLE mainspring_dead (
    task        TEXT    NOT NULL,
    error       TEXT    NOT NULL,
    finished_at INTEGER NOT NULL,
    job_id      TEXT    NOT NULL,
    PRIMARY KEY (task, error, finished_at, job_id)
) STRICT, WITHOUT ROWID;
INSERT INTO mainspring_dead SELECT task, error, finished_at, id FROM mainspring_jobs
    WHERE state = 'dead' AND error IS NOT NULL;

-- The kind of the last failure of each job; the job may have completed since.
CREATE TABLE mainspring_errors (
    job_id TEXT PRIMARY KEY,
    error  TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX mainspring_errors_error ON mainspring_errors (error);
INSERT INTO mainspring_errors SELECT id, error FROM mainspring_jobs WHERE error IS NOT NULL;

-- Unique and idempotency keys, also of finished jobs.
CREATE TABLE mainspring_keys (
    key    TEXT NOT NULL,
    job_id TEXT NOT NULL,
    PRIMARY KEY (key, job_id)
) STRICT, WITHOUT ROWID;
INSERT OR IGNORE INTO mainspring_keys SELECT unique_key, id FROM mainspring_jobs WHERE unique_key IS NOT NULL;
INSERT OR IGNORE INTO mainspring_keys SELECT idempotency_key, id FROM mainspring_jobs WHERE idempotency_key IS NOT NULL;

CREATE TABLE mainspring_tags (
    tag    TEXT NOT NULL,
    job_id TEXT NOT NULL,
    PRIMARY KEY (tag, job_id)
) STRICT, WITHOUT ROWID;
INSERT INTO mainspring_tags SELECT DISTINCT tag.value, job.id
    FROM mainspring_jobs job CROSS JOIN json_each(job.options, '$.tags') tag;

CREATE TABLE mainspring_logs (
    job_id TEXT    NOT NULL,
    run    INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    level  INTEGER NOT NULL,
    text   TEXT    NOT NULL,
    PRIMARY KEY (job_id, run, n)
) STRICT, WITHOUT ROWID;

-- The number of jobs in each final state: counting a million rows would take too long.
CREATE TABLE mainspring_counts (
    state TEXT    PRIMARY KEY,
    count INTEGER NOT NULL
) STRICT;
INSERT INTO mainspring_counts SELECT state, count(*) FROM mainspring_jobs WHERE finished_at IS NOT NULL GROUP BY state;

CREATE TABLE mainspring_tallies (
    span  TEXT    NOT NULL,             -- minute, hour, day or ever
    at    INTEGER NOT NULL,
    queue TEXT    NOT NULL,
    task  TEXT    NOT NULL,
    sums  TEXT    NOT NULL,             -- JSON: endings, took, spread, errors, last
    PRIMARY KEY (span, at, queue, task)
) STRICT, WITHOUT ROWID;

-- The current minute of each queue and task; it is added to the tallies when another minute begins.
CREATE TABLE mainspring_counting (
    queue TEXT    NOT NULL,
    task  TEXT    NOT NULL,
    at    INTEGER NOT NULL,
    sums  TEXT    NOT NULL,
    PRIMARY KEY (queue, task)
) STRICT, WITHOUT ROWID;

CREATE TABLE mainspring_circuits (
    task       TEXT    PRIMARY KEY,
    failures   INTEGER NOT NULL,
    open_until INTEGER,
    probe      TEXT
) STRICT;

-- down 2
DROP TABLE mainspring_circuits;
DROP TABLE mainspring_counting;
DROP TABLE mainspring_tallies;
DROP TABLE mainspring_counts;
DROP TABLE mainspring_logs;
DROP TABLE mainspring_tags;
DROP TABLE mainspring_keys;
DROP TABLE mainspring_errors;
DROP TABLE mainspring_dead;
DROP INDEX mainspring_jobs_finished;
DROP INDEX mainspring_jobs_held;
CREATE INDEX mainspring_jobs_running ON mainspring_jobs (worker) WHERE state = 'running';
ALTER TABLE mainspring_workers DROP COLUMN orders;
ALTER TABLE mainspring_executions DROP COLUMN account;
ALTER TABLE mainspring_jobs DROP COLUMN progress;
ALTER TABLE mainspring_jobs DROP COLUMN error;

-- up 3
CREATE TABLE mainspring_schedules (
    name     TEXT    PRIMARY KEY,
    revision INTEGER NOT NULL,
    due_at   INTEGER,
    computed INTEGER NOT NULL,
    waits_on TEXT,
    body     TEXT    NOT NULL           -- JSON: the whole schedule
) STRICT;
CREATE INDEX mainspring_schedules_due ON mainspring_schedules (due_at, name, computed) WHERE due_at IS NOT NULL;
CREATE INDEX mainspring_schedules_waiting ON mainspring_schedules (waits_on) WHERE waits_on IS NOT NULL;

-- The newest ticks of each schedule, with their fate.
CREATE TABLE mainspring_ticks (
    schedule TEXT    NOT NULL,
    n        INTEGER NOT NULL,
    body     TEXT    NOT NULL,          -- JSON: at, seen_at, what, reason, job_id, count, last_at
    PRIMARY KEY (schedule, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE mainspring_leaders (
    name   TEXT    PRIMARY KEY,
    holder TEXT    NOT NULL,
    term   INTEGER NOT NULL,
    until  INTEGER NOT NULL
) STRICT;

-- down 3
DROP TABLE mainspring_leaders;
DROP TABLE mainspring_ticks;
DROP TABLE mainspring_schedules;

-- up 4, for 3
-- Documents: small texts under a kind and a name, such as API keys and webhooks.
CREATE TABLE mainspring_documents (
    kind       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    revision   INTEGER NOT NULL,
    expires_at INTEGER,
    text       TEXT    NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX mainspring_documents_expiring ON mainspring_documents (expires_at) WHERE expires_at IS NOT NULL;

-- The audit trail. Ids grow with time, so no other index is needed.
CREATE TABLE mainspring_audit (
    id      TEXT    PRIMARY KEY,
    at      INTEGER NOT NULL,
    who     TEXT    NOT NULL,
    action  TEXT    NOT NULL,
    target  TEXT    NOT NULL,
    asked   TEXT    NOT NULL,           -- JSON
    outcome TEXT                        -- JSON
) STRICT;

-- The live feed. The newest row is never deleted, so SQLite itself assigns growing numbers.
CREATE TABLE mainspring_news (
    n    INTEGER PRIMARY KEY,
    text TEXT    NOT NULL
) STRICT;

-- Until when a reader watches the feed: one row.
CREATE TABLE mainspring_watched (
    n     INTEGER PRIMARY KEY CHECK (n = 1),
    until INTEGER NOT NULL
) STRICT;

-- down 4
DROP TABLE mainspring_watched;
DROP TABLE mainspring_news;
DROP TABLE mainspring_audit;
DROP TABLE mainspring_documents;

-- up 5, for 3
-- Jobs that wait for a retry, which are few of the pending jobs: for lists and counts of them.
CREATE INDEX mainspring_jobs_retried ON mainspring_jobs (queue, run_at, id)
    WHERE state = 'pending' AND crashes < 2 AND attempt > 0;

-- down 5
DROP INDEX mainspring_jobs_retried;

-- up 6
-- Jobs that were stored at another time than their id says; lists by time find all others along the ids.
CREATE TABLE mainspring_odd (
    created_at INTEGER NOT NULL,
    job_id     TEXT    NOT NULL,
    PRIMARY KEY (created_at, job_id)
) STRICT, WITHOUT ROWID;
INSERT INTO mainspring_odd SELECT created_at, id FROM mainspring_jobs WHERE mainspring_is_odd(id, created_at);

-- down 6
DROP TABLE mainspring_odd;

-- up 7, for 6
-- Unfinished jobs in order of creation, for lists: finished ones may stand before and between them in millions.
CREATE INDEX mainspring_jobs_unfinished ON mainspring_jobs (id) WHERE finished_at IS NULL;

-- down 7
DROP INDEX mainspring_jobs_unfinished;

-- up 8, for 6
-- Flows, by the id of their own job: a row that changes with every step, and the plan, which does not.
CREATE TABLE mainspring_flows (
    id   TEXT PRIMARY KEY,
    body TEXT NOT NULL                  -- JSON
) STRICT;
CREATE TABLE mainspring_plans (
    flow TEXT PRIMARY KEY,
    body TEXT NOT NULL                  -- JSON
) STRICT;
-- The jobs of the steps.
CREATE TABLE mainspring_steps (
    flow     TEXT    NOT NULL,
    position INTEGER NOT NULL,          -- life << 56 | step << 32 | index
    job_id   TEXT    NOT NULL,
    PRIMARY KEY (flow, position)
) STRICT, WITHOUT ROWID;

-- down 8
DROP TABLE mainspring_steps;
DROP TABLE mainspring_plans;
DROP TABLE mainspring_flows;

-- up 9, for 6
-- The same tables: releases that know this schema also know tasks that yield, skipped steps and timeouts of flows.

-- down 9

-- up 10, for 6
-- The same tables: releases that know this schema also know signals.

-- down 10

-- up 11, for 6
-- The stored values of durable steps, which a later run of the job does not take again.
CREATE TABLE mainspring_checkpoints (
    job_id TEXT    NOT NULL,
    name   TEXT    NOT NULL,
    n      INTEGER NOT NULL,            -- counts from 1 in the life of the job
    at     INTEGER NOT NULL,
    value  TEXT    NOT NULL,            -- JSON
    PRIMARY KEY (job_id, name)
) STRICT;

-- down 11
DROP TABLE mainspring_checkpoints;

-- up 12, for 6
-- The same tables: releases that know this schema also know plans that grow.

-- down 12

-- up 13, for 6
-- Limits of jobs. Jobs with a limit have a rank of their own in mainspring_jobs, so that mainspring_jobs_ready has them
-- behind all others; a claim finds them by mainspring_limit_lines.
CREATE TABLE mainspring_limits (
    name TEXT PRIMARY KEY,
    body TEXT NOT NULL                  -- JSON
) STRICT;
-- The unfinished jobs that have a limit, but no paused ones.
CREATE TABLE mainspring_limited (
    job_id    TEXT    PRIMARY KEY,
    limit_key TEXT    NOT NULL,         -- the name of the limit, a line break, and the key of the group
    standing  INTEGER NOT NULL,         -- 0 in a line, 1 running, 2 a poison suspect, 3 waiting for its steps
    queue     TEXT    NOT NULL,
    task      TEXT    NOT NULL,
    rank      INTEGER NOT NULL,
    run_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX mainspring_limited_lines ON mainspring_limited (limit_key, standing, queue, task, rank, run_at, job_id);
CREATE INDEX mainspring_limited_running ON mainspring_limited (limit_key) WHERE standing = 1;
-- What is remembered of the jobs of one key. `ripe_at` is when a group without jobs is deleted; null while it has some.
CREATE TABLE mainspring_limit_groups (
    limit_key TEXT    PRIMARY KEY,
    tat       INTEGER NOT NULL,
    served_at INTEGER NOT NULL,
    ripe_at   INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX mainspring_limit_groups_ripe ON mainspring_limit_groups (ripe_at) WHERE ripe_at IS NOT NULL;
-- The first job of each line whose group has room, with its place in the order of claims.
CREATE TABLE mainspring_limit_lines (
    limit_key TEXT    NOT NULL,
    queue     TEXT    NOT NULL,
    task      TEXT    NOT NULL,
    rank      INTEGER NOT NULL,
    run_at    INTEGER NOT NULL,
    job_id    TEXT    NOT NULL,
    turn      INTEGER NOT NULL,
    opens_at  INTEGER NOT NULL,
    PRIMARY KEY (limit_key, queue, task, rank)
) STRICT, WITHOUT ROWID;
CREATE INDEX mainspring_limit_lines_turn ON mainspring_limit_lines (queue, task, rank, turn, job_id, opens_at);

-- down 13
DROP TABLE mainspring_limit_lines;
DROP TABLE mainspring_limit_groups;
DROP TABLE mainspring_limited;
DROP TABLE mainspring_limits;
UPDATE mainspring_jobs SET rank = rank - 1048576 WHERE rank >= 524288;
