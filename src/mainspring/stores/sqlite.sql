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
