-- The schema of the SQLite store, as numbered steps. Instants are microseconds since 1970 (UTC);
-- `rank` is the negated priority, so that one ascending index is the claim order.

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
    ending          TEXT,               -- how the last run ended, if it ended the job
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

-- Every run but the one that ended its job: that one is the job's own row.
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
ALTER TABLE mainspring_jobs ADD COLUMN error TEXT;      -- the kind of its failure
UPDATE mainspring_jobs SET error = mainspring_kind(failure) WHERE failure IS NOT NULL;
ALTER TABLE mainspring_jobs ADD COLUMN progress TEXT;   -- JSON: run, at, done, total, note
ALTER TABLE mainspring_executions ADD COLUMN account TEXT;  -- JSON: items, usage, metadata
ALTER TABLE mainspring_workers ADD COLUMN orders TEXT;  -- JSON: concurrency, drained, stopped

-- Each partial index is weighed at every change of a row, so there are as few as will do.
DROP INDEX mainspring_jobs_running;
CREATE INDEX mainspring_jobs_held ON mainspring_jobs (state, worker) WHERE state IN ('running', 'paused', 'waiting');
-- Lists and pruning look here; finished_at keeps unfinished jobs out, so that a job is entered once.
CREATE INDEX mainspring_jobs_finished ON mainspring_jobs (state, queue, task, finished_at)
    WHERE finished_at IS NOT NULL;

-- Dead jobs by what killed them.
CREATE TABLE mainspring_dead (
    task        TEXT    NOT NULL,
    error       TEXT    NOT NULL,
    finished_at INTEGER NOT NULL,
    job_id      TEXT    NOT NULL,
    PRIMARY KEY (task, error, finished_at, job_id)
) STRICT, WITHOUT ROWID;
INSERT INTO mainspring_dead SELECT task, error, finished_at, id FROM mainspring_jobs
    WHERE state = 'dead' AND error IS NOT NULL;

-- What a job failed with last, as far as one knows: it may have completed since.
CREATE TABLE mainspring_errors (
    job_id TEXT PRIMARY KEY,
    error  TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX mainspring_errors_error ON mainspring_errors (error);
INSERT INTO mainspring_errors SELECT id, error FROM mainspring_jobs WHERE error IS NOT NULL;

-- Unique and idempotency keys, those of finished jobs too.
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

-- How many jobs are in each final state: counting a million of them would take too long.
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

-- The minute under way, which is added to the tallies when another one begins.
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
    body     TEXT    NOT NULL           -- JSON: all of it
) STRICT;
CREATE INDEX mainspring_schedules_due ON mainspring_schedules (due_at, name, computed) WHERE due_at IS NOT NULL;
CREATE INDEX mainspring_schedules_waiting ON mainspring_schedules (waits_on) WHERE waits_on IS NOT NULL;

-- What became of the ticks of each schedule, the newest of them.
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
-- What the service keeps: small texts under a name.
CREATE TABLE mainspring_documents (
    kind       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    revision   INTEGER NOT NULL,
    expires_at INTEGER,
    text       TEXT    NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX mainspring_documents_expiring ON mainspring_documents (expires_at) WHERE expires_at IS NOT NULL;

-- Who did what; ids are in the order of time, so that no other index is needed.
CREATE TABLE mainspring_audit (
    id      TEXT    PRIMARY KEY,
    at      INTEGER NOT NULL,
    who     TEXT    NOT NULL,
    action  TEXT    NOT NULL,
    target  TEXT    NOT NULL,
    asked   TEXT    NOT NULL,           -- JSON
    outcome TEXT                        -- JSON
) STRICT;

-- The newest is never deleted, so that SQLite numbers on by itself.
CREATE TABLE mainspring_news (
    n    INTEGER PRIMARY KEY,
    text TEXT    NOT NULL
) STRICT;

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
-- What waits for another try, which is few of what waits: lists and counts of it need not look at the rest.
CREATE INDEX mainspring_jobs_retried ON mainspring_jobs (queue, run_at, id)
    WHERE state = 'pending' AND crashes < 2 AND attempt > 0;

-- down 5
DROP INDEX mainspring_jobs_retried;

-- up 6
-- Jobs that were stored at another time than their id says: lists by time find all others along the ids.
CREATE TABLE mainspring_odd (
    created_at INTEGER NOT NULL,
    job_id     TEXT    NOT NULL,
    PRIMARY KEY (created_at, job_id)
) STRICT, WITHOUT ROWID;
INSERT INTO mainspring_odd SELECT created_at, id FROM mainspring_jobs WHERE mainspring_is_odd(id, created_at);

-- down 6
DROP TABLE mainspring_odd;
