SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA golden;
SET default_tablespace = '';
CREATE TABLE golden.mainspring_finished (
    id text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C",
    rank integer NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    run_at bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    started_at bigint,
    finished_at bigint,
    attempt integer DEFAULT 0 NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    runs integer DEFAULT 0 NOT NULL,
    lease text COLLATE pg_catalog."C",
    worker text COLLATE pg_catalog."C",
    cancel_reason text,
    unique_key text COLLATE pg_catalog."C",
    idempotency_key text COLLATE pg_catalog."C",
    schedule text COLLATE pg_catalog."C",
    error text COLLATE pg_catalog."C",
    tags text[] COLLATE pg_catalog."C",
    options text NOT NULL,
    failure text,
    payload text NOT NULL,
    result text,
    progress text,
    ending text COLLATE pg_catalog."C"
)
PARTITION BY RANGE (id);
CREATE FUNCTION golden.mainspring_done(keys text[]) RETURNS SETOF golden.mainspring_finished
    LANGUAGE plpgsql STABLE
    SET search_path TO 'golden'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
BEGIN
    RETURN QUERY SELECT * FROM "mainspring_finished" AS job
        WHERE job.idempotency_key = ANY(keys) AND job.idempotency_key IS NOT NULL AND job.state || '' = 'completed';
END $$;
CREATE FUNCTION golden.mainspring_publish(texts text[], lock integer, kept bigint) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'golden'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
    step bigint := kept / 10;
    promised bigint;
    old bigint;
    new bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(lock, -5);
    promised := coalesce((SELECT n FROM "mainspring_marks" WHERE name = 'promised'), 0);
    old := coalesce((SELECT max(n) FROM "mainspring_news"), promised);
    new := old + cardinality(texts);
    IF new > promised THEN
        -- On the disk before anybody sees a number beyond it.
        IF current_setting('synchronous_commit') = 'off' THEN SET LOCAL synchronous_commit = on; END IF;
        INSERT INTO "mainspring_marks" VALUES ('promised', new + kept) ON CONFLICT (name) DO UPDATE SET n = excluded.n;
    END IF;
    INSERT INTO "mainspring_news" SELECT old + at, one FROM unnest(texts) WITH ORDINALITY AS told (one, at);
    IF new / step > old / step THEN
        DELETE FROM "mainspring_news" WHERE n > old / step * step - kept AND n <= new / step * step - kept;
    END IF;
    RETURN (SELECT n FROM "mainspring_marks" WHERE name = 'watched');
END $$;
CREATE FUNCTION golden.mainspring_put(the_id text, queue text, task text, rank integer, run_at bigint, created_at bigint, expires_at bigint, schedule text, tags text[], options text, payload text, channel text, word text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'golden'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $_$
BEGIN
    INSERT INTO "mainspring_jobs"
        (id, queue, task, rank, run_at, created_at, expires_at, schedule, tags, options, payload, state)
        SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 'pending'
        WHERE NOT EXISTS (SELECT 1 FROM "mainspring_jobs" AS job WHERE job.id = $1
            UNION ALL SELECT 1 FROM "mainspring_finished" AS job WHERE job.id = $1)
        ON CONFLICT (id) DO NOTHING;
    IF channel IS NOT NULL THEN PERFORM pg_notify(channel, word); END IF;
END $_$;
SET default_table_access_method = heap;
CREATE TABLE golden.mainspring_audit (
    id text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL,
    who text NOT NULL,
    action text NOT NULL,
    target text NOT NULL,
    asked text NOT NULL,
    outcome text
);
CREATE TABLE golden.mainspring_circuits (
    task text NOT NULL COLLATE pg_catalog."C",
    failures integer NOT NULL,
    open_until bigint,
    probe text
);
CREATE TABLE golden.mainspring_counting (
    at bigint NOT NULL,
    queue text NOT NULL,
    task text NOT NULL,
    sums text NOT NULL
);
CREATE TABLE golden.mainspring_documents (
    kind text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    expires_at bigint,
    text text NOT NULL
)
WITH (fillfactor='80');
CREATE TABLE golden.mainspring_executions (
    job_id text NOT NULL COLLATE pg_catalog."C",
    number integer NOT NULL,
    attempt integer NOT NULL,
    ending text NOT NULL,
    worker text NOT NULL,
    lease text NOT NULL,
    started_at bigint NOT NULL,
    finished_at bigint NOT NULL,
    result_size integer NOT NULL,
    failure text,
    account text
);
CREATE TABLE golden.mainspring_finished_20300101 (
    id text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C",
    rank integer NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    run_at bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    started_at bigint,
    finished_at bigint,
    attempt integer DEFAULT 0 NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    runs integer DEFAULT 0 NOT NULL,
    lease text COLLATE pg_catalog."C",
    worker text COLLATE pg_catalog."C",
    cancel_reason text,
    unique_key text COLLATE pg_catalog."C",
    idempotency_key text COLLATE pg_catalog."C",
    schedule text COLLATE pg_catalog."C",
    error text COLLATE pg_catalog."C",
    tags text[] COLLATE pg_catalog."C",
    options text NOT NULL,
    failure text,
    payload text NOT NULL,
    result text,
    progress text,
    ending text COLLATE pg_catalog."C"
)
WITH (fillfactor='100', autovacuum_vacuum_insert_threshold='100000', autovacuum_vacuum_insert_scale_factor='0.5', autovacuum_analyze_threshold='10000', autovacuum_analyze_scale_factor='0.5');
CREATE TABLE golden.mainspring_finished_20300102 (
    id text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C",
    rank integer NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    run_at bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    started_at bigint,
    finished_at bigint,
    attempt integer DEFAULT 0 NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    runs integer DEFAULT 0 NOT NULL,
    lease text COLLATE pg_catalog."C",
    worker text COLLATE pg_catalog."C",
    cancel_reason text,
    unique_key text COLLATE pg_catalog."C",
    idempotency_key text COLLATE pg_catalog."C",
    schedule text COLLATE pg_catalog."C",
    error text COLLATE pg_catalog."C",
    tags text[] COLLATE pg_catalog."C",
    options text NOT NULL,
    failure text,
    payload text NOT NULL,
    result text,
    progress text,
    ending text COLLATE pg_catalog."C"
)
WITH (fillfactor='100', autovacuum_vacuum_insert_threshold='100000', autovacuum_vacuum_insert_scale_factor='0.5', autovacuum_analyze_threshold='10000', autovacuum_analyze_scale_factor='0.5');
CREATE TABLE golden.mainspring_finished_20300103 (
    id text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C",
    rank integer NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    run_at bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    started_at bigint,
    finished_at bigint,
    attempt integer DEFAULT 0 NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    runs integer DEFAULT 0 NOT NULL,
    lease text COLLATE pg_catalog."C",
    worker text COLLATE pg_catalog."C",
    cancel_reason text,
    unique_key text COLLATE pg_catalog."C",
    idempotency_key text COLLATE pg_catalog."C",
    schedule text COLLATE pg_catalog."C",
    error text COLLATE pg_catalog."C",
    tags text[] COLLATE pg_catalog."C",
    options text NOT NULL,
    failure text,
    payload text NOT NULL,
    result text,
    progress text,
    ending text COLLATE pg_catalog."C"
)
WITH (fillfactor='100', autovacuum_vacuum_insert_threshold='100000', autovacuum_vacuum_insert_scale_factor='0.5', autovacuum_analyze_threshold='10000', autovacuum_analyze_scale_factor='0.5');
CREATE TABLE golden.mainspring_finished_20300104 (
    id text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C",
    rank integer NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    run_at bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    started_at bigint,
    finished_at bigint,
    attempt integer DEFAULT 0 NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    runs integer DEFAULT 0 NOT NULL,
    lease text COLLATE pg_catalog."C",
    worker text COLLATE pg_catalog."C",
    cancel_reason text,
    unique_key text COLLATE pg_catalog."C",
    idempotency_key text COLLATE pg_catalog."C",
    schedule text COLLATE pg_catalog."C",
    error text COLLATE pg_catalog."C",
    tags text[] COLLATE pg_catalog."C",
    options text NOT NULL,
    failure text,
    payload text NOT NULL,
    result text,
    progress text,
    ending text COLLATE pg_catalog."C"
)
WITH (fillfactor='100', autovacuum_vacuum_insert_threshold='100000', autovacuum_vacuum_insert_scale_factor='0.5', autovacuum_analyze_threshold='10000', autovacuum_analyze_scale_factor='0.5');
CREATE TABLE golden.mainspring_finished_20300105 (
    id text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C",
    rank integer NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    run_at bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    started_at bigint,
    finished_at bigint,
    attempt integer DEFAULT 0 NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    runs integer DEFAULT 0 NOT NULL,
    lease text COLLATE pg_catalog."C",
    worker text COLLATE pg_catalog."C",
    cancel_reason text,
    unique_key text COLLATE pg_catalog."C",
    idempotency_key text COLLATE pg_catalog."C",
    schedule text COLLATE pg_catalog."C",
    error text COLLATE pg_catalog."C",
    tags text[] COLLATE pg_catalog."C",
    options text NOT NULL,
    failure text,
    payload text NOT NULL,
    result text,
    progress text,
    ending text COLLATE pg_catalog."C"
)
WITH (fillfactor='100', autovacuum_vacuum_insert_threshold='100000', autovacuum_vacuum_insert_scale_factor='0.5', autovacuum_analyze_threshold='10000', autovacuum_analyze_scale_factor='0.5');
CREATE TABLE golden.mainspring_finished_20300106 (
    id text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C",
    rank integer NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    run_at bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    started_at bigint,
    finished_at bigint,
    attempt integer DEFAULT 0 NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    runs integer DEFAULT 0 NOT NULL,
    lease text COLLATE pg_catalog."C",
    worker text COLLATE pg_catalog."C",
    cancel_reason text,
    unique_key text COLLATE pg_catalog."C",
    idempotency_key text COLLATE pg_catalog."C",
    schedule text COLLATE pg_catalog."C",
    error text COLLATE pg_catalog."C",
    tags text[] COLLATE pg_catalog."C",
    options text NOT NULL,
    failure text,
    payload text NOT NULL,
    result text,
    progress text,
    ending text COLLATE pg_catalog."C"
)
WITH (fillfactor='100', autovacuum_vacuum_insert_threshold='100000', autovacuum_vacuum_insert_scale_factor='0.5', autovacuum_analyze_threshold='10000', autovacuum_analyze_scale_factor='0.5');
CREATE TABLE golden.mainspring_finished_20300107 (
    id text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C",
    rank integer NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    run_at bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    started_at bigint,
    finished_at bigint,
    attempt integer DEFAULT 0 NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    runs integer DEFAULT 0 NOT NULL,
    lease text COLLATE pg_catalog."C",
    worker text COLLATE pg_catalog."C",
    cancel_reason text,
    unique_key text COLLATE pg_catalog."C",
    idempotency_key text COLLATE pg_catalog."C",
    schedule text COLLATE pg_catalog."C",
    error text COLLATE pg_catalog."C",
    tags text[] COLLATE pg_catalog."C",
    options text NOT NULL,
    failure text,
    payload text NOT NULL,
    result text,
    progress text,
    ending text COLLATE pg_catalog."C"
)
WITH (fillfactor='100', autovacuum_vacuum_insert_threshold='100000', autovacuum_vacuum_insert_scale_factor='0.5', autovacuum_analyze_threshold='10000', autovacuum_analyze_scale_factor='0.5');
CREATE TABLE golden.mainspring_finished_20300108 (
    id text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C",
    rank integer NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    run_at bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    started_at bigint,
    finished_at bigint,
    attempt integer DEFAULT 0 NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    runs integer DEFAULT 0 NOT NULL,
    lease text COLLATE pg_catalog."C",
    worker text COLLATE pg_catalog."C",
    cancel_reason text,
    unique_key text COLLATE pg_catalog."C",
    idempotency_key text COLLATE pg_catalog."C",
    schedule text COLLATE pg_catalog."C",
    error text COLLATE pg_catalog."C",
    tags text[] COLLATE pg_catalog."C",
    options text NOT NULL,
    failure text,
    payload text NOT NULL,
    result text,
    progress text,
    ending text COLLATE pg_catalog."C"
)
WITH (fillfactor='100', autovacuum_vacuum_insert_threshold='100000', autovacuum_vacuum_insert_scale_factor='0.5', autovacuum_analyze_threshold='10000', autovacuum_analyze_scale_factor='0.5');
CREATE TABLE golden.mainspring_finished_rest (
    id text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C",
    rank integer NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    run_at bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    started_at bigint,
    finished_at bigint,
    attempt integer DEFAULT 0 NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    runs integer DEFAULT 0 NOT NULL,
    lease text COLLATE pg_catalog."C",
    worker text COLLATE pg_catalog."C",
    cancel_reason text,
    unique_key text COLLATE pg_catalog."C",
    idempotency_key text COLLATE pg_catalog."C",
    schedule text COLLATE pg_catalog."C",
    error text COLLATE pg_catalog."C",
    tags text[] COLLATE pg_catalog."C",
    options text NOT NULL,
    failure text,
    payload text NOT NULL,
    result text,
    progress text,
    ending text COLLATE pg_catalog."C"
);
CREATE TABLE golden.mainspring_jobs (
    id text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C",
    rank integer NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    run_at bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    started_at bigint,
    finished_at bigint,
    attempt integer DEFAULT 0 NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    runs integer DEFAULT 0 NOT NULL,
    lease text COLLATE pg_catalog."C",
    worker text COLLATE pg_catalog."C",
    cancel_reason text,
    unique_key text COLLATE pg_catalog."C",
    idempotency_key text COLLATE pg_catalog."C",
    schedule text COLLATE pg_catalog."C",
    error text COLLATE pg_catalog."C",
    tags text[] COLLATE pg_catalog."C",
    options text NOT NULL,
    failure text,
    payload text NOT NULL,
    result text,
    progress text,
    parked boolean GENERATED ALWAYS AS ((state <> ALL (ARRAY['pending'::text, 'running'::text]))) STORED NOT NULL,
    retried boolean GENERATED ALWAYS AS (((state = 'pending'::text) AND (attempt > 0))) STORED NOT NULL
)
WITH (fillfactor='45', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='1000', autovacuum_analyze_scale_factor='0.1', autovacuum_vacuum_cost_delay='0');
CREATE TABLE golden.mainspring_leaders (
    name text NOT NULL COLLATE pg_catalog."C",
    holder text NOT NULL,
    term bigint NOT NULL,
    until bigint NOT NULL
);
CREATE TABLE golden.mainspring_leases (
    worker text NOT NULL COLLATE pg_catalog."C",
    lease text NOT NULL COLLATE pg_catalog."C",
    ids text[] NOT NULL COLLATE pg_catalog."C"
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='500', autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY golden.mainspring_leases ALTER COLUMN ids SET STORAGE EXTERNAL;
CREATE TABLE golden.mainspring_logs (
    job_id text NOT NULL COLLATE pg_catalog."C",
    run integer NOT NULL,
    n integer NOT NULL,
    at bigint NOT NULL,
    level integer NOT NULL,
    text text NOT NULL
);
CREATE TABLE golden.mainspring_marks (
    name text NOT NULL COLLATE pg_catalog."C",
    n bigint NOT NULL
)
WITH (fillfactor='50');
CREATE UNLOGGED TABLE golden.mainspring_news (
    n bigint NOT NULL,
    text text NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_cost_delay='0');
CREATE TABLE golden.mainspring_queues (
    name text NOT NULL COLLATE pg_catalog."C",
    paused boolean NOT NULL
);
CREATE TABLE golden.mainspring_schedules (
    name text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    due_at bigint,
    computed boolean NOT NULL,
    waits_on text COLLATE pg_catalog."C",
    body text NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');
CREATE TABLE golden.mainspring_schema (
    version integer NOT NULL,
    oldest integer
);
CREATE TABLE golden.mainspring_tallies (
    span text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C",
    sums text NOT NULL
);
CREATE TABLE golden.mainspring_ticks (
    schedule text NOT NULL COLLATE pg_catalog."C",
    n bigint NOT NULL,
    body text NOT NULL
);
CREATE TABLE golden.mainspring_workers (
    id text NOT NULL COLLATE pg_catalog."C",
    until bigint NOT NULL,
    info text NOT NULL,
    orders text
)
WITH (fillfactor='50');
ALTER TABLE ONLY golden.mainspring_finished ATTACH PARTITION golden.mainspring_finished_20300101 FOR VALUES FROM ('01b8dac5-b400') TO ('01b8dfec-1000');
ALTER TABLE ONLY golden.mainspring_finished ATTACH PARTITION golden.mainspring_finished_20300102 FOR VALUES FROM ('01b8dfec-1000') TO ('01b8e512-6c00');
ALTER TABLE ONLY golden.mainspring_finished ATTACH PARTITION golden.mainspring_finished_20300103 FOR VALUES FROM ('01b8e512-6c00') TO ('01b8ea38-c800');
ALTER TABLE ONLY golden.mainspring_finished ATTACH PARTITION golden.mainspring_finished_20300104 FOR VALUES FROM ('01b8ea38-c800') TO ('01b8ef5f-2400');
ALTER TABLE ONLY golden.mainspring_finished ATTACH PARTITION golden.mainspring_finished_20300105 FOR VALUES FROM ('01b8ef5f-2400') TO ('01b8f485-8000');
ALTER TABLE ONLY golden.mainspring_finished ATTACH PARTITION golden.mainspring_finished_20300106 FOR VALUES FROM ('01b8f485-8000') TO ('01b8f9ab-dc00');
ALTER TABLE ONLY golden.mainspring_finished ATTACH PARTITION golden.mainspring_finished_20300107 FOR VALUES FROM ('01b8f9ab-dc00') TO ('01b8fed2-3800');
ALTER TABLE ONLY golden.mainspring_finished ATTACH PARTITION golden.mainspring_finished_20300108 FOR VALUES FROM ('01b8fed2-3800') TO ('01b903f8-9400');
ALTER TABLE ONLY golden.mainspring_finished ATTACH PARTITION golden.mainspring_finished_rest DEFAULT;
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-7000-9c96-956784135206', 1893492000000000, 'ada', 'keys.create', 'ada', '{"role":"admin"}', '{"before":null,"after":{"id":"69e240b22dbb","name":"ada","role":"admin","scopes":null,"created_at":"2030-01-01T10:00:00Z","created_by":"ada","expires_at":null,"last_used_at":null}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-7001-9c96-956784135206', 1893492000000000, 'ada', 'keys.create', 'bot', '{"role":"operator","scopes":["jobs:write","queues:read"],"expires":"90d"}', '{"before":null,"after":{"id":"6837c91ca613","name":"bot","role":"operator","scopes":["jobs:write","queues:read"],"created_at":"2030-01-01T10:00:00Z","created_by":"ada","expires_at":"2030-04-01T10:00:00Z","last_used_at":null}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-7002-9c96-956784135206', 1893492000000000, 'ada', 'keys.create', 'gone', '{"role":"viewer"}', '{"before":null,"after":{"id":"be027009db21","name":"gone","role":"viewer","scopes":null,"created_at":"2030-01-01T10:00:00Z","created_by":"ada","expires_at":null,"last_used_at":null}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-7003-9c96-956784135206', 1893492000000000, 'ada', 'keys.revoke', 'gone', '{}', '{"before":{"id":"be027009db21","name":"gone","role":"viewer","scopes":null,"created_at":"2030-01-01T10:00:00Z","created_by":"ada","expires_at":null,"last_used_at":null},"after":null}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-7004-9c96-956784135206', 1893492000000000, 'key:ada', 'session.open', '127.0.0.1', '{}', '{}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-7008-9c96-956784135206', 1893492000000000, 'ada', 'webhooks.create', 'ops', '{"url":"http://127.0.0.1:9/…","options":{"queues":["orders","runs"],"tasks":["ship","send"],"tags":["vip"],"include":["arguments","metadata","result"],"note":"the pager","events":["job.completed","job.dead","schedule.missed"]},"hidden":"***"}', '{"before":null,"after":{"name":"ops","url":"http://127.0.0.1:9/…","events":["job.completed","job.dead","schedule.missed"],"queues":["orders","runs"],"tasks":["ship","send"],"tags":["vip"],"include":["arguments","metadata","result"],"note":"the pager","created_at":"2030-01-01T10:00:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-7009-9c96-956784135206', 1893492000000000, 'ada', 'webhooks.rotate', 'ops', '{"overlap":7776000.0,"secret":"***"}', '{"before":{},"after":{}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-700a-9c96-956784135206', 1893492000000000, 'ada', 'webhooks.create', 'old', '{"url":"http://127.0.0.1:9/…","options":{"events":["worker.stopped"]},"hidden":"***"}', '{"before":null,"after":{"name":"old","url":"http://127.0.0.1:9/…","events":["worker.stopped"],"created_at":"2030-01-01T10:00:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-700b-9c96-956784135206', 1893492000000000, 'ada', 'webhooks.update', 'old', '{"options":{},"hidden":"***","disabled":true,"expected":null}', '{"before":{"disabled_at":null,"disabled_reason":null},"after":{"disabled_at":"2030-01-01T10:00:00Z","disabled_reason":"by an operator"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-700c-9c96-956784135206', 1893492000000000, 'ada', 'triggers.create', 'payments', '{"options":{"task":"ship","queue":"orders","priority":4,"kwargs":{"note":"paid"},"arguments":{"order":"body.data.id"},"note":"from the bank"},"secret":"***"}', '{"before":null,"after":{"name":"payments","task":"ship","queue":"orders","priority":4,"kwargs":{"note":"paid"},"arguments":{"order":"body.data.id"},"note":"from the bank","created_at":"2030-01-01T10:00:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-700d-9c96-956784135206', 1893492000000000, 'ada', 'triggers.create', 'anything', '{"options":{"task":"send","arguments":"body"},"secret":"***"}', '{"before":null,"after":{"name":"anything","task":"send","arguments":"body","created_at":"2030-01-01T10:00:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-700e-9c96-956784135206', 1893492000000000, 'ada', 'triggers.update', 'anything', '{"disabled":true}', '{"before":{"disabled_at":null},"after":{"disabled_at":"2030-01-01T10:00:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-700f-9c96-956784135206', 1893492000000000, 'ada', 'triggers.rotate', 'anything', '{"overlap":86400.0,"secret":"***"}', '{"before":{},"after":{}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-7010-9c96-956784135206', 1893492000000000, 'ada', 'triggers.create', 'run-nightly', '{"options":{"schedule":"nightly"},"secret":"***"}', '{"before":null,"after":{"name":"run-nightly","schedule":"nightly","created_at":"2030-01-01T10:00:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-7014-9c96-956784135206', 1893492000000000, 'ada', 'schedules.create', 'interval', '{"trigger":{"kind":"every","tz":"UTC","seconds":900,"anchor":null},"task":"ship","kwargs":{"order":1},"overlap":"queue","run_on_start":true}', '{"before":null,"after":{"name":"interval","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":900,"anchor":null},"task":"ship","payload":"{\"order\":1}","fingerprint":"dae6923131","queue":"orders","overlap":"queue","run_on_start":true},"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T10:00:00Z","due_at":"2030-01-01T10:00:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-7015-9c96-956784135206', 1893492000000000, 'ada', 'schedules.create', 'fortnight', '{"trigger":{"kind":"calendar","tz":"Europe/Berlin","days":0,"weeks":2,"weekdays":[0,4],"times":["09:00","17:30"],"anchor":"2029-12-31"},"task":"report","kwargs":{"kind":"fortnightly"},"exclude":["2030-01-04"]}', '{"before":null,"after":{"name":"fortnight","spec":{"trigger":{"kind":"calendar","tz":"Europe/Berlin","days":0,"weeks":2,"weekdays":[0,4],"times":["09:00","17:30"],"anchor":"2029-12-31"},"task":"report","payload":"{\"kind\":\"fortnightly\"}","fingerprint":"c3b8c56b75","queue":"reports","exclude":["2030-01-04"]},"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-14T08:00:00Z","due_at":"2030-01-14T08:00:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-7016-9c96-956784135206', 1893492000000000, 'ada', 'schedules.create', 'daily', '{"trigger":{"kind":"calendar","tz":"UTC","days":2,"weeks":0,"weekdays":[],"times":["06:00"],"anchor":null},"task":"report"}', '{"before":null,"after":{"name":"daily","spec":{"trigger":{"kind":"calendar","tz":"UTC","days":2,"weeks":0,"weekdays":[],"times":["06:00"],"anchor":null},"task":"report","payload":"{}","fingerprint":"c3b8c56b75","queue":"reports"},"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-03T06:00:00Z","due_at":"2030-01-03T06:00:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-7017-9c96-956784135206', 1893492000000000, 'ada', 'schedules.create', 'once', '{"trigger":{"kind":"at","tz":"Europe/Berlin","when":"2030-02-01T09:00:00"},"task":"send","kwargs":{"to":"ada"}}', '{"before":null,"after":{"name":"once","spec":{"trigger":{"kind":"at","tz":"Europe/Berlin","when":"2030-02-01T09:00:00"},"task":"send","payload":"{\"to\":\"ada\"}","fingerprint":"4a37f37639","queue":"mail"},"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-02-01T08:00:00Z","due_at":"2030-02-01T08:00:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-7018-9c96-956784135206', 1893492000000000, 'ada', 'schedules.create', 'policies', '{"trigger":{"kind":"cron","tz":"UTC","expr":"H/20 * 1-31 * mon-fri","day_match":"and","name":""},"task":"report","queue":"reports","priority":3,"timeout":30,"max_retries":1,"expires":600,"tags":["eu"],"metadata":{"team":"ops"},"catch_up":"all","catch_up_window":"2h","grace":120,"jitter":30,"window":{"opens":"08:00","closes":"18:00","days":[0,1,2,3,4],"tz":"UTC","outside":"move"},"start_at":"2030-01-01T10:00:00Z","end_at":"2030-01-31T12:00:00Z","max_runs":500,"pause_after_failures":3}', '{"before":null,"after":{"name":"policies","spec":{"trigger":{"kind":"cron","tz":"UTC","expr":"H/20 * 1-31 * mon-fri","day_match":"and","name":""},"task":"report","payload":"{}","fingerprint":"c3b8c56b75","queue":"reports","priority":3,"timeout":30.0,"max_retries":1,"expires":600.0,"tags":["eu"],"metadata":{"team":"ops"},"catch_up":"all","catch_up_window":7200.0,"grace":120.0,"jitter":30.0,"window":{"opens":"08:00","closes":"18:00","days":[0,1,2,3,4],"tz":"UTC","outside":"move"},"start_at":"2030-01-01T10:00:00Z","end_at":"2030-01-31T12:00:00Z","max_runs":500,"pause_after_failures":3},"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T10:17:00Z","due_at":"2030-01-01T10:17:26.313000Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-7019-9c96-956784135206', 1893492000000000, 'ada', 'schedules.create', 'adaptive', '{"trigger":{"kind":"every","tz":"UTC","seconds":300,"anchor":null},"task":"report","adapt":"1h"}', '{"before":null,"after":{"name":"adaptive","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":300,"anchor":null},"task":"report","payload":"{}","fingerprint":"c3b8c56b75","queue":"reports","adapt":3600.0},"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T10:05:00Z","due_at":"2030-01-01T10:05:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-701a-9c96-956784135206', 1893492000000000, 'ada', 'schedules.create', 'spread', '{"trigger":{"kind":"every","tz":"Asia/Tokyo","seconds":3600,"anchor":null},"task":"report","spread":true}', '{"before":null,"after":{"name":"spread","spec":{"trigger":{"kind":"every","tz":"Asia/Tokyo","seconds":3600,"anchor":null},"task":"report","payload":"{}","fingerprint":"c3b8c56b75","queue":"reports","spread":true},"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:07:30Z","next_run_at":"2030-01-01T10:07:30Z","due_at":"2030-01-01T10:07:30Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-701b-9c96-956784135206', 1893492000000000, 'ada', 'schedules.create', 'anchored', '{"trigger":{"kind":"every","tz":"UTC","seconds":1800,"anchor":"2030-01-01T11:50:00Z"},"task":"report"}', '{"before":null,"after":{"name":"anchored","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":1800,"anchor":"2030-01-01T11:50:00Z"},"task":"report","payload":"{}","fingerprint":"c3b8c56b75","queue":"reports"},"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T10:20:00Z","due_at":"2030-01-01T10:20:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-701c-9c96-956784135206', 1893492000000000, 'ada', 'schedules.create', 'chained', '{"trigger":{"kind":"every","tz":"UTC","seconds":1200,"anchor":null},"task":"ship","kwargs":{"order":2},"after":"finish"}', '{"before":null,"after":{"name":"chained","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":1200,"anchor":null},"task":"ship","payload":"{\"order\":2}","fingerprint":"dae6923131","queue":"orders","after":"finish"},"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T10:20:00Z","due_at":"2030-01-01T10:20:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-701d-9c96-956784135206', 1893492000000000, 'ada', 'schedules.create', 'patient', '{"trigger":{"kind":"every","tz":"UTC","seconds":21600,"anchor":null},"task":"ship","kwargs":{"order":3}}', '{"before":null,"after":{"name":"patient","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":21600,"anchor":null},"task":"ship","payload":"{\"order\":3}","fingerprint":"dae6923131","queue":"orders","backoff":{"initial":2.0,"multiplier":3.0,"max":60.0,"jitter":0.1,"curve":"linear"}},"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T16:00:00Z","due_at":"2030-01-01T16:00:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-701e-9c96-956784135206', 1893492000000000, 'ada', 'schedules.create', 'dependent', '{"trigger":{"kind":"every","tz":"UTC","seconds":1800,"anchor":null},"task":"report","depends_on":["once","interval"]}', '{"before":null,"after":{"name":"dependent","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":1800,"anchor":null},"task":"report","payload":"{}","fingerprint":"c3b8c56b75","queue":"reports","depends_on":["once","interval"]},"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T10:30:00Z","due_at":"2030-01-01T10:30:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-701f-9c96-956784135206', 1893492000000000, 'ada', 'schedules.create', 'parallel', '{"trigger":{"kind":"every","tz":"UTC","seconds":600,"anchor":null},"task":"send","kwargs":{"to":"all"},"overlap":"allow"}', '{"before":null,"after":{"name":"parallel","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":600,"anchor":null},"task":"send","payload":"{\"to\":\"all\"}","fingerprint":"4a37f37639","queue":"mail","overlap":"allow"},"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T10:10:00Z","due_at":"2030-01-01T10:10:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-7020-9c96-956784135206', 1893492000000000, 'ada', 'schedules.create', 'skipping', '{"trigger":{"kind":"every","tz":"UTC","seconds":600,"anchor":null},"task":"send","kwargs":{"to":"few"},"overlap":"skip","catch_up":"skip"}', '{"before":null,"after":{"name":"skipping","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":600,"anchor":null},"task":"send","payload":"{\"to\":\"few\"}","fingerprint":"4a37f37639","queue":"mail","catch_up":"skip"},"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T10:10:00Z","due_at":"2030-01-01T10:10:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-7021-9c96-956784135206', 1893492000000000, 'ada', 'schedules.create', 'cancelling', '{"trigger":{"kind":"every","tz":"UTC","seconds":1800,"anchor":null},"task":"send","kwargs":{"to":"new"},"overlap":"cancel"}', '{"before":null,"after":{"name":"cancelling","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":1800,"anchor":null},"task":"send","payload":"{\"to\":\"new\"}","fingerprint":"4a37f37639","queue":"mail","overlap":"cancel"},"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T10:30:00Z","due_at":"2030-01-01T10:30:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-7022-9c96-956784135206', 1893492000000000, 'ada', 'schedules.create', 'paused', '{"trigger":{"kind":"every","tz":"UTC","seconds":3600,"anchor":null},"task":"report"}', '{"before":null,"after":{"name":"paused","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":3600,"anchor":null},"task":"report","payload":"{}","fingerprint":"c3b8c56b75","queue":"reports"},"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T11:00:00Z","due_at":"2030-01-01T11:00:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-7023-9c96-956784135206', 1893492000000000, 'ada', 'schedules.pause', 'paused', '{"note":"until the audit is over"}', '{"before":{"due_at":"2030-01-01T11:00:00Z","paused_at":null,"note":""},"after":{"due_at":null,"paused_at":"2030-01-01T10:00:00Z","note":"until the audit is over"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-7024-9c96-956784135206', 1893492000000000, 'ada', 'schedules.create', 'edited', '{"trigger":{"kind":"every","tz":"UTC","seconds":3600,"anchor":null},"task":"report"}', '{"before":null,"after":{"name":"edited","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":3600,"anchor":null},"task":"report","payload":"{}","fingerprint":"c3b8c56b75","queue":"reports"},"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T11:00:00Z","due_at":"2030-01-01T11:00:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-7025-9c96-956784135206', 1893492000000000, 'ada', 'schedules.update', 'edited', '{"trigger":{"kind":"every","tz":"UTC","seconds":7200,"anchor":null},"kwargs":{"kind":"edited"}}', '{"before":{"spec":{"trigger":{"kind":"every","tz":"UTC","seconds":3600,"anchor":null},"payload":"{}"},"next_run_at":"2030-01-01T11:00:00Z","due_at":"2030-01-01T11:00:00Z","reached_at":null},"after":{"spec":{"trigger":{"kind":"every","tz":"UTC","seconds":7200,"anchor":null},"payload":"{\"kind\":\"edited\"}"},"next_run_at":"2030-01-01T12:00:00Z","due_at":"2030-01-01T12:00:00Z","reached_at":"2030-01-01T10:00:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-7026-9c96-956784135206', 1893492000000000, 'ada', 'schedules.create', 'deleted', '{"trigger":{"kind":"every","tz":"UTC","seconds":3600,"anchor":null},"task":"report"}', '{"before":null,"after":{"name":"deleted","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":3600,"anchor":null},"task":"report","payload":"{}","fingerprint":"c3b8c56b75","queue":"reports"},"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T11:00:00Z","due_at":"2030-01-01T11:00:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-7027-9c96-956784135206', 1893492000000000, 'ada', 'schedules.delete', 'deleted', '{}', '{"before":{"name":"deleted","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":3600,"anchor":null},"task":"report","payload":"{}","fingerprint":"c3b8c56b75","queue":"reports"},"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T11:00:00Z","due_at":"2030-01-01T11:00:00Z"},"after":null}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dceb-0500-7028-9c96-956784135206', 1893492000000000, 'ada', 'schedules.create', 'spoiled', '{"trigger":{"kind":"every","tz":"UTC","seconds":600,"anchor":null},"task":"send","kwargs":{"to":"nobody"}}', '{"before":null,"after":{"name":"spoiled","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":600,"anchor":null},"task":"send","payload":"{\"to\":\"nobody\"}","fingerprint":"4a37f37639","queue":"mail"},"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T10:10:00Z","due_at":"2030-01-01T10:10:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dd46-9280-700e-9c96-956784135206', 1893498000000000, 'ada', 'schedules.reschedule', 'patient', '{"at":"2030-01-01T14:00:00Z"}', '{"before":{"next_run_at":"2030-01-01T16:00:00Z","due_at":"2030-01-01T16:00:00Z","reached_at":null},"after":{"next_run_at":"2030-01-01T14:00:00Z","due_at":"2030-01-01T14:00:00Z","reached_at":"2030-01-01T11:40:00Z"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dd46-9280-700f-9c96-956784135206', 1893498000000000, 'ada', 'schedules.trigger', 'interval', '{"kwargs":{"order":4}}', '{"before":{"active":[],"last_job_id":"01b8dd46-9280-7000-9c96-956784135206","ticks":6},"after":{"active":["01b8dd46-9280-7010-9c96-956784135206"],"last_job_id":"01b8dd46-9280-7010-9c96-956784135206","ticks":7}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dd46-9280-7011-9c96-956784135206', 1893498000000000, 'ada', 'schedules.backfill', 'anchored', '{"start":"2029-12-29T12:00:00Z","end":"2029-12-29T13:00:00Z"}', '{"before":{"last_job_id":"01b8dd46-9280-7002-9c96-956784135206","ticks":3},"after":{"last_job_id":"01b8dd46-9280-7013-9c96-956784135206","ticks":5}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dd58-e200-7005-9c96-956784135206', 1893499200000000, 'ada', 'jobs.enqueue', '01b8dd58-e200-7004-9c96-956784135206', '{"task":"send","queue":"mail","jobs":1}', '{"done":1,"refused":0,"ids":["01b8dd58-e200-7004-9c96-956784135206"]}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dd58-e200-7007-9c96-956784135206', 1893499200000000, 'ada', 'jobs.pause', '01b8dd58-e200-7006-9c96-956784135206', '{}', '{"done":1,"refused":0,"ids":["01b8dd58-e200-7006-9c96-956784135206"]}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dd58-e200-7009-9c96-956784135206', 1893499200000000, 'ada', 'jobs.cancel', '01b8dd58-e200-7008-9c96-956784135206', '{"reason":"no longer wanted"}', '{"done":1,"refused":0,"ids":["01b8dd58-e200-7008-9c96-956784135206"]}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dd58-e9d0-7001-9c96-956784135206', 1893499202000000, 'ada', 'jobs.delete', '01b8dd58-e9d0-7000-9c96-956784135206', '{}', '{"done":1,"refused":0,"ids":["01b8dd58-e9d0-7000-9c96-956784135206"]}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dd5e-50a0-7002-9c96-956784135206', 1893499556000000, 'ada', 'jobs.cancel', '01b8dd5e-50a0-7001-9c96-956784135206', '{"reason":"stop it"}', '{"done":1,"refused":0,"ids":["01b8dd5e-50a0-7001-9c96-956784135206"]}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dd5e-50a0-7003-9c96-956784135206', 1893499556000000, 'ada', 'jobs.retry', '{"tasks":["send"],"errors":["Discard: not worth it"]}', '{}', '{"done":1,"refused":0,"ids":["01b8dd59-3bd8-7000-9c96-956784135206"]}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dd67-c298-7002-9c96-956784135206', 1893500175000000, 'ada', 'jobs.update', '01b8dd67-c298-7001-9c96-956784135206', '{"arguments":{"to":"there"},"queue":"elsewhere","priority":-2,"tags":["moved"],"metadata":{"by":"ada"}}', '{"done":1,"refused":0,"ids":["01b8dd67-c298-7001-9c96-956784135206"]}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dd67-c298-7003-9c96-956784135206', 1893500175000000, 'ada', 'jobs.run_again', '01b8dd59-2468-7000-9c96-956784135206', '{}', '{"before":null,"after":{"job":"01b8dd67-c298-7004-9c96-956784135206"}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dd67-c298-7005-9c96-956784135206', 1893500175000000, 'ada', 'queues.pause', 'mail', '{"note":"the provider is down"}', '{"before":{"paused":false},"after":{"paused":true}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dd67-c298-7006-9c96-956784135206', 1893500175000000, 'ada', 'queues.pause', 'sync', '{"note":"first pause"}', '{"before":{"paused":false},"after":{"paused":true}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dd67-d620-7000-9c96-956784135206', 1893500180000000, 'ada', 'queues.resume', 'sync', '{}', '{"before":{"paused":true},"after":{"paused":false}}');
INSERT INTO golden.mainspring_audit VALUES ('01b8dd67-d620-7001-9c96-956784135206', 1893500180000000, 'eve', 'jobs.cancel', '01af4b6f-9000-7000-8000-00000000abcd', '{"reason":""}', NULL);
INSERT INTO golden.mainspring_circuits VALUES ('fragile', 3, 1893500165000000, '01b8dd67-c298-7000-9c96-956784135206');
INSERT INTO golden.mainspring_circuits VALUES ('frail', 3, 1893500775000000, NULL);
INSERT INTO golden.mainspring_counting VALUES (1893500160000000, 'last', 'ship', '{"endings":{"completed":1},"took":3000000,"spread":{"89":1},"last":1893500183000000,"well":1893500183000000,"waits":{"0":1},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_documents VALUES ('answer', '445c91bbdaef0b5d52efd4f77b493a89499bc6e30b66f809', 2, 1893578400000000, '{"fingerprint":"b96e73ff81f76326d891ceffbbfe93fd518192e10ae56688","series":"01b8dceb-0500-7005-b717-4a6159b9aab6","holder":"006b798f9d369882.9844c3fd","until":"2030-01-01T10:01:00Z","answer":{"status":201,"headers":[["location","jobs/01af4b6f-9000-7000-8000-00000000abcd"],["content-type","application/json"],["content-length","78"]],"body":"{\"id\":\"01af4b6f-9000-7000-8000-00000000abcd\",\"status\":\"new\",\"duplicate\":false}"}}');
INSERT INTO golden.mainspring_documents VALUES ('answer', 'broken', 1, NULL, '{"broken":1}');
INSERT INTO golden.mainspring_documents VALUES ('depth', '10m:2030-01-01T12:10', 1, 1893846000000000, '{"at":"2030-01-01T12:16:20Z","total":{"pending":36,"scheduled":2,"retrying":3,"running":3,"oldest":8180.0},"queues":{"dead":{"pending":1,"scheduled":0,"retrying":0,"running":0,"oldest":7580.0},"elsewhere":{"pending":1,"scheduled":0,"retrying":0,"running":0,"oldest":5.0},"fragile":{"pending":0,"scheduled":0,"retrying":0,"running":1,"oldest":0.0},"mail":{"pending":11,"scheduled":1,"retrying":0,"running":0,"oldest":8180.0},"orders":{"pending":2,"scheduled":0,"retrying":0,"running":0,"oldest":2180.0},"released":{"pending":1,"scheduled":0,"retrying":0,"running":0,"oldest":945.0},"reports":{"pending":2,"scheduled":0,"retrying":0,"running":0,"oldest":2180.0},"retried":{"pending":0,"scheduled":0,"retrying":1,"running":0,"oldest":965.235601},"running":{"pending":0,"scheduled":0,"retrying":0,"running":2,"oldest":0.0},"runs":{"pending":3,"scheduled":1,"retrying":0,"running":0,"oldest":941.001992},"suspects":{"pending":0,"scheduled":0,"retrying":2,"running":0,"oldest":938.176849},"webhooks":{"pending":15,"scheduled":0,"retrying":0,"running":0,"oldest":7580.0}},"more":0}');
INSERT INTO golden.mainspring_documents VALUES ('depth', '1m:2030-01-01T12:16', 1, 1893511020000000, '{"at":"2030-01-01T12:16:20Z","total":{"pending":36,"scheduled":2,"retrying":3,"running":3,"oldest":8180.0},"queues":{"dead":{"pending":1,"scheduled":0,"retrying":0,"running":0,"oldest":7580.0},"elsewhere":{"pending":1,"scheduled":0,"retrying":0,"running":0,"oldest":5.0},"fragile":{"pending":0,"scheduled":0,"retrying":0,"running":1,"oldest":0.0},"mail":{"pending":11,"scheduled":1,"retrying":0,"running":0,"oldest":8180.0},"orders":{"pending":2,"scheduled":0,"retrying":0,"running":0,"oldest":2180.0},"released":{"pending":1,"scheduled":0,"retrying":0,"running":0,"oldest":945.0},"reports":{"pending":2,"scheduled":0,"retrying":0,"running":0,"oldest":2180.0},"retried":{"pending":0,"scheduled":0,"retrying":1,"running":0,"oldest":965.235601},"running":{"pending":0,"scheduled":0,"retrying":0,"running":2,"oldest":0.0},"runs":{"pending":3,"scheduled":1,"retrying":0,"running":0,"oldest":941.001992},"suspects":{"pending":0,"scheduled":0,"retrying":2,"running":0,"oldest":938.176849},"webhooks":{"pending":15,"scheduled":0,"retrying":0,"running":0,"oldest":7580.0}},"more":0}');
INSERT INTO golden.mainspring_documents VALUES ('depth', 'broken', 1, NULL, '{"broken":1}');
INSERT INTO golden.mainspring_documents VALUES ('etag', 'secret', 1, NULL, 'b2a6ec39605d5431586dbdd7bb94031cb0ac7fde335f422d44d3a5372267f232');
INSERT INTO golden.mainspring_documents VALUES ('key', 'ada', 1, NULL, '{"id":"69e240b22dbb","hash":"d525081bab87fb51609ddeb01054fe2caeb5ca46da0416e2150be41f1a74358e","role":"admin","scopes":null,"created_at":"2030-01-01T10:00:00Z","created_by":"ada"}');
INSERT INTO golden.mainspring_documents VALUES ('key', 'bot', 1, 1901268000000000, '{"id":"6837c91ca613","hash":"d7855a211fac1bfef5e5ab74fe7e7bbd71158470f67472bd5ee843e4c9913bfb","role":"operator","scopes":["jobs:write","queues:read"],"created_at":"2030-01-01T10:00:00Z","created_by":"ada"}');
INSERT INTO golden.mainspring_documents VALUES ('key', 'broken', 1, NULL, '{"broken":1}');
INSERT INTO golden.mainspring_documents VALUES ('key_use', '6837c91ca613', 1, 1928052000000000, '"2030-01-01T10:00:00Z"');
INSERT INTO golden.mainspring_documents VALUES ('key_use', '69e240b22dbb', 1, 1928052000000000, '"2030-01-01T10:00:00Z"');
INSERT INTO golden.mainspring_documents VALUES ('queue_pauses', 'broken', 1, NULL, '{"broken":1}');
INSERT INTO golden.mainspring_documents VALUES ('queue_pauses', 'mail', 1, NULL, '{"pauses":[{"at":"2030-01-01T12:16:15Z","who":"ada","note":"the provider is down"}]}');
INSERT INTO golden.mainspring_documents VALUES ('queue_pauses', 'sync', 2, 1901276180000000, '{"pauses":[{"at":"2030-01-01T12:16:15Z","who":"ada","note":"first pause","until":"2030-01-01T12:16:20Z"}]}');
INSERT INTO golden.mainspring_documents VALUES ('session', 'broken', 1, NULL, '{"broken":1}');
INSERT INTO golden.mainspring_documents VALUES ('session', 'd1b23a3d8c53e626b8b0b282f37a2faf5428cb800d2eef839553ef0f35b7c5e4', 1, 1893535200000000, '{"key":"69e240b22dbb","created_at":"2030-01-01T10:00:00Z"}');
INSERT INTO golden.mainspring_documents VALUES ('trigger', 'anything', 3, NULL, '{"trigger":{"name":"anything","task":"send","arguments":"body","created_at":"2030-01-01T10:00:00Z","disabled_at":"2030-01-01T10:00:00Z"},"keys":{"keys":[{"secret":"whsec_Z29sZGVuIHN0b3JlLCBzZWNyZXQgMyBvZiBhIHRyaWdnZXI="},{"secret":"whsec_Z29sZGVuIHN0b3JlLCBzZWNyZXQgMyBvZiBhIHRyaWdnZXI=","until":"2030-01-02T10:00:00Z"}]},"revision":3}');
INSERT INTO golden.mainspring_documents VALUES ('trigger', 'broken', 1, NULL, '{"broken":1}');
INSERT INTO golden.mainspring_documents VALUES ('trigger', 'payments', 1, NULL, '{"trigger":{"name":"payments","task":"ship","queue":"orders","priority":4,"kwargs":{"note":"paid"},"arguments":{"order":"body.data.id"},"note":"from the bank","created_at":"2030-01-01T10:00:00Z"},"keys":{"keys":[{"secret":"whsec_Z29sZGVuIHN0b3JlLCBzZWNyZXQgMyBvZiBhIHRyaWdnZXI="}]}}');
INSERT INTO golden.mainspring_documents VALUES ('trigger', 'run-nightly', 1, NULL, '{"trigger":{"name":"run-nightly","schedule":"nightly","created_at":"2030-01-01T10:00:00Z"},"keys":{"keys":[{"secret":"whsec_Z29sZGVuIHN0b3JlLCBzZWNyZXQgMyBvZiBhIHRyaWdnZXI="}]}}');
INSERT INTO golden.mainspring_documents VALUES ('trigger.call', 'payments:7b409f932d2c88e97f0c17676c8420d3ea0dab6edb150a89b5684a8ad6d6c4c7', 2, 1893578400000000, '01b8dceb-0500-7013-9c96-956784135206');
INSERT INTO golden.mainspring_documents VALUES ('webhook', 'broken', 1, NULL, '{"broken":1}');
INSERT INTO golden.mainspring_documents VALUES ('webhook', 'old', 2, NULL, '{"webhook":{"name":"old","url":"http://127.0.0.1:9/old","events":["worker.stopped"],"created_at":"2030-01-01T10:00:00Z","disabled_at":"2030-01-01T10:00:00Z","disabled_reason":"by an operator"},"keys":{"keys":[{"secret":"whsec_Z29sZGVuIHN0b3JlLCBzZWNyZXQgMSBvZiBhIHdlYmhvb2s="}]},"revision":2}');
INSERT INTO golden.mainspring_documents VALUES ('webhook', 'ops', 2, NULL, '{"webhook":{"name":"ops","url":"http://127.0.0.1:9/in?token=golden","events":["job.completed","job.dead","schedule.missed"],"queues":["orders","runs"],"tasks":["ship","send"],"tags":["vip"],"include":["arguments","metadata","result"],"note":"the pager","created_at":"2030-01-01T10:00:00Z"},"keys":{"keys":[{"secret":"whsec_Z29sZGVuIHN0b3JlLCBzZWNyZXQgMiBvZiBhIHdlYmhvb2s="},{"secret":"whsec_Z29sZGVuIHN0b3JlLCBzZWNyZXQgMSBvZiBhIHdlYmhvb2s=","until":"2030-04-01T10:00:00Z"}]},"revision":2}');
INSERT INTO golden.mainspring_documents VALUES ('webhook.standing', 'broken', 1, NULL, '{"broken":1}');
INSERT INTO golden.mainspring_documents VALUES ('webhook.standing', 'ops', 2, NULL, '{"name":"ops","revision":2,"failures":3,"failed_at":"2030-01-01T10:00:00Z","error":"webhook ''ops'': it answered 500","delivered_at":"2030-01-01T09:30:00Z"}');
INSERT INTO golden.mainspring_documents VALUES ('welcome', '7938edc2d662ea604a6038012630c1df104c78c5da1380e1d4ab8e515352c167', 1, 1893495600000000, '{}');
INSERT INTO golden.mainspring_executions VALUES ('01b8dceb-0500-702a-9c96-956784135206', 1, 1, 'discarded', 'golden-4242-24f44e7a', 'e67bf88894defb51', 1893492600000000, 1893492600000000, 0, '{"type":"Discard","message":"bad input"}', NULL);
INSERT INTO golden.mainspring_executions VALUES ('01b8dd58-f588-7000-9c96-956784135206', 1, 1, 'completed', 'host-1', '1c73791e5977bdf4', 1893499205000000, 1893499208000000, 1, '{"type":"Partial","message":"1 of 8 items failed"}', '{"items":{"success":5,"failed":1,"skipped":2},"usage":{"cpu":1.5,"memory":70000000},"metadata":{"source":"list"}}');
INSERT INTO golden.mainspring_executions VALUES ('01b8dd59-0140-7000-9c96-956784135206', 1, 1, 'completed', 'host-1', 'd1f40fa3a6724c09', 1893499208000000, 1893499211000000, 0, '{"type":"ResultLost","message":"the result could not be kept: …"}', NULL);
INSERT INTO golden.mainspring_executions VALUES ('01b8dd59-0cf8-7000-9c96-956784135206', 1, 1, 'failed', 'host-1', 'a1d2d1a579eabd52', 1893499211000000, 1893499214000000, 0, '{"type":"PaymentError","message":"card 4711 declined by ''bank''","stack":"Traceback (most recent call last):\n  shop.py\n"}', '{"items":{"success":5,"failed":1,"skipped":2},"usage":{"cpu":1.5,"memory":70000000},"metadata":{"source":"list"}}');
INSERT INTO golden.mainspring_executions VALUES ('01b8dd59-18b0-7000-9c96-956784135206', 1, 1, 'failed', 'host-1', '620b069e6f90a1e7', 1893499214000000, 1893499217000000, 0, '{"type":"PaymentError","message":"card 4711 declined by ''bank''","stack":"Traceback (most recent call last):\n  shop.py\n"}', NULL);
INSERT INTO golden.mainspring_executions VALUES ('01b8dd59-2468-7000-9c96-956784135206', 1, 1, 'failed', 'host-1', 'e6b7d0b25ecb8c7f', 1893499217000000, 1893499220000000, 0, '{"type":"PaymentError","message":"card 4711 declined by ''bank''","stack":"Traceback (most recent call last):\n  shop.py\n"}', NULL);
INSERT INTO golden.mainspring_executions VALUES ('01b8dd59-3020-7000-9c96-956784135206', 1, 1, 'timeout', 'host-1', 'c89e72d95b3b437b', 1893499220000000, 1893499223000000, 0, '{"type":"JobTimeout","message":"it took longer than 30 seconds","stack":"mainspring.errors.JobTimeout: it took longer than 30 seconds\n"}', NULL);
INSERT INTO golden.mainspring_executions VALUES ('01b8dd59-3bd8-7000-9c96-956784135206', 1, 1, 'discarded', 'host-1', '8255f0474c595c6a', 1893499223000000, 1893499226000000, 0, '{"type":"Discard","message":"not worth it"}', NULL);
INSERT INTO golden.mainspring_executions VALUES ('01b8dd59-4790-7000-9c96-956784135206', 1, 1, 'cancelled', 'host-1', '36ec65148ee8c305', 1893499226000000, 1893499229000000, 0, '{"type":"Cancel","message":"found out by itself"}', NULL);
INSERT INTO golden.mainspring_executions VALUES ('01b8dd59-5348-7000-9c96-956784135206', 1, 1, 'snoozed', 'host-1', 'd37a15a0c097f0b4', 1893499229000000, 1893499232000000, 0, NULL, NULL);
INSERT INTO golden.mainspring_executions VALUES ('01b8dd59-5f00-7000-9c96-956784135206', 1, 1, 'released', 'host-1', '6842b5889ac1b386', 1893499232000000, 1893499235000000, 0, NULL, NULL);
INSERT INTO golden.mainspring_executions VALUES ('01b8dd59-6ab8-7000-9c96-956784135206', 1, 1, 'released', 'host-1', '5ded9e0d18ce805a', 1893499235000000, 1893499238000000, 0, '{"type":"VersionSkew","message":"the payload does not fit; its arguments (to) were made by version 4a37f37639, this worker has version ffffffffff (to: int). If no worker can read it by 2030-01-01 13:00:35Z, it is dead","since":"2030-01-01T12:00:35Z"}', NULL);
INSERT INTO golden.mainspring_executions VALUES ('01b8dd59-7670-7000-9c96-956784135206', 1, 1, 'crashed', 'host-1', '2aa40d64704bac10', 1893499238000000, 1893499241000000, 0, '{"type":"ProcessDied","message":"its process ended: killed by SIGKILL"}', NULL);
INSERT INTO golden.mainspring_executions VALUES ('01b8dd59-8228-7000-9c96-956784135206', 1, 1, 'crashed', 'doomed', '5e29a1d69b925da4', 1893499241000000, 1893499304000000, 0, '{"type":"WorkerLost","message":"worker doomed fell silent while running this job"}', NULL);
INSERT INTO golden.mainspring_executions VALUES ('01b8dd59-8228-7000-9c96-956784135206', 2, 2, 'crashed', 'doomed', '5b50b8b20f93e0f9', 1893499304000000, 1893499367000000, 0, '{"type":"WorkerLost","message":"worker doomed fell silent while running this job"}', NULL);
INSERT INTO golden.mainspring_executions VALUES ('01b8dd59-8228-7000-9c96-956784135206', 3, 3, 'crashed', 'doomed', 'db4a86ea0f4b268b', 1893499367000000, 1893499430000000, 0, '{"type":"PoisonPill","message":"worker doomed fell silent while running this job; crash 3 of 3 allowed"}', NULL);
INSERT INTO golden.mainspring_executions VALUES ('01b8dd5c-6470-7000-9c96-956784135206', 1, 1, 'crashed', 'doomed', '8c11a24840da63f0', 1893499430000000, 1893499493000000, 0, '{"type":"WorkerLost","message":"worker doomed fell silent while running this job"}', NULL);
INSERT INTO golden.mainspring_executions VALUES ('01b8dd5c-6470-7000-9c96-956784135206', 2, 2, 'crashed', 'doomed', 'cf9d84ea093bb4a5', 1893499493000000, 1893499556000000, 0, '{"type":"WorkerLost","message":"worker doomed fell silent while running this job"}', NULL);
INSERT INTO golden.mainspring_executions VALUES ('01b8dd5e-50a0-7005-9c96-956784135206', 1, 1, 'failed', 'host-1', '943fdbe47ed9a99c', 1893499556000000, 1893499559000000, 0, '{"type":"RuntimeError","message":"down","stack":"RuntimeError: down\n"}', NULL);
INSERT INTO golden.mainspring_executions VALUES ('01b8dd5e-5c58-7000-9c96-956784135206', 1, 1, 'failed', 'host-1', 'b1cfaa8d663ac272', 1893499559000000, 1893499562000000, 0, '{"type":"RuntimeError","message":"down","stack":"RuntimeError: down\n"}', NULL);
INSERT INTO golden.mainspring_executions VALUES ('01b8dd5e-6810-7000-9c96-956784135206', 1, 1, 'failed', 'host-1', '7557b63e077133d1', 1893499562000000, 1893499565000000, 0, '{"type":"RuntimeError","message":"down","stack":"RuntimeError: down\n"}', NULL);
INSERT INTO golden.mainspring_executions VALUES ('01b8dd67-9f70-7000-9c96-956784135206', 1, 1, 'failed', 'host-1', '17c68aca1990f530', 1893500166000000, 1893500169000000, 0, '{"type":"RuntimeError","message":"down","stack":"RuntimeError: down\n"}', NULL);
INSERT INTO golden.mainspring_executions VALUES ('01b8dd67-ab28-7000-9c96-956784135206', 1, 1, 'failed', 'host-1', 'a1db493016e15cc1', 1893500169000000, 1893500172000000, 0, '{"type":"RuntimeError","message":"down","stack":"RuntimeError: down\n"}', NULL);
INSERT INTO golden.mainspring_executions VALUES ('01b8dd67-b6e0-7000-9c96-956784135206', 1, 1, 'failed', 'host-1', '09f705f0ccc25750', 1893500172000000, 1893500175000000, 0, '{"type":"RuntimeError","message":"down","stack":"RuntimeError: down\n"}', NULL);
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dceb-0500-7013-9c96-956784135206', 'orders', 'ship', -4, 'completed', 1893492000000000, 1893492000000000, NULL, 1893492600000000, 1893492600000000, 1, 0, 1, 'e67bf88894defb51', 'golden-4242-24f44e7a', NULL, NULL, 'trigger:payments:evt-1', NULL, NULL, NULL, '{"fp":"dae6923131"}', NULL, '{"order":77,"note":"paid"}', '{"shipped":77}', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dceb-0500-702a-9c96-956784135206', 'orders', 'doom', 0, 'dead', 1893492000000000, 1893492000000000, NULL, 1893492600000000, 1893492600000000, 1, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL, 'Discard: bad input', '{vip}', '{"tags":["vip"],"metadata":{"n":1},"fp":"53ad14ea51"}', '{"type":"Discard","message":"bad input"}', '{"why":"bad input"}', NULL, NULL, NULL);
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dcf4-2cc0-7000-9c96-956784135206', 'orders', 'ship', 0, 'completed', 1893492600000000, 1893492600000000, NULL, 1893492600000000, 1893492600000000, 1, 0, 1, 'e67bf88894defb51', 'golden-4242-24f44e7a', NULL, NULL, 'schedule:interval:1893492000000000000', 'interval', NULL, NULL, '{"schedule":"interval","scheduled_at":"2030-01-01T10:00:00Z","fp":"dae6923131"}', NULL, '{"order":1}', '{"shipped":1}', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dcf4-2cc0-7001-9c96-956784135206', 'reports', 'report', 0, 'completed', 1893492600000000, 1893492600000000, NULL, 1893492600000000, 1893492600000000, 1, 0, 1, 'e67bf88894defb51', 'golden-4242-24f44e7a', NULL, NULL, 'schedule:adaptive:1893492600000000000', 'adaptive', NULL, NULL, '{"schedule":"adaptive","scheduled_at":"2030-01-01T10:10:00Z","fp":"c3b8c56b75"}', NULL, '{}', '"daily"', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dcf4-2cc0-7002-9c96-956784135206', 'reports', 'report', 0, 'completed', 1893492600000000, 1893492600000000, NULL, 1893492600000000, 1893492600000000, 1, 0, 1, 'e67bf88894defb51', 'golden-4242-24f44e7a', NULL, NULL, 'schedule:spread:1893492450000000000', 'spread', NULL, NULL, '{"schedule":"spread","scheduled_at":"2030-01-01T10:07:30Z","fp":"c3b8c56b75"}', NULL, '{}', '"daily"', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dcf4-2cc0-7003-9c96-956784135206', 'reports', 'report', 0, 'completed', 1893492600000000, 1893492600000000, NULL, 1893492600000000, 1893492600000000, 1, 0, 1, 'e67bf88894defb51', 'golden-4242-24f44e7a', NULL, NULL, 'schedule:computed:1893492600000000000', 'computed', NULL, NULL, '{"schedule":"computed","scheduled_at":"2030-01-01T10:10:00Z","fp":"c3b8c56b75"}', NULL, '{"kind":"10:10"}', '"10:10"', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dcfd-5480-7000-9c96-956784135206', 'reports', 'report', 0, 'completed', 1893493200000000, 1893493200000000, NULL, 1893493200000000, 1893493200000000, 1, 0, 1, 'd189602dc795efc6', 'golden-4242-53265484', NULL, NULL, 'schedule:adaptive:1893493200000000000', 'adaptive', NULL, NULL, '{"schedule":"adaptive","scheduled_at":"2030-01-01T10:20:00Z","fp":"c3b8c56b75"}', NULL, '{}', '"daily"', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dcfd-5480-7001-9c96-956784135206', 'orders', 'ship', 0, 'completed', 1893493200000000, 1893493200000000, NULL, 1893493200000000, 1893493200000000, 1, 0, 1, 'd189602dc795efc6', 'golden-4242-53265484', NULL, NULL, 'schedule:interval:1893492900000000000', 'interval', NULL, NULL, '{"schedule":"interval","scheduled_at":"2030-01-01T10:15:00Z","fp":"dae6923131"}', NULL, '{"order":1}', '{"shipped":1}', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dcfd-5480-7002-9c96-956784135206', 'reports', 'report', -3, 'completed', 1893493200000000, 1893493200000000, 1893493800000000, 1893493200000000, 1893493200000000, 1, 0, 1, 'd189602dc795efc6', 'golden-4242-53265484', NULL, NULL, 'schedule:policies:1893493020000000000', 'policies', NULL, '{eu}', '{"timeout":30.0,"max_retries":1,"tags":["eu"],"metadata":{"team":"ops"},"schedule":"policies","scheduled_at":"2030-01-01T10:17:00Z","fp":"c3b8c56b75"}', NULL, '{}', '"daily"', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dcfd-5480-7003-9c96-956784135206', 'reports', 'report', 0, 'completed', 1893493200000000, 1893493200000000, NULL, 1893493200000000, 1893493200000000, 1, 0, 1, 'd189602dc795efc6', 'golden-4242-53265484', NULL, NULL, 'schedule:anchored:1893493200000000000', 'anchored', NULL, NULL, '{"schedule":"anchored","scheduled_at":"2030-01-01T10:20:00Z","fp":"c3b8c56b75"}', NULL, '{}', '"daily"', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dcfd-5480-7004-9c96-956784135206', 'orders', 'ship', 0, 'completed', 1893493200000000, 1893493200000000, NULL, 1893493200000000, 1893493200000000, 1, 0, 1, 'd189602dc795efc6', 'golden-4242-53265484', NULL, NULL, 'schedule:chained:1893493200000000000', 'chained', NULL, NULL, '{"schedule":"chained","scheduled_at":"2030-01-01T10:20:00Z","fp":"dae6923131"}', NULL, '{"order":2}', '{"shipped":2}', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dcfd-5480-7005-9c96-956784135206', 'reports', 'report', 0, 'completed', 1893493200000000, 1893493200000000, NULL, 1893493200000000, 1893493200000000, 1, 0, 1, 'd189602dc795efc6', 'golden-4242-53265484', NULL, NULL, 'schedule:computed:1893493200000000000', 'computed', NULL, NULL, '{"schedule":"computed","scheduled_at":"2030-01-01T10:20:00Z","fp":"c3b8c56b75"}', NULL, '{"kind":"10:20"}', '"10:20"', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd2b-1b40-7000-9c96-956784135206', 'reports', 'report', 0, 'completed', 1893496200000000, 1893496200000000, NULL, 1893496200000000, 1893496200000000, 1, 0, 1, '6d3a4279194c3f7a', 'golden-4242-7b8cb20b', NULL, NULL, 'schedule:adaptive:1893496200000000000', 'adaptive', NULL, NULL, '{"schedule":"adaptive","scheduled_at":"2030-01-01T11:10:00Z","fp":"c3b8c56b75"}', NULL, '{}', '"daily"', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd2b-1b40-7001-9c96-956784135206', 'mail', 'send', 0, 'cancelled', 1893496200000000, 1893496200000000, NULL, NULL, 1893498000000000, 0, 0, 0, NULL, NULL, 'schedule ''cancelling'' has come to its next tick', NULL, 'schedule:cancelling:1893495600000000000', 'cancelling', NULL, NULL, '{"schedule":"cancelling","scheduled_at":"2030-01-01T11:00:00Z","fp":"4a37f37639"}', NULL, '{"to":"new"}', NULL, NULL, NULL);
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd2b-1b40-7002-9c96-956784135206', 'reports', 'report', 0, 'completed', 1893496200000000, 1893496200000000, NULL, 1893496200000000, 1893496200000000, 1, 0, 1, '6d3a4279194c3f7a', 'golden-4242-7b8cb20b', NULL, NULL, 'schedule:computed:1893496200000000000', 'computed', NULL, NULL, '{"schedule":"computed","scheduled_at":"2030-01-01T11:10:00Z","fp":"c3b8c56b75"}', NULL, '{"kind":"11:10"}', '"11:10"', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd2b-1b40-7003-9c96-956784135206', 'orders', 'ship', 0, 'completed', 1893496200000000, 1893496200000000, NULL, 1893496200000000, 1893496200000000, 1, 0, 1, '6d3a4279194c3f7a', 'golden-4242-7b8cb20b', NULL, NULL, 'schedule:interval:1893495600000000000', 'interval', NULL, NULL, '{"schedule":"interval","scheduled_at":"2030-01-01T11:00:00Z","fp":"dae6923131"}', NULL, '{"order":1}', '{"shipped":1}', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd2b-1b40-7005-9c96-956784135206', 'reports', 'report', -3, 'completed', 1893496200000000, 1893496200000000, 1893496800000000, 1893496200000000, 1893496200000000, 1, 0, 1, '6d3a4279194c3f7a', 'golden-4242-7b8cb20b', NULL, NULL, 'schedule:policies:1893494220000000000', 'policies', NULL, '{eu}', '{"timeout":30.0,"max_retries":1,"tags":["eu"],"metadata":{"team":"ops"},"schedule":"policies","scheduled_at":"2030-01-01T10:37:00Z","fp":"c3b8c56b75"}', NULL, '{}', '"daily"', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd2b-1b40-7006-9c96-956784135206', 'orders', 'ship', 0, 'completed', 1893496200000000, 1893496200000000, NULL, 1893496200000000, 1893496200000000, 1, 0, 1, '6d3a4279194c3f7a', 'golden-4242-7b8cb20b', NULL, NULL, 'schedule:chained:1893494400000000000', 'chained', NULL, NULL, '{"schedule":"chained","scheduled_at":"2030-01-01T10:40:00Z","fp":"dae6923131"}', NULL, '{"order":2}', '{"shipped":2}', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd2b-1b40-7007-9c96-956784135206', 'reports', 'report', 0, 'completed', 1893496200000000, 1893496200000000, NULL, 1893496200000000, 1893496200000000, 1, 0, 1, '6d3a4279194c3f7a', 'golden-4242-7b8cb20b', NULL, NULL, 'schedule:anchored:1893495000000000000', 'anchored', NULL, NULL, '{"schedule":"anchored","scheduled_at":"2030-01-01T10:50:00Z","fp":"c3b8c56b75"}', NULL, '{}', '"daily"', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd2b-1b40-7008-9c96-956784135206', 'reports', 'report', 0, 'completed', 1893496200000000, 1893496200000000, NULL, 1893496200000000, 1893496200000000, 1, 0, 1, '6d3a4279194c3f7a', 'golden-4242-7b8cb20b', NULL, NULL, 'schedule:spread:1893496050000000000', 'spread', NULL, NULL, '{"schedule":"spread","scheduled_at":"2030-01-01T11:07:30Z","fp":"c3b8c56b75"}', NULL, '{}', '"daily"', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd2b-1b40-7011-9c96-956784135206', 'reports', 'report', -3, 'completed', 1893496200000000, 1893496200000000, 1893496800000000, 1893496200000000, 1893496200000000, 1, 0, 1, 'f043de1d53b58aa0', 'golden-4242-7b8cb20b', NULL, NULL, 'schedule:policies:1893495420000000000', 'policies', NULL, '{eu}', '{"timeout":30.0,"max_retries":1,"tags":["eu"],"metadata":{"team":"ops"},"schedule":"policies","scheduled_at":"2030-01-01T10:57:00Z","fp":"c3b8c56b75"}', NULL, '{}', '"daily"', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd46-9280-7000-9c96-956784135206', 'orders', 'ship', 0, 'completed', 1893498000000000, 1893498000000000, NULL, 1893498000000000, 1893498000000000, 1, 0, 1, '0422c14a4dff3827', 'golden-4242-c3457ef7', NULL, NULL, 'schedule:interval:1893497400000000000', 'interval', NULL, NULL, '{"schedule":"interval","scheduled_at":"2030-01-01T11:30:00Z","fp":"dae6923131"}', NULL, '{"order":1}', '{"shipped":1}', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd46-9280-7001-9c96-956784135206', 'reports', 'report', -3, 'completed', 1893498000000000, 1893498000000000, 1893498600000000, 1893498000000000, 1893498000000000, 1, 0, 1, '0422c14a4dff3827', 'golden-4242-c3457ef7', NULL, NULL, 'schedule:policies:1893496620000000000', 'policies', NULL, '{eu}', '{"timeout":30.0,"max_retries":1,"tags":["eu"],"metadata":{"team":"ops"},"schedule":"policies","scheduled_at":"2030-01-01T11:17:00Z","fp":"c3b8c56b75"}', NULL, '{}', '"daily"', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd46-9280-7002-9c96-956784135206', 'reports', 'report', 0, 'completed', 1893498000000000, 1893498000000000, NULL, 1893498000000000, 1893498000000000, 1, 0, 1, '0422c14a4dff3827', 'golden-4242-c3457ef7', NULL, NULL, 'schedule:anchored:1893496800000000000', 'anchored', NULL, NULL, '{"schedule":"anchored","scheduled_at":"2030-01-01T11:20:00Z","fp":"c3b8c56b75"}', NULL, '{}', '"daily"', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd46-9280-7003-9c96-956784135206', 'reports', 'report', 0, 'completed', 1893498000000000, 1893498000000000, NULL, 1893498000000000, 1893498000000000, 1, 0, 1, '0422c14a4dff3827', 'golden-4242-c3457ef7', NULL, NULL, 'schedule:computed:1893498000000000000', 'computed', NULL, NULL, '{"schedule":"computed","scheduled_at":"2030-01-01T11:40:00Z","fp":"c3b8c56b75"}', NULL, '{"kind":"11:40"}', '"11:40"', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd46-9280-7005-9c96-956784135206', 'reports', 'report', 0, 'completed', 1893498000000000, 1893498000000000, NULL, 1893498000000000, 1893498000000000, 1, 0, 1, '0422c14a4dff3827', 'golden-4242-c3457ef7', NULL, NULL, 'schedule:adaptive:1893497400000000000', 'adaptive', NULL, NULL, '{"schedule":"adaptive","scheduled_at":"2030-01-01T11:30:00Z","fp":"c3b8c56b75"}', NULL, '{}', '"daily"', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd46-9280-7006-9c96-956784135206', 'orders', 'ship', 0, 'completed', 1893498000000000, 1893498000000000, NULL, 1893498000000000, 1893498000000000, 1, 0, 1, '0422c14a4dff3827', 'golden-4242-c3457ef7', NULL, NULL, 'schedule:chained:1893497400000000000', 'chained', NULL, NULL, '{"schedule":"chained","scheduled_at":"2030-01-01T11:30:00Z","fp":"dae6923131"}', NULL, '{"order":2}', '{"shipped":2}', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd46-9280-700d-9c96-956784135206', 'reports', 'report', -3, 'completed', 1893498000000000, 1893498000000000, 1893498600000000, 1893498000000000, 1893498000000000, 1, 0, 1, '34b13d6cd13d7895', 'golden-4242-c3457ef7', NULL, NULL, 'schedule:policies:1893497820000000000', 'policies', NULL, '{eu}', '{"timeout":30.0,"max_retries":1,"tags":["eu"],"metadata":{"team":"ops"},"schedule":"policies","scheduled_at":"2030-01-01T11:37:00Z","fp":"c3b8c56b75"}', NULL, '{}', '"daily"', NULL, 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd58-e200-7008-9c96-956784135206', 'mail', 'send', 0, 'cancelled', 1893499200000000, 1893499200000000, NULL, NULL, 1893499200000000, 0, 0, 0, NULL, NULL, 'no longer wanted', 'cancelled', NULL, NULL, NULL, '{eu}', '{"tags":["eu"],"fp":"4a37f37639"}', NULL, '{"to":"cancelled"}', NULL, NULL, NULL);
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd58-e200-700a-9c96-956784135206', 'mail', 'send', 0, 'expired', 1893499200000000, 1893499200000000, 1893499201000000, NULL, 1893499202000000, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"fp":"4a37f37639"}', NULL, '{"to":"expired"}', NULL, NULL, NULL);
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd58-e9d0-7003-9c96-956784135206', 'runs', 'ship', 0, 'completed', 1893499202000000, 1893499202000000, NULL, 1893499202000000, 1893499205000000, 1, 0, 1, '570b87275963a9fc', 'host-1', NULL, NULL, 'done', NULL, NULL, '{vip}', '{"tags":["vip"],"fp":"dae6923131"}', NULL, '{"order":10}', '{"shipped":10}', '{"run":1,"at":"2030-01-01T12:00:02Z","done":1,"total":4.0,"note":"rows"}', 'completed');
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd58-f588-7000-9c96-956784135206', 'runs', 'sync', 0, 'completed', 1893499205000000, 1893499205000000, NULL, 1893499205000000, 1893499208000000, 1, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL, 'Partial: … of … items failed', NULL, '{"fp":"e2bbae4c2f"}', '{"type":"Partial","message":"1 of 8 items failed"}', '{"page":2}', '2', NULL, NULL);
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd59-0140-7000-9c96-956784135206', 'runs', 'ship', 0, 'completed', 1893499208000000, 1893499208000000, NULL, 1893499208000000, 1893499211000000, 1, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL, 'ResultLost: the result could not be kept: …', NULL, '{"fp":"dae6923131"}', '{"type":"ResultLost","message":"the result could not be kept: …"}', '{"order":11}', NULL, NULL, NULL);
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd59-18b0-7000-9c96-956784135206', 'runs', 'ship', 0, 'dead', 1893499214000000, 1893499214000000, NULL, 1893499214000000, 1893499217000000, 1, 0, 1, NULL, NULL, NULL, 'dead-12', NULL, NULL, 'PaymentError: card … declined by …', '{vip}', '{"tags":["vip"],"metadata":{"n":12},"fp":"dae6923131"}', '{"type":"PaymentError","message":"card 4711 declined by ''bank''","stack":"Traceback (most recent call last):\n  shop.py\n"}', '{"order":12}', NULL, NULL, NULL);
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd59-2468-7000-9c96-956784135206', 'runs', 'ship', 0, 'dead', 1893499217000000, 1893499217000000, NULL, 1893499217000000, 1893499220000000, 1, 0, 1, NULL, NULL, NULL, 'dead-13', NULL, NULL, 'PaymentError: card … declined by …', '{vip}', '{"tags":["vip"],"metadata":{"n":13},"fp":"dae6923131"}', '{"type":"PaymentError","message":"card 4711 declined by ''bank''","stack":"Traceback (most recent call last):\n  shop.py\n"}', '{"order":13}', NULL, NULL, NULL);
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd59-3020-7000-9c96-956784135206', 'runs', 'send', 0, 'dead', 1893499220000000, 1893499220000000, NULL, 1893499220000000, 1893499223000000, 1, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL, 'JobTimeout: it took longer than … seconds', NULL, '{"fp":"4a37f37639"}', '{"type":"JobTimeout","message":"it took longer than 30 seconds","stack":"mainspring.errors.JobTimeout: it took longer than 30 seconds\n"}', '{"to":"late"}', NULL, NULL, NULL);
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd59-4790-7000-9c96-956784135206', 'runs', 'send', 0, 'cancelled', 1893499226000000, 1893499226000000, NULL, 1893499226000000, 1893499229000000, 1, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL, 'Cancel: found out by itself', NULL, '{"fp":"4a37f37639"}', '{"type":"Cancel","message":"found out by itself"}', '{"to":"cancel"}', NULL, NULL, NULL);
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd59-8228-7000-9c96-956784135206', 'suspects', 'send', -3, 'dead', 1893499367000000, 1893499241000000, NULL, 1893499367000000, 1893499430000000, 3, 3, 3, NULL, NULL, NULL, NULL, NULL, NULL, 'PoisonPill: worker doomed fell silent while running this job; crash … of … allowed', NULL, '{"fp":"4a37f37639"}', '{"type":"PoisonPill","message":"worker doomed fell silent while running this job; crash 3 of 3 allowed"}', '{"to":"poison"}', NULL, NULL, NULL);
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd5e-50a0-7005-9c96-956784135206', 'fragile', 'fragile', 0, 'dead', 1893499556000000, 1893499556000000, NULL, 1893499556000000, 1893499559000000, 1, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL, 'RuntimeError: down', NULL, '{"fp":"e847bfc818"}', '{"type":"RuntimeError","message":"down","stack":"RuntimeError: down\n"}', '{}', NULL, NULL, NULL);
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd5e-5c58-7000-9c96-956784135206', 'fragile', 'fragile', 0, 'dead', 1893499559000000, 1893499559000000, NULL, 1893499559000000, 1893499562000000, 1, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL, 'RuntimeError: down', NULL, '{"fp":"e847bfc818"}', '{"type":"RuntimeError","message":"down","stack":"RuntimeError: down\n"}', '{}', NULL, NULL, NULL);
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd5e-6810-7000-9c96-956784135206', 'fragile', 'fragile', 0, 'dead', 1893499562000000, 1893499562000000, NULL, 1893499562000000, 1893499565000000, 1, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL, 'RuntimeError: down', NULL, '{"fp":"e847bfc818"}', '{"type":"RuntimeError","message":"down","stack":"RuntimeError: down\n"}', '{}', NULL, NULL, NULL);
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd67-9f70-7000-9c96-956784135206', 'frail', 'frail', 0, 'dead', 1893500166000000, 1893500166000000, NULL, 1893500166000000, 1893500169000000, 1, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL, 'RuntimeError: down', NULL, '{"fp":"e847bfc818"}', '{"type":"RuntimeError","message":"down","stack":"RuntimeError: down\n"}', '{}', NULL, NULL, NULL);
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd67-ab28-7000-9c96-956784135206', 'frail', 'frail', 0, 'dead', 1893500169000000, 1893500169000000, NULL, 1893500169000000, 1893500172000000, 1, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL, 'RuntimeError: down', NULL, '{"fp":"e847bfc818"}', '{"type":"RuntimeError","message":"down","stack":"RuntimeError: down\n"}', '{}', NULL, NULL, NULL);
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd67-b6e0-7000-9c96-956784135206', 'frail', 'frail', 0, 'dead', 1893500172000000, 1893500172000000, NULL, 1893500172000000, 1893500175000000, 1, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL, 'RuntimeError: down', NULL, '{"fp":"e847bfc818"}', '{"type":"RuntimeError","message":"down","stack":"RuntimeError: down\n"}', '{}', NULL, NULL, NULL);
INSERT INTO golden.mainspring_finished_20300101 VALUES ('01b8dd67-d620-7006-9c96-956784135206', 'last', 'ship', 0, 'completed', 1893500180000000, 1893500180000000, NULL, 1893500180000000, 1893500183000000, 1, 0, 1, 'dedabd40ccb85b3b', 'host-4', NULL, NULL, NULL, NULL, NULL, NULL, '{"fp":"dae6923131"}', NULL, '{"order":30}', '{"shipped":30}', NULL, 'completed');
INSERT INTO golden.mainspring_jobs VALUES ('01af4b6f-9000-7000-8000-00000000abcd', 'mail', 'send', 0, 'pending', 1893492000000000, 1893492000000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"fp":"4a37f37639"}', NULL, '{"to":"posted"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dcf4-2cc0-7004-9c96-956784135206', 'mail', 'send', 0, 'pending', 1893492600000000, 1893492600000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'schedule:parallel:1893492600000000000', 'parallel', NULL, NULL, '{"schedule":"parallel","scheduled_at":"2030-01-01T10:10:00Z","fp":"4a37f37639"}', NULL, '{"to":"all"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dcf4-2cc0-7005-9c96-956784135206', 'mail', 'send', 0, 'pending', 1893492600000000, 1893492600000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'schedule:skipping:1893492600000000000', 'skipping', NULL, NULL, '{"schedule":"skipping","scheduled_at":"2030-01-01T10:10:00Z","fp":"4a37f37639"}', NULL, '{"to":"few"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dcf4-2cc0-7006-9c96-956784135206', 'mail', 'send', 0, 'pending', 1893492600000000, 1893492600000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'schedule:spoiled:1893492600000000000', 'spoiled', NULL, NULL, '{"schedule":"spoiled","scheduled_at":"2030-01-01T10:10:00Z","fp":"4a37f37639"}', NULL, '{"to":"nobody"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dcf4-2cc0-7008-9c96-956784135206', 'dead', 'bury', 0, 'pending', 1893492600000000, 1893492600000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"metadata":{"dead_letter_of":"01b8dceb-0500-702a-9c96-956784135206"},"fp":"88db0ca915"}', NULL, '{"letter":{"job_id":"01b8dceb-0500-702a-9c96-956784135206","task":"doom","queue":"orders","arguments":{"why":"bad input"},"failure":{"type":"Discard","message":"bad input"},"attempts":1,"crashes":0,"created_at":"2030-01-01T10:00:00Z","died_at":"2030-01-01T10:10:00Z","tags":["vip"],"metadata":{"n":1}}}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dcf4-2cc0-7009-9c96-956784135206', 'webhooks', 'mainspring.webhook', 0, 'pending', 1893492600000000, 1893492600000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'webhook:ops:schedule.missed:adaptive:1:1893492600000000', NULL, NULL, NULL, '{}', NULL, '{"webhook":"ops","type":"schedule.missed","timestamp":"2030-01-01T10:10:00Z","data":{"schedule":"adaptive","tick":{"n":1,"at":"2030-01-01T10:05:00Z","seen_at":"2030-01-01T10:10:00Z","what":"missed","reason":"catch_up"}}}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dcfd-5480-7006-9c96-956784135206', 'mail', 'send', 0, 'pending', 1893493200000000, 1893493200000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'schedule:parallel:1893493200000000000', 'parallel', NULL, NULL, '{"schedule":"parallel","scheduled_at":"2030-01-01T10:20:00Z","fp":"4a37f37639"}', NULL, '{"to":"all"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dcfd-5480-7007-9c96-956784135206', 'webhooks', 'mainspring.webhook', 0, 'pending', 1893493200000000, 1893493200000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'webhook:ops:schedule.missed:adaptive:3:1893493200000000', NULL, NULL, NULL, '{}', NULL, '{"webhook":"ops","type":"schedule.missed","timestamp":"2030-01-01T10:20:00Z","data":{"schedule":"adaptive","tick":{"n":3,"at":"2030-01-01T10:15:00Z","seen_at":"2030-01-01T10:20:00Z","what":"missed","reason":"catch_up"}}}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd2b-1b40-7004-9c96-956784135206', 'mail', 'send', 0, 'pending', 1893496200000000, 1893496200000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'schedule:parallel:1893496200000000000', 'parallel', NULL, NULL, '{"schedule":"parallel","scheduled_at":"2030-01-01T11:10:00Z","fp":"4a37f37639"}', NULL, '{"to":"all"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd2b-1b40-7009-9c96-956784135206', 'webhooks', 'mainspring.webhook', 0, 'pending', 1893496200000000, 1893496200000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'webhook:ops:schedule.missed:adaptive:5:1893496200000000', NULL, NULL, NULL, '{}', NULL, '{"webhook":"ops","type":"schedule.missed","timestamp":"2030-01-01T11:10:00Z","data":{"schedule":"adaptive","tick":{"n":5,"at":"2030-01-01T10:30:00Z","seen_at":"2030-01-01T11:10:00Z","what":"missed","reason":"catch_up","count":4,"last_at":"2030-01-01T11:00:00Z"}}}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd2b-1b40-700a-9c96-956784135206', 'webhooks', 'mainspring.webhook', 0, 'pending', 1893496200000000, 1893496200000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'webhook:ops:schedule.missed:cancelling:1:1893496200000000', NULL, NULL, NULL, '{}', NULL, '{"webhook":"ops","type":"schedule.missed","timestamp":"2030-01-01T11:10:00Z","data":{"schedule":"cancelling","tick":{"n":1,"at":"2030-01-01T10:30:00Z","seen_at":"2030-01-01T11:10:00Z","what":"missed","reason":"catch_up"}}}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd2b-1b40-700b-9c96-956784135206', 'webhooks', 'mainspring.webhook', 0, 'pending', 1893496200000000, 1893496200000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'webhook:ops:schedule.missed:computed:3:1893496200000000', NULL, NULL, NULL, '{}', NULL, '{"webhook":"ops","type":"schedule.missed","timestamp":"2030-01-01T11:10:00Z","data":{"schedule":"computed","tick":{"n":3,"at":"2030-01-01T10:30:00Z","seen_at":"2030-01-01T11:10:00Z","what":"missed","reason":"catch_up","count":4,"last_at":"2030-01-01T11:00:00Z"}}}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd2b-1b40-700c-9c96-956784135206', 'webhooks', 'mainspring.webhook', 0, 'pending', 1893496200000000, 1893496200000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'webhook:ops:schedule.missed:dependent:1:1893496200000000', NULL, NULL, NULL, '{}', NULL, '{"webhook":"ops","type":"schedule.missed","timestamp":"2030-01-01T11:10:00Z","data":{"schedule":"dependent","tick":{"n":1,"at":"2030-01-01T10:30:00Z","seen_at":"2030-01-01T11:10:00Z","what":"missed","reason":"catch_up"}}}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd2b-1b40-700d-9c96-956784135206', 'webhooks', 'mainspring.webhook', 0, 'pending', 1893496200000000, 1893496200000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'webhook:ops:schedule.missed:interval:3:1893496200000000', NULL, NULL, NULL, '{}', NULL, '{"webhook":"ops","type":"schedule.missed","timestamp":"2030-01-01T11:10:00Z","data":{"schedule":"interval","tick":{"n":3,"at":"2030-01-01T10:30:00Z","seen_at":"2030-01-01T11:10:00Z","what":"missed","reason":"catch_up","count":2,"last_at":"2030-01-01T10:45:00Z"}}}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd2b-1b40-700e-9c96-956784135206', 'webhooks', 'mainspring.webhook', 0, 'pending', 1893496200000000, 1893496200000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'webhook:ops:schedule.missed:parallel:3:1893496200000000', NULL, NULL, NULL, '{}', NULL, '{"webhook":"ops","type":"schedule.missed","timestamp":"2030-01-01T11:10:00Z","data":{"schedule":"parallel","tick":{"n":3,"at":"2030-01-01T10:30:00Z","seen_at":"2030-01-01T11:10:00Z","what":"missed","reason":"catch_up","count":4,"last_at":"2030-01-01T11:00:00Z"}}}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd2b-1b40-700f-9c96-956784135206', 'webhooks', 'mainspring.webhook', 0, 'pending', 1893496200000000, 1893496200000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'webhook:ops:schedule.missed:skipping:3:1893496200000000', NULL, NULL, NULL, '{}', NULL, '{"webhook":"ops","type":"schedule.missed","timestamp":"2030-01-01T11:10:00Z","data":{"schedule":"skipping","tick":{"n":3,"at":"2030-01-01T10:30:00Z","seen_at":"2030-01-01T11:10:00Z","what":"missed","reason":"catch_up","count":4,"last_at":"2030-01-01T11:00:00Z"}}}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd2b-1b40-7010-9c96-956784135206', 'webhooks', 'mainspring.webhook', 0, 'pending', 1893496200000000, 1893496200000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'webhook:ops:schedule.missed:spoiled:3:1893496200000000', NULL, NULL, NULL, '{}', NULL, '{"webhook":"ops","type":"schedule.missed","timestamp":"2030-01-01T11:10:00Z","data":{"schedule":"spoiled","tick":{"n":3,"at":"2030-01-01T10:30:00Z","seen_at":"2030-01-01T11:10:00Z","what":"missed","reason":"catch_up","count":4,"last_at":"2030-01-01T11:00:00Z"}}}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd46-9280-7004-9c96-956784135206', 'mail', 'send', 0, 'pending', 1893498000000000, 1893498000000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'schedule:parallel:1893498000000000000', 'parallel', NULL, NULL, '{"schedule":"parallel","scheduled_at":"2030-01-01T11:40:00Z","fp":"4a37f37639"}', NULL, '{"to":"all"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd46-9280-7007-9c96-956784135206', 'mail', 'send', 0, 'pending', 1893498000000000, 1893498000000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'schedule:cancelling:1893497400000000000', 'cancelling', NULL, NULL, '{"schedule":"cancelling","scheduled_at":"2030-01-01T11:30:00Z","fp":"4a37f37639"}', NULL, '{"to":"new"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd46-9280-7008-9c96-956784135206', 'webhooks', 'mainspring.webhook', 0, 'pending', 1893498000000000, 1893498000000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'webhook:ops:schedule.missed:interval:5:1893498000000000', NULL, NULL, NULL, '{}', NULL, '{"webhook":"ops","type":"schedule.missed","timestamp":"2030-01-01T11:40:00Z","data":{"schedule":"interval","tick":{"n":5,"at":"2030-01-01T11:15:00Z","seen_at":"2030-01-01T11:40:00Z","what":"missed","reason":"catch_up"}}}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd46-9280-7009-9c96-956784135206', 'webhooks', 'mainspring.webhook', 0, 'pending', 1893498000000000, 1893498000000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'webhook:ops:schedule.missed:computed:5:1893498000000000', NULL, NULL, NULL, '{}', NULL, '{"webhook":"ops","type":"schedule.missed","timestamp":"2030-01-01T11:40:00Z","data":{"schedule":"computed","tick":{"n":5,"at":"2030-01-01T11:20:00Z","seen_at":"2030-01-01T11:40:00Z","what":"missed","reason":"catch_up","count":2,"last_at":"2030-01-01T11:30:00Z"}}}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd46-9280-700a-9c96-956784135206', 'webhooks', 'mainspring.webhook', 0, 'pending', 1893498000000000, 1893498000000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'webhook:ops:schedule.missed:parallel:5:1893498000000000', NULL, NULL, NULL, '{}', NULL, '{"webhook":"ops","type":"schedule.missed","timestamp":"2030-01-01T11:40:00Z","data":{"schedule":"parallel","tick":{"n":5,"at":"2030-01-01T11:20:00Z","seen_at":"2030-01-01T11:40:00Z","what":"missed","reason":"catch_up","count":2,"last_at":"2030-01-01T11:30:00Z"}}}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd46-9280-700b-9c96-956784135206', 'webhooks', 'mainspring.webhook', 0, 'pending', 1893498000000000, 1893498000000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'webhook:ops:schedule.missed:skipping:5:1893498000000000', NULL, NULL, NULL, '{}', NULL, '{"webhook":"ops","type":"schedule.missed","timestamp":"2030-01-01T11:40:00Z","data":{"schedule":"skipping","tick":{"n":5,"at":"2030-01-01T11:20:00Z","seen_at":"2030-01-01T11:40:00Z","what":"missed","reason":"catch_up","count":2,"last_at":"2030-01-01T11:30:00Z"}}}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd46-9280-700c-9c96-956784135206', 'webhooks', 'mainspring.webhook', 0, 'pending', 1893498000000000, 1893498000000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'webhook:ops:schedule.missed:spoiled:5:1893498000000000', NULL, NULL, NULL, '{}', NULL, '{"webhook":"ops","type":"schedule.missed","timestamp":"2030-01-01T11:40:00Z","data":{"schedule":"spoiled","tick":{"n":5,"at":"2030-01-01T11:20:00Z","seen_at":"2030-01-01T11:40:00Z","what":"missed","reason":"catch_up","count":2,"last_at":"2030-01-01T11:30:00Z"}}}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd46-9280-7010-9c96-956784135206', 'orders', 'ship', 0, 'pending', 1893498000000000, 1893498000000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'schedule:interval:hand-01b8dd46-9280-7010-9c96-956784135206', 'interval', NULL, NULL, '{"schedule":"interval","scheduled_at":"2030-01-01T11:40:00Z","fp":"dae6923131"}', NULL, '{"order":4}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd46-9280-7012-9c96-956784135206', 'reports', 'report', 0, 'pending', 1893498000000000, 1893498000000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'schedule:anchored:1893241200000000000', 'anchored', NULL, NULL, '{"schedule":"anchored","scheduled_at":"2029-12-29T12:20:00Z","beside":true,"fp":"c3b8c56b75"}', NULL, '{}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd46-9280-7013-9c96-956784135206', 'reports', 'report', 0, 'pending', 1893498000000000, 1893498000000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'schedule:anchored:1893243000000000000', 'anchored', NULL, NULL, '{"schedule":"anchored","scheduled_at":"2029-12-29T12:50:00Z","beside":true,"fp":"c3b8c56b75"}', NULL, '{}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd58-e200-7000-9c96-956784135206', 'orders', 'ship', -5, 'pending', 1893499200000000, 1893499200000000, 1893502800000000, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, 'order-1', NULL, NULL, NULL, '{vip,eu}', '{"timeout":30.0,"max_retries":7,"backoff":{"initial":2.0,"multiplier":3.0,"max":60.0,"jitter":0.1,"curve":"linear"},"tags":["vip","eu"],"metadata":{"source":"web","n":1},"fp":"dae6923131"}', NULL, '{"order":1}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd58-e200-7001-9c96-956784135206', 'mail', 'send', 0, 'pending', 1893506400000000, 1893499200000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'late', NULL, NULL, NULL, '{"timeout":null,"fp":"4a37f37639"}', NULL, '{"to":"late"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd58-e200-7002-9c96-956784135206', 'mail', 'send', 0, 'pending', 1893499260000000, 1893499200000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, 'digest', NULL, NULL, NULL, NULL, '{"fp":"4a37f37639"}', NULL, '{"to":"second"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd58-e200-7004-9c96-956784135206', 'mail', 'send', 0, 'pending', 1893499200000000, 1893499200000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"fp":"4a37f37639"}', NULL, '{"to":"by hand"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd58-e200-7006-9c96-956784135206', 'mail', 'send', 0, 'paused', 1893499200000000, 1893499200000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"fp":"4a37f37639"}', NULL, '{"to":"held back"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd58-e9d0-7002-9c96-956784135206', 'mail', 'send', 0, 'pending', 1893499202000000, 1893499202000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{}', NULL, '{"to":"odd"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd59-0cf8-7000-9c96-956784135206', 'retried', 'send', 0, 'pending', 1893499214764399, 1893499211000000, NULL, 1893499211000000, NULL, 1, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL, 'PaymentError: card … declined by …', NULL, '{"fp":"4a37f37639"}', '{"type":"PaymentError","message":"card 4711 declined by ''bank''","stack":"Traceback (most recent call last):\n  shop.py\n"}', '{"to":"retry"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd59-3bd8-7000-9c96-956784135206', 'runs', 'send', 0, 'pending', 1893499556000000, 1893499223000000, NULL, 1893499223000000, NULL, 0, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL, 'Discard: not worth it', NULL, '{"fp":"4a37f37639"}', '{"type":"Discard","message":"not worth it"}', '{"to":"discard"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd59-5348-7000-9c96-956784135206', 'runs', 'send', 0, 'pending', 1893502832000000, 1893499229000000, NULL, 1893499229000000, NULL, 0, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"fp":"4a37f37639"}', NULL, '{"to":"snooze"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd59-5f00-7000-9c96-956784135206', 'released', 'send', 0, 'pending', 1893499235000000, 1893499232000000, NULL, 1893499232000000, NULL, 0, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"fp":"4a37f37639"}', NULL, '{"to":"released"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd59-6ab8-7000-9c96-956784135206', 'runs', 'send', 0, 'pending', 1893499238998008, 1893499235000000, NULL, 1893499235000000, NULL, 0, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL, 'VersionSkew: the payload does not fit; its arguments (to) were made by version …a…f…, this worker has version ffffffffff', NULL, '{"fp":"4a37f37639"}', '{"type":"VersionSkew","message":"the payload does not fit; its arguments (to) were made by version 4a37f37639, this worker has version ffffffffff (to: int). If no worker can read it by 2030-01-01 13:00:35Z, it is dead","since":"2030-01-01T12:00:35Z"}', '{"to":"skewed"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd59-7670-7000-9c96-956784135206', 'suspects', 'send', 0, 'pending', 1893499241823151, 1893499238000000, NULL, 1893499238000000, NULL, 1, 1, 1, NULL, NULL, NULL, NULL, NULL, NULL, 'ProcessDied: its process ended: killed by SIGKILL', NULL, '{"fp":"4a37f37639"}', '{"type":"ProcessDied","message":"its process ended: killed by SIGKILL"}', '{"to":"process"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd5c-6470-7000-9c96-956784135206', 'suspects', 'send', -2, 'pending', 1893499556000000, 1893499430000000, NULL, 1893499493000000, NULL, 2, 2, 2, NULL, NULL, NULL, NULL, NULL, NULL, 'WorkerLost: worker doomed fell silent while running this job', NULL, '{"fp":"4a37f37639"}', '{"type":"WorkerLost","message":"worker doomed fell silent while running this job"}', '{"to":"suspect"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd5e-50a0-7000-9c96-956784135206', 'running', 'ship', 0, 'running', 1893499556000000, 1893499556000000, NULL, 1893499556000000, NULL, 1, 0, 1, '14584cc2762ba9ce', 'host-1', NULL, NULL, NULL, NULL, NULL, '{vip}', '{"tags":["vip"],"fp":"dae6923131"}', NULL, '{"order":20}', NULL, '{"run":1,"at":"2030-01-01T12:05:56Z","done":2,"total":4.0,"note":"rows"}', DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd5e-50a0-7001-9c96-956784135206', 'running', 'send', 0, 'running', 1893499556000000, 1893499556000000, NULL, 1893499556000000, NULL, 1, 0, 1, '964ee23e7dc3bed9', 'host-1', 'stop it', 'stopping', NULL, NULL, NULL, NULL, '{"fp":"4a37f37639"}', NULL, '{"to":"stopping"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd67-c298-7000-9c96-956784135206', 'fragile', 'fragile', 0, 'running', 1893500175000000, 1893500175000000, NULL, 1893500175000000, NULL, 1, 0, 1, 'd85f0ddfb48c2e17', 'host-1', NULL, NULL, NULL, NULL, NULL, NULL, '{"fp":"e847bfc818"}', NULL, '{}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd67-c298-7001-9c96-956784135206', 'elsewhere', 'send', 2, 'pending', 1893500175000000, 1893500175000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{moved}', '{"tags":["moved"],"metadata":{"by":"ada"},"fp":"4a37f37639"}', NULL, '{"to":"there"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd67-c298-7004-9c96-956784135206', 'runs', 'ship', 0, 'pending', 1893500175000000, 1893500175000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, 'dead-13', NULL, NULL, NULL, '{vip}', '{"tags":["vip"],"metadata":{"n":13},"fp":"dae6923131"}', NULL, '{"order":13}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd67-d620-7003-9c96-956784135206', 'broken', 'send', 0, 'paused', 1893500180000000, 1893500180000000, NULL, 1893500180000000, NULL, 0, 0, 0, 'mainspring.Unreadable', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"timeout":[],"name":[]}', NULL, '{"to":"set aside"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_jobs VALUES ('01b8dd67-d620-7004-9c96-956784135206', 'mail', 'send', 0, 'pending', 1893500180000000, 1893500180000000, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"timeout":[],"name":[]}', NULL, '{"to":"not met yet"}', NULL, NULL, DEFAULT, DEFAULT);
INSERT INTO golden.mainspring_leaders VALUES ('ended', '', 1, 1893500180000000);
INSERT INTO golden.mainspring_leaders VALUES ('mainspring.fire', 'host-2', 1, 1893503780000000);
INSERT INTO golden.mainspring_leaders VALUES ('reindex', 'host-1', 1, 1893503780000000);
INSERT INTO golden.mainspring_leases VALUES ('host-1', '14584cc2762ba9ce', '{01b8dd5e-50a0-7000-9c96-956784135206}');
INSERT INTO golden.mainspring_leases VALUES ('host-1', '964ee23e7dc3bed9', '{01b8dd5e-50a0-7001-9c96-956784135206}');
INSERT INTO golden.mainspring_leases VALUES ('host-1', 'd85f0ddfb48c2e17', '{01b8dd67-c298-7000-9c96-956784135206}');
INSERT INTO golden.mainspring_logs VALUES ('01b8dceb-0500-7013-9c96-956784135206', 1, 1, 1893492600000000, 20, 'ships order 77');
INSERT INTO golden.mainspring_logs VALUES ('01b8dcf4-2cc0-7000-9c96-956784135206', 1, 1, 1893492600000000, 20, 'ships order 1');
INSERT INTO golden.mainspring_logs VALUES ('01b8dcfd-5480-7001-9c96-956784135206', 1, 1, 1893493200000000, 20, 'ships order 1');
INSERT INTO golden.mainspring_logs VALUES ('01b8dcfd-5480-7004-9c96-956784135206', 1, 1, 1893493200000000, 20, 'ships order 2');
INSERT INTO golden.mainspring_logs VALUES ('01b8dd2b-1b40-7003-9c96-956784135206', 1, 1, 1893496200000000, 20, 'ships order 1');
INSERT INTO golden.mainspring_logs VALUES ('01b8dd2b-1b40-7006-9c96-956784135206', 1, 1, 1893496200000000, 20, 'ships order 2');
INSERT INTO golden.mainspring_logs VALUES ('01b8dd46-9280-7000-9c96-956784135206', 1, 1, 1893498000000000, 20, 'ships order 1');
INSERT INTO golden.mainspring_logs VALUES ('01b8dd46-9280-7006-9c96-956784135206', 1, 1, 1893498000000000, 20, 'ships order 2');
INSERT INTO golden.mainspring_logs VALUES ('01b8dd58-e9d0-7003-9c96-956784135206', 1, 1, 1893499202000000, 30, 'line 1: naïve ''x''');
INSERT INTO golden.mainspring_logs VALUES ('01b8dd5e-50a0-7000-9c96-956784135206', 1, 1, 1893499556000000, 30, 'line 1: naïve ''x''');
INSERT INTO golden.mainspring_logs VALUES ('01b8dd5e-50a0-7000-9c96-956784135206', 1, 2, 1893499556000000, 20, 'line 2: naïve ''x''');
INSERT INTO golden.mainspring_marks VALUES ('promised', 10002);
INSERT INTO golden.mainspring_marks VALUES ('watched', 1893503780000000);
INSERT INTO golden.mainspring_news VALUES (1, '{"type":"job.retrying","at":"2030-01-01T12:16:20Z","job":{"id":"01af4b6f-9000-7000-8000-00000000abcd","task":"send","queue":"mail","state":"retrying","attempt":1,"run_at":"2030-01-01T12:16:20Z","worker":"host-1","schedule":"once"},"status":"new","ending":"failed","outcome":"partial","duration":1.5,"error":{"type":"PaymentError","message":"card 4711 declined by ''bank''","stack":"Traceback (most recent call last):\n  shop.py\n"},"progress":{"run":1,"at":"2030-01-01T12:16:20Z","done":1,"total":2,"note":"rows"},"line":{"run":1,"n":1,"at":"2030-01-01T12:16:20Z","level":20,"text":"line"},"left_out":2,"action":"cancel","ids":["01af4b6f-9000-7000-8000-00000000abcd"],"schedule":"once","schedules":["once"],"tick":{"n":1,"at":"2030-01-01T12:16:20Z","seen_at":"2030-01-01T12:16:20Z","what":"fired"},"queue":"mail","worker":"host-1","workers":["host-1"],"running":1,"grace":30.0,"leader":{"name":"reindex","holder":"host-1","term":1,"leading":true},"count":3,"reason":"because"}');
INSERT INTO golden.mainspring_news VALUES (2, '{"type":"queue.paused","at":"2030-01-01T12:16:20Z","queue":"mail"}');
INSERT INTO golden.mainspring_queues VALUES ('mail', true);
INSERT INTO golden.mainspring_queues VALUES ('sync', false);
INSERT INTO golden.mainspring_schedules VALUES ('adaptive', 9, 1893499800000000, false, NULL, '{"name":"adaptive","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":300,"anchor":null},"task":"report","payload":"{}","fingerprint":"c3b8c56b75","queue":"reports","adapt":3600.0},"revision":9,"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T11:30:00Z","next_run_at":"2030-01-01T12:10:00Z","due_at":"2030-01-01T12:10:00Z","reached_at":"2030-01-01T11:30:00Z","last_run_at":"2030-01-01T11:30:00Z","last_fired_at":"2030-01-01T11:40:00Z","last_job_id":"01b8dd46-9280-7005-9c96-956784135206","last_outcome":"completed","last_finished_at":"2030-01-01T11:40:00Z","succeeded_at":"2030-01-01T11:40:00Z","fired":4,"missed":6,"completed":4,"ticks":7,"stretch":8,"digest":"3ed93efdd3c95c92"}');
INSERT INTO golden.mainspring_schedules VALUES ('anchored', 8, 1893498600000000, false, NULL, '{"name":"anchored","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":1800,"anchor":"2030-01-01T11:50:00Z"},"task":"report","payload":"{}","fingerprint":"c3b8c56b75","queue":"reports"},"revision":8,"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T11:50:00Z","due_at":"2030-01-01T11:50:00Z","reached_at":"2030-01-01T11:20:00Z","last_run_at":"2030-01-01T11:20:00Z","last_fired_at":"2030-01-01T11:40:00Z","last_job_id":"01b8dd46-9280-7013-9c96-956784135206","last_outcome":"completed","last_finished_at":"2030-01-01T11:40:00Z","succeeded_at":"2030-01-01T11:40:00Z","fired":3,"completed":3,"ticks":5}');
INSERT INTO golden.mainspring_schedules VALUES ('cancelling', 5, 1893499200000000, false, NULL, '{"name":"cancelling","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":1800,"anchor":null},"task":"send","payload":"{\"to\":\"new\"}","fingerprint":"4a37f37639","queue":"mail","overlap":"cancel"},"revision":5,"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T12:00:00Z","due_at":"2030-01-01T12:00:00Z","active":["01b8dd46-9280-7007-9c96-956784135206"],"reached_at":"2030-01-01T11:30:00Z","last_run_at":"2030-01-01T11:30:00Z","last_fired_at":"2030-01-01T11:40:00Z","last_job_id":"01b8dd46-9280-7007-9c96-956784135206","last_outcome":"cancelled","last_finished_at":"2030-01-01T11:40:00Z","fired":2,"missed":1,"ticks":3}');
INSERT INTO golden.mainspring_schedules VALUES ('chained', 7, 1893499200000000, false, NULL, '{"name":"chained","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":1200,"anchor":null},"task":"ship","payload":"{\"order\":2}","fingerprint":"dae6923131","queue":"orders","after":"finish"},"revision":7,"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T11:40:00Z","next_run_at":"2030-01-01T12:00:00Z","due_at":"2030-01-01T12:00:00Z","reached_at":"2030-01-01T11:30:00Z","last_run_at":"2030-01-01T11:30:00Z","last_fired_at":"2030-01-01T11:40:00Z","last_job_id":"01b8dd46-9280-7006-9c96-956784135206","last_outcome":"completed","last_finished_at":"2030-01-01T11:40:00Z","succeeded_at":"2030-01-01T11:40:00Z","fired":3,"completed":3,"ticks":3}');
INSERT INTO golden.mainspring_schedules VALUES ('computed', 9, 1893498600000000, true, NULL, '{"name":"computed","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":600,"anchor":null},"task":"report","payload":"{}","computed":true,"queue":"reports"},"owner":"code","revision":9,"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","declared":"0404dd17b4e958033c13b893edf0ac9d","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T11:50:00Z","due_at":"2030-01-01T11:50:00Z","reached_at":"2030-01-01T11:40:00Z","last_run_at":"2030-01-01T11:40:00Z","last_fired_at":"2030-01-01T11:40:00Z","last_job_id":"01b8dd46-9280-7003-9c96-956784135206","last_outcome":"completed","last_finished_at":"2030-01-01T11:40:00Z","succeeded_at":"2030-01-01T11:40:00Z","fired":4,"missed":6,"completed":4,"ticks":6}');
INSERT INTO golden.mainspring_schedules VALUES ('crafted', 1, NULL, false, 'once', '{"name":"crafted","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":600,"anchor":null},"task":"report","payload":"{\"kind\":\"crafted\"}","fingerprint":"0123456789","queue":"reports","adapt":3600.0},"owner":"code","created_at":"2030-01-01T09:30:00Z","updated_at":"2030-01-01T12:00:00Z","declared":"0000000000000000","anchor_at":"2030-01-01T09:30:00Z","next_run_at":"2030-01-01T12:10:00Z","held_at":"2030-01-01T11:59:00Z","waits_on":"once","active":["01af4b6f-9000-7000-8000-00000000dead"],"unlisted":2,"paused_at":"2030-01-01T12:00:00Z","note":"crafted","reached_at":"2030-01-01T11:59:00Z","last_run_at":"2030-01-01T11:50:00Z","last_fired_at":"2030-01-01T11:50:10Z","last_job_id":"01af4b6f-9000-7000-8000-00000000dead","last_finished_at":"2030-01-01T11:51:40Z","succeeded_at":"2030-01-01T11:51:40Z","answered":{"once":"2030-01-01T11:48:20Z"},"fired":9,"skipped":8,"missed":7,"completed":6,"failed":5,"failures":4,"ticks":2,"stretch":3,"digest":"abababababababab","moved_at":"2030-01-01T09:30:00Z"}');
INSERT INTO golden.mainspring_schedules VALUES ('daily', 1, 1893650400000000, false, NULL, '{"name":"daily","spec":{"trigger":{"kind":"calendar","tz":"UTC","days":2,"weeks":0,"weekdays":[],"times":["06:00"],"anchor":null},"task":"report","payload":"{}","fingerprint":"c3b8c56b75","queue":"reports"},"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-03T06:00:00Z","due_at":"2030-01-03T06:00:00Z"}');
INSERT INTO golden.mainspring_schedules VALUES ('dependent', 3, 1893499200000000, false, 'once', '{"name":"dependent","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":1800,"anchor":null},"task":"report","payload":"{}","fingerprint":"c3b8c56b75","queue":"reports","depends_on":["once","interval"]},"revision":3,"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T12:00:00Z","due_at":"2030-01-01T12:00:00Z","held_at":"2030-01-01T11:30:00Z","waits_on":"once","reached_at":"2030-01-01T11:30:00Z","skipped":1,"missed":1,"ticks":2}');
INSERT INTO golden.mainspring_schedules VALUES ('edited', 2, 1893499200000000, false, NULL, '{"name":"edited","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":7200,"anchor":null},"task":"report","payload":"{\"kind\":\"edited\"}","fingerprint":"c3b8c56b75","queue":"reports"},"revision":2,"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T12:00:00Z","due_at":"2030-01-01T12:00:00Z","reached_at":"2030-01-01T10:00:00Z"}');
INSERT INTO golden.mainspring_schedules VALUES ('fortnight', 1, 1894608000000000, false, NULL, '{"name":"fortnight","spec":{"trigger":{"kind":"calendar","tz":"Europe/Berlin","days":0,"weeks":2,"weekdays":[0,4],"times":["09:00","17:30"],"anchor":"2029-12-31"},"task":"report","payload":"{\"kind\":\"fortnightly\"}","fingerprint":"c3b8c56b75","queue":"reports","exclude":["2030-01-04"]},"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-14T08:00:00Z","due_at":"2030-01-14T08:00:00Z"}');
INSERT INTO golden.mainspring_schedules VALUES ('interval', 10, 1893498300000000, false, NULL, '{"name":"interval","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":900,"anchor":null},"task":"ship","payload":"{\"order\":1}","fingerprint":"dae6923131","queue":"orders","overlap":"queue","run_on_start":true},"revision":10,"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T11:45:00Z","due_at":"2030-01-01T11:45:00Z","active":["01b8dd46-9280-7010-9c96-956784135206"],"reached_at":"2030-01-01T11:30:00Z","last_run_at":"2030-01-01T11:30:00Z","last_fired_at":"2030-01-01T11:40:00Z","last_job_id":"01b8dd46-9280-7010-9c96-956784135206","last_outcome":"completed","last_finished_at":"2030-01-01T11:40:00Z","succeeded_at":"2030-01-01T11:40:00Z","fired":4,"missed":3,"completed":4,"ticks":7}');
INSERT INTO golden.mainspring_schedules VALUES ('nightly', 1, 1893547800000000, false, NULL, '{"name":"nightly","spec":{"trigger":{"kind":"cron","tz":"Europe/Berlin","expr":"30 2 * * mon-fri","day_match":"or","name":""},"task":"report","payload":"{\"kind\":\"nightly\"}","fingerprint":"c3b8c56b75","queue":"reports"},"owner":"code","created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","declared":"2ff8060a58762cd38116654a64eadc32","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-02T01:30:00Z","due_at":"2030-01-02T01:30:00Z"}');
INSERT INTO golden.mainspring_schedules VALUES ('once', 1, 1896163200000000, false, NULL, '{"name":"once","spec":{"trigger":{"kind":"at","tz":"Europe/Berlin","when":"2030-02-01T09:00:00"},"task":"send","payload":"{\"to\":\"ada\"}","fingerprint":"4a37f37639","queue":"mail"},"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-02-01T08:00:00Z","due_at":"2030-02-01T08:00:00Z"}');
INSERT INTO golden.mainspring_schedules VALUES ('parallel', 5, 1893498600000000, false, NULL, '{"name":"parallel","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":600,"anchor":null},"task":"send","payload":"{\"to\":\"all\"}","fingerprint":"4a37f37639","queue":"mail","overlap":"allow"},"revision":5,"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T11:50:00Z","due_at":"2030-01-01T11:50:00Z","active":["01b8dcf4-2cc0-7004-9c96-956784135206","01b8dcfd-5480-7006-9c96-956784135206","01b8dd2b-1b40-7004-9c96-956784135206","01b8dd46-9280-7004-9c96-956784135206"],"reached_at":"2030-01-01T11:40:00Z","last_run_at":"2030-01-01T11:40:00Z","last_fired_at":"2030-01-01T11:40:00Z","last_job_id":"01b8dd46-9280-7004-9c96-956784135206","fired":4,"missed":6,"ticks":6}');
INSERT INTO golden.mainspring_schedules VALUES ('patient', 2, 1893506400000000, false, NULL, '{"name":"patient","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":21600,"anchor":null},"task":"ship","payload":"{\"order\":3}","fingerprint":"dae6923131","queue":"orders","backoff":{"initial":2.0,"multiplier":3.0,"max":60.0,"jitter":0.1,"curve":"linear"}},"revision":2,"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T11:40:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T14:00:00Z","due_at":"2030-01-01T14:00:00Z","reached_at":"2030-01-01T11:40:00Z"}');
INSERT INTO golden.mainspring_schedules VALUES ('paused', 2, NULL, false, NULL, '{"name":"paused","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":3600,"anchor":null},"task":"report","payload":"{}","fingerprint":"c3b8c56b75","queue":"reports"},"revision":2,"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T11:00:00Z","paused_at":"2030-01-01T10:00:00Z","note":"until the audit is over"}');
INSERT INTO golden.mainspring_schedules VALUES ('policies', 11, 1893499046313000, false, NULL, '{"name":"policies","spec":{"trigger":{"kind":"cron","tz":"UTC","expr":"H/20 * 1-31 * mon-fri","day_match":"and","name":""},"task":"report","payload":"{}","fingerprint":"c3b8c56b75","queue":"reports","priority":3,"timeout":30.0,"max_retries":1,"expires":600.0,"tags":["eu"],"metadata":{"team":"ops"},"catch_up":"all","catch_up_window":7200.0,"grace":120.0,"jitter":30.0,"window":{"opens":"08:00","closes":"18:00","days":[0,1,2,3,4],"tz":"UTC","outside":"move"},"start_at":"2030-01-01T10:00:00Z","end_at":"2030-01-31T12:00:00Z","max_runs":500,"pause_after_failures":3},"revision":11,"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T11:57:00Z","due_at":"2030-01-01T11:57:26.313000Z","reached_at":"2030-01-01T11:37:00Z","last_run_at":"2030-01-01T11:37:00Z","last_fired_at":"2030-01-01T11:40:00Z","last_job_id":"01b8dd46-9280-700d-9c96-956784135206","last_outcome":"completed","last_finished_at":"2030-01-01T11:40:00Z","succeeded_at":"2030-01-01T11:40:00Z","fired":5,"completed":5,"ticks":5}');
INSERT INTO golden.mainspring_schedules VALUES ('skipping', 5, 1893498600000000, false, NULL, '{"name":"skipping","spec":{"trigger":{"kind":"every","tz":"UTC","seconds":600,"anchor":null},"task":"send","payload":"{\"to\":\"few\"}","fingerprint":"4a37f37639","queue":"mail","catch_up":"skip"},"revision":5,"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:00:00Z","next_run_at":"2030-01-01T11:50:00Z","due_at":"2030-01-01T11:50:00Z","active":["01b8dcf4-2cc0-7005-9c96-956784135206"],"reached_at":"2030-01-01T11:40:00Z","last_run_at":"2030-01-01T10:10:00Z","last_fired_at":"2030-01-01T10:10:00Z","last_job_id":"01b8dcf4-2cc0-7005-9c96-956784135206","fired":1,"skipped":3,"missed":6,"ticks":6}');
INSERT INTO golden.mainspring_schedules VALUES ('spoiled', 0, NULL, false, NULL, '{"timeout":[],"name":[]}');
INSERT INTO golden.mainspring_schedules VALUES ('spread', 5, 1893499650000000, false, NULL, '{"name":"spread","spec":{"trigger":{"kind":"every","tz":"Asia/Tokyo","seconds":3600,"anchor":null},"task":"report","payload":"{}","fingerprint":"c3b8c56b75","queue":"reports","spread":true},"revision":5,"created_at":"2030-01-01T10:00:00Z","updated_at":"2030-01-01T10:00:00Z","anchor_at":"2030-01-01T10:07:30Z","next_run_at":"2030-01-01T12:07:30Z","due_at":"2030-01-01T12:07:30Z","reached_at":"2030-01-01T11:07:30Z","last_run_at":"2030-01-01T11:07:30Z","last_fired_at":"2030-01-01T11:10:00Z","last_job_id":"01b8dd2b-1b40-7008-9c96-956784135206","last_outcome":"completed","last_finished_at":"2030-01-01T11:10:00Z","succeeded_at":"2030-01-01T11:10:00Z","fired":2,"completed":2,"ticks":2}');
INSERT INTO golden.mainspring_schema VALUES (4, 1);
INSERT INTO golden.mainspring_tallies VALUES ('day', 1893456000000000, 'fragile', 'fragile', '{"endings":{"failed":3},"took":9000000,"spread":{"89":3},"errors":{"RuntimeError: down":3},"last":1893499565000000,"fates":{"dead":3},"waits":{"0":3},"lines":{"RuntimeError: down":[1893499565000000,"RuntimeError: down"]},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('day', 1893456000000000, 'frail', 'frail', '{"endings":{"failed":3},"took":9000000,"spread":{"89":3},"errors":{"RuntimeError: down":3},"last":1893500175000000,"fates":{"dead":3},"waits":{"0":3},"lines":{"RuntimeError: down":[1893500175000000,"RuntimeError: down"]},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('day', 1893456000000000, 'orders', 'doom', '{"endings":{"discarded":1},"spread":{"0":1},"errors":{"Discard: bad input":1},"last":1893492600000000,"fates":{"dead":1},"waits":{"120":1},"waited":600000000,"lines":{"Discard: bad input":[1893492600000000,"Discard: bad input"]},"took_ends":[0,0],"wait_ends":[600000000,600000000]}');
INSERT INTO golden.mainspring_tallies VALUES ('day', 1893456000000000, 'orders', 'ship', '{"endings":{"completed":8},"spread":{"0":8},"last":1893498000000000,"well":1893498000000000,"waits":{"120":1,"0":7},"waited":600000000,"took_ends":[0,0],"wait_ends":[0,600000000]}');
INSERT INTO golden.mainspring_tallies VALUES ('day', 1893456000000000, 'reports', 'report', '{"endings":{"completed":18},"spread":{"0":18},"last":1893498000000000,"well":1893498000000000,"waits":{"0":18},"took_ends":[0,0],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('day', 1893456000000000, 'retried', 'send', '{"endings":{"failed":1},"took":3000000,"spread":{"89":1},"errors":{"PaymentError: card … declined by …":1},"last":1893499214000000,"fates":{"pending":1},"items":{"success":5,"failed":1,"skipped":2},"waits":{"0":1},"lines":{"PaymentError: card … declined by …":[1893499214000000,"PaymentError: card 4711 declined by ''bank''"]},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('day', 1893456000000000, 'runs', 'send', '{"endings":{"timeout":1,"discarded":1,"cancelled":1},"took":9000000,"spread":{"89":3},"errors":{"JobTimeout: it took longer than … seconds":1,"Discard: not worth it":1},"last":1893499229000000,"fates":{"dead":2},"waits":{"0":3},"lines":{"JobTimeout: it took longer than … seconds":[1893499223000000,"JobTimeout: it took longer than 30 seconds"],"Discard: not worth it":[1893499226000000,"Discard: not worth it"]},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('day', 1893456000000000, 'runs', 'ship', '{"endings":{"completed":2,"failed":2},"took":12000000,"spread":{"89":4},"errors":{"ResultLost: the result could not be kept: …":1,"PaymentError: card … declined by …":2},"last":1893499220000000,"well":1893499211000000,"fates":{"dead":2},"waits":{"0":4},"lines":{"ResultLost: the result could not be kept: …":[1893499211000000,"ResultLost: the result could not be kept: …"],"PaymentError: card … declined by …":[1893499220000000,"PaymentError: card 4711 declined by ''bank''"]},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('day', 1893456000000000, 'runs', 'sync', '{"endings":{"partial":1},"took":3000000,"spread":{"89":1},"last":1893499208000000,"well":1893499208000000,"items":{"success":5,"failed":1,"skipped":2},"waits":{"0":1},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('day', 1893456000000000, 'suspects', 'send', '{"endings":{"crashed":6},"took":318000000,"spread":{"89":1,"107":5},"errors":{"ProcessDied: its process ended: killed by SIGKILL":1,"WorkerLost: worker doomed fell silent while running this job":4,"PoisonPill: worker doomed fell silent while running this job; crash … of … allowed":1},"last":1893499556000000,"fates":{"pending":5,"dead":1},"waits":{"0":6},"lines":{"ProcessDied: its process ended: killed by SIGKILL":[1893499241000000,"ProcessDied: its process ended: killed by SIGKILL"],"WorkerLost: worker doomed fell silent while running this job":[1893499556000000,"WorkerLost: worker doomed fell silent while running this job"],"PoisonPill: worker doomed fell silent while running this job; crash … of … allowed":[1893499430000000,"PoisonPill: worker doomed fell silent while running this job; crash 3 of 3 allowed"]},"took_ends":[3000000,63000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('ever', 0, 'fragile', 'fragile', '{"endings":{"failed":3},"took":9000000,"spread":{"89":3},"errors":{"RuntimeError: down":3},"last":1893499565000000,"fates":{"dead":3},"waits":{"0":3},"lines":{"RuntimeError: down":[1893499565000000,"RuntimeError: down"]},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('ever', 0, 'frail', 'frail', '{"endings":{"failed":3},"took":9000000,"spread":{"89":3},"errors":{"RuntimeError: down":3},"last":1893500175000000,"fates":{"dead":3},"waits":{"0":3},"lines":{"RuntimeError: down":[1893500175000000,"RuntimeError: down"]},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('ever', 0, 'orders', 'doom', '{"endings":{"discarded":1},"spread":{"0":1},"errors":{"Discard: bad input":1},"last":1893492600000000,"fates":{"dead":1},"waits":{"120":1},"waited":600000000,"lines":{"Discard: bad input":[1893492600000000,"Discard: bad input"]},"took_ends":[0,0],"wait_ends":[600000000,600000000]}');
INSERT INTO golden.mainspring_tallies VALUES ('ever', 0, 'orders', 'ship', '{"endings":{"completed":8},"spread":{"0":8},"last":1893498000000000,"well":1893498000000000,"waits":{"120":1,"0":7},"waited":600000000,"took_ends":[0,0],"wait_ends":[0,600000000]}');
INSERT INTO golden.mainspring_tallies VALUES ('ever', 0, 'reports', 'report', '{"endings":{"completed":18},"spread":{"0":18},"last":1893498000000000,"well":1893498000000000,"waits":{"0":18},"took_ends":[0,0],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('ever', 0, 'retried', 'send', '{"endings":{"failed":1},"took":3000000,"spread":{"89":1},"errors":{"PaymentError: card … declined by …":1},"last":1893499214000000,"fates":{"pending":1},"items":{"success":5,"failed":1,"skipped":2},"waits":{"0":1},"lines":{"PaymentError: card … declined by …":[1893499214000000,"PaymentError: card 4711 declined by ''bank''"]},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('ever', 0, 'runs', 'send', '{"endings":{"timeout":1,"discarded":1,"cancelled":1},"took":9000000,"spread":{"89":3},"errors":{"JobTimeout: it took longer than … seconds":1,"Discard: not worth it":1},"last":1893499229000000,"fates":{"dead":2},"waits":{"0":3},"lines":{"JobTimeout: it took longer than … seconds":[1893499223000000,"JobTimeout: it took longer than 30 seconds"],"Discard: not worth it":[1893499226000000,"Discard: not worth it"]},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('ever', 0, 'runs', 'ship', '{"endings":{"completed":2,"failed":2},"took":12000000,"spread":{"89":4},"errors":{"ResultLost: the result could not be kept: …":1,"PaymentError: card … declined by …":2},"last":1893499220000000,"well":1893499211000000,"fates":{"dead":2},"waits":{"0":4},"lines":{"ResultLost: the result could not be kept: …":[1893499211000000,"ResultLost: the result could not be kept: …"],"PaymentError: card … declined by …":[1893499220000000,"PaymentError: card 4711 declined by ''bank''"]},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('ever', 0, 'runs', 'sync', '{"endings":{"partial":1},"took":3000000,"spread":{"89":1},"last":1893499208000000,"well":1893499208000000,"items":{"success":5,"failed":1,"skipped":2},"waits":{"0":1},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('ever', 0, 'suspects', 'send', '{"endings":{"crashed":6},"took":318000000,"spread":{"89":1,"107":5},"errors":{"ProcessDied: its process ended: killed by SIGKILL":1,"WorkerLost: worker doomed fell silent while running this job":4,"PoisonPill: worker doomed fell silent while running this job; crash … of … allowed":1},"last":1893499556000000,"fates":{"pending":5,"dead":1},"waits":{"0":6},"lines":{"ProcessDied: its process ended: killed by SIGKILL":[1893499241000000,"ProcessDied: its process ended: killed by SIGKILL"],"WorkerLost: worker doomed fell silent while running this job":[1893499556000000,"WorkerLost: worker doomed fell silent while running this job"],"PoisonPill: worker doomed fell silent while running this job; crash … of … allowed":[1893499430000000,"PoisonPill: worker doomed fell silent while running this job; crash 3 of 3 allowed"]},"took_ends":[3000000,63000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('hour', 1893492000000000, 'orders', 'doom', '{"endings":{"discarded":1},"spread":{"0":1},"errors":{"Discard: bad input":1},"last":1893492600000000,"fates":{"dead":1},"waits":{"120":1},"waited":600000000,"lines":{"Discard: bad input":[1893492600000000,"Discard: bad input"]},"took_ends":[0,0],"wait_ends":[600000000,600000000]}');
INSERT INTO golden.mainspring_tallies VALUES ('hour', 1893492000000000, 'orders', 'ship', '{"endings":{"completed":4},"spread":{"0":4},"last":1893493200000000,"well":1893493200000000,"waits":{"120":1,"0":3},"waited":600000000,"took_ends":[0,0],"wait_ends":[0,600000000]}');
INSERT INTO golden.mainspring_tallies VALUES ('hour', 1893492000000000, 'reports', 'report', '{"endings":{"completed":7},"spread":{"0":7},"last":1893493200000000,"well":1893493200000000,"waits":{"0":7},"took_ends":[0,0],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('hour', 1893495600000000, 'orders', 'ship', '{"endings":{"completed":4},"spread":{"0":4},"last":1893498000000000,"well":1893498000000000,"waits":{"0":4},"took_ends":[0,0],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('hour', 1893495600000000, 'reports', 'report', '{"endings":{"completed":11},"spread":{"0":11},"last":1893498000000000,"well":1893498000000000,"waits":{"0":11},"took_ends":[0,0],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('hour', 1893499200000000, 'fragile', 'fragile', '{"endings":{"failed":3},"took":9000000,"spread":{"89":3},"errors":{"RuntimeError: down":3},"last":1893499565000000,"fates":{"dead":3},"waits":{"0":3},"lines":{"RuntimeError: down":[1893499565000000,"RuntimeError: down"]},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('hour', 1893499200000000, 'frail', 'frail', '{"endings":{"failed":3},"took":9000000,"spread":{"89":3},"errors":{"RuntimeError: down":3},"last":1893500175000000,"fates":{"dead":3},"waits":{"0":3},"lines":{"RuntimeError: down":[1893500175000000,"RuntimeError: down"]},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('hour', 1893499200000000, 'retried', 'send', '{"endings":{"failed":1},"took":3000000,"spread":{"89":1},"errors":{"PaymentError: card … declined by …":1},"last":1893499214000000,"fates":{"pending":1},"items":{"success":5,"failed":1,"skipped":2},"waits":{"0":1},"lines":{"PaymentError: card … declined by …":[1893499214000000,"PaymentError: card 4711 declined by ''bank''"]},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('hour', 1893499200000000, 'runs', 'send', '{"endings":{"timeout":1,"discarded":1,"cancelled":1},"took":9000000,"spread":{"89":3},"errors":{"JobTimeout: it took longer than … seconds":1,"Discard: not worth it":1},"last":1893499229000000,"fates":{"dead":2},"waits":{"0":3},"lines":{"JobTimeout: it took longer than … seconds":[1893499223000000,"JobTimeout: it took longer than 30 seconds"],"Discard: not worth it":[1893499226000000,"Discard: not worth it"]},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('hour', 1893499200000000, 'runs', 'ship', '{"endings":{"completed":2,"failed":2},"took":12000000,"spread":{"89":4},"errors":{"ResultLost: the result could not be kept: …":1,"PaymentError: card … declined by …":2},"last":1893499220000000,"well":1893499211000000,"fates":{"dead":2},"waits":{"0":4},"lines":{"ResultLost: the result could not be kept: …":[1893499211000000,"ResultLost: the result could not be kept: …"],"PaymentError: card … declined by …":[1893499220000000,"PaymentError: card 4711 declined by ''bank''"]},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('hour', 1893499200000000, 'runs', 'sync', '{"endings":{"partial":1},"took":3000000,"spread":{"89":1},"last":1893499208000000,"well":1893499208000000,"items":{"success":5,"failed":1,"skipped":2},"waits":{"0":1},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('hour', 1893499200000000, 'suspects', 'send', '{"endings":{"crashed":6},"took":318000000,"spread":{"89":1,"107":5},"errors":{"ProcessDied: its process ended: killed by SIGKILL":1,"WorkerLost: worker doomed fell silent while running this job":4,"PoisonPill: worker doomed fell silent while running this job; crash … of … allowed":1},"last":1893499556000000,"fates":{"pending":5,"dead":1},"waits":{"0":6},"lines":{"ProcessDied: its process ended: killed by SIGKILL":[1893499241000000,"ProcessDied: its process ended: killed by SIGKILL"],"WorkerLost: worker doomed fell silent while running this job":[1893499556000000,"WorkerLost: worker doomed fell silent while running this job"],"PoisonPill: worker doomed fell silent while running this job; crash … of … allowed":[1893499430000000,"PoisonPill: worker doomed fell silent while running this job; crash 3 of 3 allowed"]},"took_ends":[3000000,63000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('minute', 1893492600000000, 'orders', 'doom', '{"endings":{"discarded":1},"spread":{"0":1},"errors":{"Discard: bad input":1},"last":1893492600000000,"fates":{"dead":1},"waits":{"120":1},"waited":600000000,"lines":{"Discard: bad input":[1893492600000000,"Discard: bad input"]},"took_ends":[0,0],"wait_ends":[600000000,600000000]}');
INSERT INTO golden.mainspring_tallies VALUES ('minute', 1893492600000000, 'orders', 'ship', '{"endings":{"completed":2},"spread":{"0":2},"last":1893492600000000,"well":1893492600000000,"waits":{"120":1,"0":1},"waited":600000000,"took_ends":[0,0],"wait_ends":[0,600000000]}');
INSERT INTO golden.mainspring_tallies VALUES ('minute', 1893492600000000, 'reports', 'report', '{"endings":{"completed":3},"spread":{"0":3},"last":1893492600000000,"well":1893492600000000,"waits":{"0":3},"took_ends":[0,0],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('minute', 1893493200000000, 'orders', 'ship', '{"endings":{"completed":2},"spread":{"0":2},"last":1893493200000000,"well":1893493200000000,"waits":{"0":2},"took_ends":[0,0],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('minute', 1893493200000000, 'reports', 'report', '{"endings":{"completed":4},"spread":{"0":4},"last":1893493200000000,"well":1893493200000000,"waits":{"0":4},"took_ends":[0,0],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('minute', 1893496200000000, 'orders', 'ship', '{"endings":{"completed":2},"spread":{"0":2},"last":1893496200000000,"well":1893496200000000,"waits":{"0":2},"took_ends":[0,0],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('minute', 1893496200000000, 'reports', 'report', '{"endings":{"completed":6},"spread":{"0":6},"last":1893496200000000,"well":1893496200000000,"waits":{"0":6},"took_ends":[0,0],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('minute', 1893498000000000, 'orders', 'ship', '{"endings":{"completed":2},"spread":{"0":2},"last":1893498000000000,"well":1893498000000000,"waits":{"0":2},"took_ends":[0,0],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('minute', 1893498000000000, 'reports', 'report', '{"endings":{"completed":5},"spread":{"0":5},"last":1893498000000000,"well":1893498000000000,"waits":{"0":5},"took_ends":[0,0],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('minute', 1893499200000000, 'retried', 'send', '{"endings":{"failed":1},"took":3000000,"spread":{"89":1},"errors":{"PaymentError: card … declined by …":1},"last":1893499214000000,"fates":{"pending":1},"items":{"success":5,"failed":1,"skipped":2},"waits":{"0":1},"lines":{"PaymentError: card … declined by …":[1893499214000000,"PaymentError: card 4711 declined by ''bank''"]},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('minute', 1893499200000000, 'runs', 'send', '{"endings":{"timeout":1,"discarded":1,"cancelled":1},"took":9000000,"spread":{"89":3},"errors":{"JobTimeout: it took longer than … seconds":1,"Discard: not worth it":1},"last":1893499229000000,"fates":{"dead":2},"waits":{"0":3},"lines":{"JobTimeout: it took longer than … seconds":[1893499223000000,"JobTimeout: it took longer than 30 seconds"],"Discard: not worth it":[1893499226000000,"Discard: not worth it"]},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('minute', 1893499200000000, 'runs', 'ship', '{"endings":{"completed":2,"failed":2},"took":12000000,"spread":{"89":4},"errors":{"ResultLost: the result could not be kept: …":1,"PaymentError: card … declined by …":2},"last":1893499220000000,"well":1893499211000000,"fates":{"dead":2},"waits":{"0":4},"lines":{"ResultLost: the result could not be kept: …":[1893499211000000,"ResultLost: the result could not be kept: …"],"PaymentError: card … declined by …":[1893499220000000,"PaymentError: card 4711 declined by ''bank''"]},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('minute', 1893499200000000, 'runs', 'sync', '{"endings":{"partial":1},"took":3000000,"spread":{"89":1},"last":1893499208000000,"well":1893499208000000,"items":{"success":5,"failed":1,"skipped":2},"waits":{"0":1},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('minute', 1893499200000000, 'suspects', 'send', '{"endings":{"crashed":1},"took":3000000,"spread":{"89":1},"errors":{"ProcessDied: its process ended: killed by SIGKILL":1},"last":1893499241000000,"fates":{"pending":1},"waits":{"0":1},"lines":{"ProcessDied: its process ended: killed by SIGKILL":[1893499241000000,"ProcessDied: its process ended: killed by SIGKILL"]},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('minute', 1893499260000000, 'suspects', 'send', '{"endings":{"crashed":1},"took":63000000,"spread":{"107":1},"errors":{"WorkerLost: worker doomed fell silent while running this job":1},"last":1893499304000000,"fates":{"pending":1},"waits":{"0":1},"lines":{"WorkerLost: worker doomed fell silent while running this job":[1893499304000000,"WorkerLost: worker doomed fell silent while running this job"]},"took_ends":[63000000,63000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('minute', 1893499320000000, 'suspects', 'send', '{"endings":{"crashed":1},"took":63000000,"spread":{"107":1},"errors":{"WorkerLost: worker doomed fell silent while running this job":1},"last":1893499367000000,"fates":{"pending":1},"waits":{"0":1},"lines":{"WorkerLost: worker doomed fell silent while running this job":[1893499367000000,"WorkerLost: worker doomed fell silent while running this job"]},"took_ends":[63000000,63000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('minute', 1893499380000000, 'suspects', 'send', '{"endings":{"crashed":1},"took":63000000,"spread":{"107":1},"errors":{"PoisonPill: worker doomed fell silent while running this job; crash … of … allowed":1},"last":1893499430000000,"fates":{"dead":1},"waits":{"0":1},"lines":{"PoisonPill: worker doomed fell silent while running this job; crash … of … allowed":[1893499430000000,"PoisonPill: worker doomed fell silent while running this job; crash 3 of 3 allowed"]},"took_ends":[63000000,63000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('minute', 1893499440000000, 'suspects', 'send', '{"endings":{"crashed":1},"took":63000000,"spread":{"107":1},"errors":{"WorkerLost: worker doomed fell silent while running this job":1},"last":1893499493000000,"fates":{"pending":1},"waits":{"0":1},"lines":{"WorkerLost: worker doomed fell silent while running this job":[1893499493000000,"WorkerLost: worker doomed fell silent while running this job"]},"took_ends":[63000000,63000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('minute', 1893499500000000, 'fragile', 'fragile', '{"endings":{"failed":1},"took":3000000,"spread":{"89":1},"errors":{"RuntimeError: down":1},"last":1893499559000000,"fates":{"dead":1},"waits":{"0":1},"lines":{"RuntimeError: down":[1893499559000000,"RuntimeError: down"]},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('minute', 1893499500000000, 'suspects', 'send', '{"endings":{"crashed":1},"took":63000000,"spread":{"107":1},"errors":{"WorkerLost: worker doomed fell silent while running this job":1},"last":1893499556000000,"fates":{"pending":1},"waits":{"0":1},"lines":{"WorkerLost: worker doomed fell silent while running this job":[1893499556000000,"WorkerLost: worker doomed fell silent while running this job"]},"took_ends":[63000000,63000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('minute', 1893499560000000, 'fragile', 'fragile', '{"endings":{"failed":2},"took":6000000,"spread":{"89":2},"errors":{"RuntimeError: down":2},"last":1893499565000000,"fates":{"dead":2},"waits":{"0":2},"lines":{"RuntimeError: down":[1893499565000000,"RuntimeError: down"]},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_tallies VALUES ('minute', 1893500160000000, 'frail', 'frail', '{"endings":{"failed":3},"took":9000000,"spread":{"89":3},"errors":{"RuntimeError: down":3},"last":1893500175000000,"fates":{"dead":3},"waits":{"0":3},"lines":{"RuntimeError: down":[1893500175000000,"RuntimeError: down"]},"took_ends":[3000000,3000000],"wait_ends":[0,0]}');
INSERT INTO golden.mainspring_ticks VALUES ('adaptive', 1, '{"n":1,"at":"2030-01-01T10:05:00Z","seen_at":"2030-01-01T10:10:00Z","what":"missed","reason":"catch_up"}');
INSERT INTO golden.mainspring_ticks VALUES ('adaptive', 2, '{"n":2,"at":"2030-01-01T10:10:00Z","seen_at":"2030-01-01T10:10:00Z","what":"fired","job_id":"01b8dcf4-2cc0-7001-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('adaptive', 3, '{"n":3,"at":"2030-01-01T10:15:00Z","seen_at":"2030-01-01T10:20:00Z","what":"missed","reason":"catch_up"}');
INSERT INTO golden.mainspring_ticks VALUES ('adaptive', 4, '{"n":4,"at":"2030-01-01T10:20:00Z","seen_at":"2030-01-01T10:20:00Z","what":"fired","job_id":"01b8dcfd-5480-7000-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('adaptive', 5, '{"n":5,"at":"2030-01-01T10:30:00Z","seen_at":"2030-01-01T11:10:00Z","what":"missed","reason":"catch_up","count":4,"last_at":"2030-01-01T11:00:00Z"}');
INSERT INTO golden.mainspring_ticks VALUES ('adaptive', 6, '{"n":6,"at":"2030-01-01T11:10:00Z","seen_at":"2030-01-01T11:10:00Z","what":"fired","job_id":"01b8dd2b-1b40-7000-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('adaptive', 7, '{"n":7,"at":"2030-01-01T11:30:00Z","seen_at":"2030-01-01T11:40:00Z","what":"fired","job_id":"01b8dd46-9280-7005-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('anchored', 1, '{"n":1,"at":"2030-01-01T10:20:00Z","seen_at":"2030-01-01T10:20:00Z","what":"fired","job_id":"01b8dcfd-5480-7003-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('anchored', 2, '{"n":2,"at":"2030-01-01T10:50:00Z","seen_at":"2030-01-01T11:10:00Z","what":"fired","job_id":"01b8dd2b-1b40-7007-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('anchored', 3, '{"n":3,"at":"2030-01-01T11:20:00Z","seen_at":"2030-01-01T11:40:00Z","what":"fired","job_id":"01b8dd46-9280-7002-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('anchored', 4, '{"n":4,"at":"2029-12-29T12:20:00Z","seen_at":"2030-01-01T11:40:00Z","what":"fired","reason":"backfill","job_id":"01b8dd46-9280-7012-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('anchored', 5, '{"n":5,"at":"2029-12-29T12:50:00Z","seen_at":"2030-01-01T11:40:00Z","what":"fired","reason":"backfill","job_id":"01b8dd46-9280-7013-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('cancelling', 1, '{"n":1,"at":"2030-01-01T10:30:00Z","seen_at":"2030-01-01T11:10:00Z","what":"missed","reason":"catch_up"}');
INSERT INTO golden.mainspring_ticks VALUES ('cancelling', 2, '{"n":2,"at":"2030-01-01T11:00:00Z","seen_at":"2030-01-01T11:10:00Z","what":"fired","job_id":"01b8dd2b-1b40-7001-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('cancelling', 3, '{"n":3,"at":"2030-01-01T11:30:00Z","seen_at":"2030-01-01T11:40:00Z","what":"fired","job_id":"01b8dd46-9280-7007-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('chained', 1, '{"n":1,"at":"2030-01-01T10:20:00Z","seen_at":"2030-01-01T10:20:00Z","what":"fired","job_id":"01b8dcfd-5480-7004-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('chained', 2, '{"n":2,"at":"2030-01-01T10:40:00Z","seen_at":"2030-01-01T11:10:00Z","what":"fired","job_id":"01b8dd2b-1b40-7006-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('chained', 3, '{"n":3,"at":"2030-01-01T11:30:00Z","seen_at":"2030-01-01T11:40:00Z","what":"fired","job_id":"01b8dd46-9280-7006-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('computed', 1, '{"n":1,"at":"2030-01-01T10:10:00Z","seen_at":"2030-01-01T10:10:00Z","what":"fired","job_id":"01b8dcf4-2cc0-7003-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('computed', 2, '{"n":2,"at":"2030-01-01T10:20:00Z","seen_at":"2030-01-01T10:20:00Z","what":"fired","job_id":"01b8dcfd-5480-7005-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('computed', 3, '{"n":3,"at":"2030-01-01T10:30:00Z","seen_at":"2030-01-01T11:10:00Z","what":"missed","reason":"catch_up","count":4,"last_at":"2030-01-01T11:00:00Z"}');
INSERT INTO golden.mainspring_ticks VALUES ('computed', 4, '{"n":4,"at":"2030-01-01T11:10:00Z","seen_at":"2030-01-01T11:10:00Z","what":"fired","job_id":"01b8dd2b-1b40-7002-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('computed', 5, '{"n":5,"at":"2030-01-01T11:20:00Z","seen_at":"2030-01-01T11:40:00Z","what":"missed","reason":"catch_up","count":2,"last_at":"2030-01-01T11:30:00Z"}');
INSERT INTO golden.mainspring_ticks VALUES ('computed', 6, '{"n":6,"at":"2030-01-01T11:40:00Z","seen_at":"2030-01-01T11:40:00Z","what":"fired","job_id":"01b8dd46-9280-7003-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('crafted', 1, '{"n":1,"at":"2030-01-01T11:40:00Z","seen_at":"2030-01-01T11:50:00Z","what":"missed","reason":"late","count":3,"last_at":"2030-01-01T11:48:20Z"}');
INSERT INTO golden.mainspring_ticks VALUES ('crafted', 2, '{"n":2,"at":"2030-01-01T11:50:00Z","seen_at":"2030-01-01T11:50:10Z","what":"fired","job_id":"01af4b6f-9000-7000-8000-00000000dead"}');
INSERT INTO golden.mainspring_ticks VALUES ('dependent', 1, '{"n":1,"at":"2030-01-01T10:30:00Z","seen_at":"2030-01-01T11:10:00Z","what":"missed","reason":"catch_up"}');
INSERT INTO golden.mainspring_ticks VALUES ('dependent', 2, '{"n":2,"at":"2030-01-01T11:00:00Z","seen_at":"2030-01-01T11:40:00Z","what":"skipped","reason":"dependency"}');
INSERT INTO golden.mainspring_ticks VALUES ('interval', 1, '{"n":1,"at":"2030-01-01T10:00:00Z","seen_at":"2030-01-01T10:10:00Z","what":"fired","job_id":"01b8dcf4-2cc0-7000-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('interval', 2, '{"n":2,"at":"2030-01-01T10:15:00Z","seen_at":"2030-01-01T10:20:00Z","what":"fired","job_id":"01b8dcfd-5480-7001-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('interval', 3, '{"n":3,"at":"2030-01-01T10:30:00Z","seen_at":"2030-01-01T11:10:00Z","what":"missed","reason":"catch_up","count":2,"last_at":"2030-01-01T10:45:00Z"}');
INSERT INTO golden.mainspring_ticks VALUES ('interval', 4, '{"n":4,"at":"2030-01-01T11:00:00Z","seen_at":"2030-01-01T11:10:00Z","what":"fired","job_id":"01b8dd2b-1b40-7003-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('interval', 5, '{"n":5,"at":"2030-01-01T11:15:00Z","seen_at":"2030-01-01T11:40:00Z","what":"missed","reason":"catch_up"}');
INSERT INTO golden.mainspring_ticks VALUES ('interval', 6, '{"n":6,"at":"2030-01-01T11:30:00Z","seen_at":"2030-01-01T11:40:00Z","what":"fired","job_id":"01b8dd46-9280-7000-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('interval', 7, '{"n":7,"at":"2030-01-01T11:40:00Z","seen_at":"2030-01-01T11:40:00Z","what":"fired","reason":"by_hand","job_id":"01b8dd46-9280-7010-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('parallel', 1, '{"n":1,"at":"2030-01-01T10:10:00Z","seen_at":"2030-01-01T10:10:00Z","what":"fired","job_id":"01b8dcf4-2cc0-7004-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('parallel', 2, '{"n":2,"at":"2030-01-01T10:20:00Z","seen_at":"2030-01-01T10:20:00Z","what":"fired","job_id":"01b8dcfd-5480-7006-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('parallel', 3, '{"n":3,"at":"2030-01-01T10:30:00Z","seen_at":"2030-01-01T11:10:00Z","what":"missed","reason":"catch_up","count":4,"last_at":"2030-01-01T11:00:00Z"}');
INSERT INTO golden.mainspring_ticks VALUES ('parallel', 4, '{"n":4,"at":"2030-01-01T11:10:00Z","seen_at":"2030-01-01T11:10:00Z","what":"fired","job_id":"01b8dd2b-1b40-7004-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('parallel', 5, '{"n":5,"at":"2030-01-01T11:20:00Z","seen_at":"2030-01-01T11:40:00Z","what":"missed","reason":"catch_up","count":2,"last_at":"2030-01-01T11:30:00Z"}');
INSERT INTO golden.mainspring_ticks VALUES ('parallel', 6, '{"n":6,"at":"2030-01-01T11:40:00Z","seen_at":"2030-01-01T11:40:00Z","what":"fired","job_id":"01b8dd46-9280-7004-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('policies', 1, '{"n":1,"at":"2030-01-01T10:17:00Z","seen_at":"2030-01-01T10:20:00Z","what":"fired","job_id":"01b8dcfd-5480-7002-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('policies', 2, '{"n":2,"at":"2030-01-01T10:37:00Z","seen_at":"2030-01-01T11:10:00Z","what":"fired","job_id":"01b8dd2b-1b40-7005-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('policies', 3, '{"n":3,"at":"2030-01-01T10:57:00Z","seen_at":"2030-01-01T11:10:00Z","what":"fired","job_id":"01b8dd2b-1b40-7011-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('policies', 4, '{"n":4,"at":"2030-01-01T11:17:00Z","seen_at":"2030-01-01T11:40:00Z","what":"fired","job_id":"01b8dd46-9280-7001-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('policies', 5, '{"n":5,"at":"2030-01-01T11:37:00Z","seen_at":"2030-01-01T11:40:00Z","what":"fired","job_id":"01b8dd46-9280-700d-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('skipping', 1, '{"n":1,"at":"2030-01-01T10:10:00Z","seen_at":"2030-01-01T10:10:00Z","what":"fired","job_id":"01b8dcf4-2cc0-7005-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('skipping', 2, '{"n":2,"at":"2030-01-01T10:20:00Z","seen_at":"2030-01-01T10:20:00Z","what":"skipped","reason":"overlap"}');
INSERT INTO golden.mainspring_ticks VALUES ('skipping', 3, '{"n":3,"at":"2030-01-01T10:30:00Z","seen_at":"2030-01-01T11:10:00Z","what":"missed","reason":"catch_up","count":4,"last_at":"2030-01-01T11:00:00Z"}');
INSERT INTO golden.mainspring_ticks VALUES ('skipping', 4, '{"n":4,"at":"2030-01-01T11:10:00Z","seen_at":"2030-01-01T11:10:00Z","what":"skipped","reason":"overlap"}');
INSERT INTO golden.mainspring_ticks VALUES ('skipping', 5, '{"n":5,"at":"2030-01-01T11:20:00Z","seen_at":"2030-01-01T11:40:00Z","what":"missed","reason":"catch_up","count":2,"last_at":"2030-01-01T11:30:00Z"}');
INSERT INTO golden.mainspring_ticks VALUES ('skipping', 6, '{"n":6,"at":"2030-01-01T11:40:00Z","seen_at":"2030-01-01T11:40:00Z","what":"skipped","reason":"overlap"}');
INSERT INTO golden.mainspring_ticks VALUES ('spoiled', 1, '{"n":1,"at":"2030-01-01T10:10:00Z","seen_at":"2030-01-01T10:10:00Z","what":"fired","job_id":"01b8dcf4-2cc0-7006-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('spoiled', 2, '{"n":2,"at":"2030-01-01T10:20:00Z","seen_at":"2030-01-01T10:20:00Z","what":"skipped","reason":"overlap"}');
INSERT INTO golden.mainspring_ticks VALUES ('spoiled', 3, '{"n":3,"at":"2030-01-01T10:30:00Z","seen_at":"2030-01-01T11:10:00Z","what":"missed","reason":"catch_up","count":4,"last_at":"2030-01-01T11:00:00Z"}');
INSERT INTO golden.mainspring_ticks VALUES ('spoiled', 4, '{"n":4,"at":"2030-01-01T11:10:00Z","seen_at":"2030-01-01T11:10:00Z","what":"skipped","reason":"overlap"}');
INSERT INTO golden.mainspring_ticks VALUES ('spoiled', 5, '{"n":5,"at":"2030-01-01T11:20:00Z","seen_at":"2030-01-01T11:40:00Z","what":"missed","reason":"catch_up","count":2,"last_at":"2030-01-01T11:30:00Z"}');
INSERT INTO golden.mainspring_ticks VALUES ('spoiled', 6, '{"n":6,"at":"2030-01-01T11:40:00Z","seen_at":"2030-01-01T11:40:00Z","what":"skipped","reason":"overlap"}');
INSERT INTO golden.mainspring_ticks VALUES ('spread', 1, '{"n":1,"at":"2030-01-01T10:07:30Z","seen_at":"2030-01-01T10:10:00Z","what":"fired","job_id":"01b8dcf4-2cc0-7002-9c96-956784135206"}');
INSERT INTO golden.mainspring_ticks VALUES ('spread', 2, '{"n":2,"at":"2030-01-01T11:07:30Z","seen_at":"2030-01-01T11:10:00Z","what":"fired","job_id":"01b8dd2b-1b40-7008-9c96-956784135206"}');
INSERT INTO golden.mainspring_workers VALUES ('doomed', 1893499523000000, '{"id":"doomed","host":"host","pid":101,"queues":null,"tasks":["bury","doom","fragile","frail","report","send","ship","sync"],"concurrency":10,"started_at":"2030-01-01T11:00:00Z","running":0,"limits":{},"queue_limits":{},"finished":0,"leaked":0,"memory":0,"drained":false,"stopping":false,"deaf":false,"lease":20.0,"grace":30.0,"beats":5,"schema":4,"fingerprints":[]}', NULL);
INSERT INTO golden.mainspring_workers VALUES ('host-1', 1893503780000000, '{"id":"host-1","host":"host","pid":101,"queues":["mail","sync"],"tasks":["bury","doom","fragile","frail","report","send","ship","sync"],"concurrency":10,"started_at":"2030-01-01T11:00:00Z","running":3,"limits":{"sync":2},"queue_limits":{"mail":5},"finished":7,"leaked":1,"memory":50000000,"drained":false,"stopping":false,"deaf":true,"lease":20.0,"grace":30.0,"beats":23,"schema":0,"fingerprints":["88db0ca915","53ad14ea51","e847bfc818","e847bfc818","c3b8c56b75","4a37f37639","dae6923131","e2bbae4c2f"]}', '{"concurrency":4}');
INSERT INTO golden.mainspring_workers VALUES ('host-2', 1893503780000000, '{"id":"host-2","host":"host","pid":101,"queues":null,"tasks":["bury","doom","fragile","frail","report","send","ship","sync"],"concurrency":10,"started_at":"2030-01-01T11:00:00Z","running":0,"limits":{},"queue_limits":{},"finished":0,"leaked":0,"memory":0,"drained":true,"stopping":false,"deaf":false,"lease":20.0,"grace":30.0,"beats":1,"schema":0,"fingerprints":[]}', '{"drained":true}');
INSERT INTO golden.mainspring_workers VALUES ('host-3', 1893503780000000, '{"id":"host-3","host":"host","pid":101,"queues":null,"tasks":["bury","doom","fragile","frail","report","send","ship","sync"],"concurrency":10,"started_at":"2030-01-01T11:00:00Z","running":0,"limits":{},"queue_limits":{},"finished":0,"leaked":0,"memory":0,"drained":false,"stopping":true,"deaf":false,"lease":20.0,"grace":30.0,"beats":1,"schema":0,"fingerprints":[]}', '{"stopped":true}');
INSERT INTO golden.mainspring_workers VALUES ('host-4', 1893503780000000, '{"id":"host-4","host":"host","pid":101,"queues":null,"tasks":["bury","doom","fragile","frail","report","send","ship","sync"],"concurrency":10,"started_at":"2030-01-01T11:00:00Z","running":0,"limits":{},"queue_limits":{},"finished":0,"leaked":0,"memory":0,"drained":false,"stopping":false,"deaf":false,"lease":20.0,"grace":30.0,"beats":1,"schema":0,"fingerprints":[]}', NULL);
ALTER TABLE ONLY golden.mainspring_audit
    ADD CONSTRAINT mainspring_audit_pkey PRIMARY KEY (id);
ALTER TABLE ONLY golden.mainspring_circuits
    ADD CONSTRAINT mainspring_circuits_pkey PRIMARY KEY (task);
ALTER TABLE ONLY golden.mainspring_documents
    ADD CONSTRAINT mainspring_documents_pkey PRIMARY KEY (kind, name);
ALTER TABLE ONLY golden.mainspring_executions
    ADD CONSTRAINT mainspring_executions_pkey PRIMARY KEY (job_id, number);
ALTER TABLE ONLY golden.mainspring_finished
    ADD CONSTRAINT mainspring_finished_pkey PRIMARY KEY (id);
ALTER TABLE ONLY golden.mainspring_finished_20300101
    ADD CONSTRAINT mainspring_finished_20300101_pkey PRIMARY KEY (id);
ALTER TABLE ONLY golden.mainspring_finished_20300102
    ADD CONSTRAINT mainspring_finished_20300102_pkey PRIMARY KEY (id);
ALTER TABLE ONLY golden.mainspring_finished_20300103
    ADD CONSTRAINT mainspring_finished_20300103_pkey PRIMARY KEY (id);
ALTER TABLE ONLY golden.mainspring_finished_20300104
    ADD CONSTRAINT mainspring_finished_20300104_pkey PRIMARY KEY (id);
ALTER TABLE ONLY golden.mainspring_finished_20300105
    ADD CONSTRAINT mainspring_finished_20300105_pkey PRIMARY KEY (id);
ALTER TABLE ONLY golden.mainspring_finished_20300106
    ADD CONSTRAINT mainspring_finished_20300106_pkey PRIMARY KEY (id);
ALTER TABLE ONLY golden.mainspring_finished_20300107
    ADD CONSTRAINT mainspring_finished_20300107_pkey PRIMARY KEY (id);
ALTER TABLE ONLY golden.mainspring_finished_20300108
    ADD CONSTRAINT mainspring_finished_20300108_pkey PRIMARY KEY (id);
ALTER TABLE ONLY golden.mainspring_jobs
    ADD CONSTRAINT mainspring_jobs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY golden.mainspring_leaders
    ADD CONSTRAINT mainspring_leaders_pkey PRIMARY KEY (name);
ALTER TABLE ONLY golden.mainspring_leases
    ADD CONSTRAINT mainspring_leases_pkey PRIMARY KEY (worker, lease);
ALTER TABLE ONLY golden.mainspring_logs
    ADD CONSTRAINT mainspring_logs_pkey PRIMARY KEY (job_id, run, n);
ALTER TABLE ONLY golden.mainspring_marks
    ADD CONSTRAINT mainspring_marks_pkey PRIMARY KEY (name);
ALTER TABLE ONLY golden.mainspring_news
    ADD CONSTRAINT mainspring_news_pkey PRIMARY KEY (n);
ALTER TABLE ONLY golden.mainspring_queues
    ADD CONSTRAINT mainspring_queues_pkey PRIMARY KEY (name);
ALTER TABLE ONLY golden.mainspring_finished_rest
    ADD CONSTRAINT mainspring_rest_pkey PRIMARY KEY (id);
ALTER TABLE ONLY golden.mainspring_schedules
    ADD CONSTRAINT mainspring_schedules_pkey PRIMARY KEY (name);
ALTER TABLE ONLY golden.mainspring_tallies
    ADD CONSTRAINT mainspring_tallies_pkey PRIMARY KEY (span, at, queue, task);
ALTER TABLE ONLY golden.mainspring_ticks
    ADD CONSTRAINT mainspring_ticks_pkey PRIMARY KEY (schedule, n);
ALTER TABLE ONLY golden.mainspring_workers
    ADD CONSTRAINT mainspring_workers_pkey PRIMARY KEY (id);
CREATE INDEX mainspring_audit_old ON golden.mainspring_audit USING btree (at);
CREATE INDEX mainspring_documents_expiring ON golden.mainspring_documents USING btree (expires_at) WHERE (expires_at IS NOT NULL);
CREATE INDEX mainspring_finished_odd ON ONLY golden.mainspring_finished USING btree (created_at) WHERE ("left"(id, 10) <> (("left"(lpad(to_hex((created_at / 1000)), 12, '0'::text), 8) || '-'::text) || substr(lpad(to_hex((created_at / 1000)), 12, '0'::text), 9, 1)));
CREATE INDEX mainspring_finished_20300101_created_at_idx ON golden.mainspring_finished_20300101 USING btree (created_at) WHERE ("left"(id, 10) <> (("left"(lpad(to_hex((created_at / 1000)), 12, '0'::text), 8) || '-'::text) || substr(lpad(to_hex((created_at / 1000)), 12, '0'::text), 9, 1)));
CREATE INDEX mainspring_finished_error ON ONLY golden.mainspring_finished USING btree (error, task, state, finished_at) WHERE (error IS NOT NULL);
CREATE INDEX mainspring_finished_20300101_error_task_state_finished_at_idx ON golden.mainspring_finished_20300101 USING btree (error, task, state, finished_at) WHERE (error IS NOT NULL);
CREATE INDEX mainspring_finished_idempotent ON ONLY golden.mainspring_finished USING btree (idempotency_key) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX mainspring_finished_20300101_idempotency_key_idx ON golden.mainspring_finished_20300101 USING btree (idempotency_key) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX mainspring_finished_schedule ON ONLY golden.mainspring_finished USING btree (schedule) WHERE (schedule IS NOT NULL);
CREATE INDEX mainspring_finished_20300101_schedule_idx ON golden.mainspring_finished_20300101 USING btree (schedule) WHERE (schedule IS NOT NULL);
CREATE INDEX mainspring_finished_tags ON ONLY golden.mainspring_finished USING gin (tags) WHERE (tags IS NOT NULL);
CREATE INDEX mainspring_finished_20300101_tags_idx ON golden.mainspring_finished_20300101 USING gin (tags) WHERE (tags IS NOT NULL);
CREATE INDEX mainspring_finished_order ON ONLY golden.mainspring_finished USING btree (task, queue, state, finished_at);
CREATE INDEX mainspring_finished_20300101_task_queue_state_finished_at_idx ON golden.mainspring_finished_20300101 USING btree (task, queue, state, finished_at);
CREATE INDEX mainspring_finished_unique ON ONLY golden.mainspring_finished USING btree (unique_key) WHERE (unique_key IS NOT NULL);
CREATE INDEX mainspring_finished_20300101_unique_key_idx ON golden.mainspring_finished_20300101 USING btree (unique_key) WHERE (unique_key IS NOT NULL);
CREATE INDEX mainspring_finished_20300102_created_at_idx ON golden.mainspring_finished_20300102 USING btree (created_at) WHERE ("left"(id, 10) <> (("left"(lpad(to_hex((created_at / 1000)), 12, '0'::text), 8) || '-'::text) || substr(lpad(to_hex((created_at / 1000)), 12, '0'::text), 9, 1)));
CREATE INDEX mainspring_finished_20300102_error_task_state_finished_at_idx ON golden.mainspring_finished_20300102 USING btree (error, task, state, finished_at) WHERE (error IS NOT NULL);
CREATE INDEX mainspring_finished_20300102_idempotency_key_idx ON golden.mainspring_finished_20300102 USING btree (idempotency_key) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX mainspring_finished_20300102_schedule_idx ON golden.mainspring_finished_20300102 USING btree (schedule) WHERE (schedule IS NOT NULL);
CREATE INDEX mainspring_finished_20300102_tags_idx ON golden.mainspring_finished_20300102 USING gin (tags) WHERE (tags IS NOT NULL);
CREATE INDEX mainspring_finished_20300102_task_queue_state_finished_at_idx ON golden.mainspring_finished_20300102 USING btree (task, queue, state, finished_at);
CREATE INDEX mainspring_finished_20300102_unique_key_idx ON golden.mainspring_finished_20300102 USING btree (unique_key) WHERE (unique_key IS NOT NULL);
CREATE INDEX mainspring_finished_20300103_created_at_idx ON golden.mainspring_finished_20300103 USING btree (created_at) WHERE ("left"(id, 10) <> (("left"(lpad(to_hex((created_at / 1000)), 12, '0'::text), 8) || '-'::text) || substr(lpad(to_hex((created_at / 1000)), 12, '0'::text), 9, 1)));
CREATE INDEX mainspring_finished_20300103_error_task_state_finished_at_idx ON golden.mainspring_finished_20300103 USING btree (error, task, state, finished_at) WHERE (error IS NOT NULL);
CREATE INDEX mainspring_finished_20300103_idempotency_key_idx ON golden.mainspring_finished_20300103 USING btree (idempotency_key) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX mainspring_finished_20300103_schedule_idx ON golden.mainspring_finished_20300103 USING btree (schedule) WHERE (schedule IS NOT NULL);
CREATE INDEX mainspring_finished_20300103_tags_idx ON golden.mainspring_finished_20300103 USING gin (tags) WHERE (tags IS NOT NULL);
CREATE INDEX mainspring_finished_20300103_task_queue_state_finished_at_idx ON golden.mainspring_finished_20300103 USING btree (task, queue, state, finished_at);
CREATE INDEX mainspring_finished_20300103_unique_key_idx ON golden.mainspring_finished_20300103 USING btree (unique_key) WHERE (unique_key IS NOT NULL);
CREATE INDEX mainspring_finished_20300104_created_at_idx ON golden.mainspring_finished_20300104 USING btree (created_at) WHERE ("left"(id, 10) <> (("left"(lpad(to_hex((created_at / 1000)), 12, '0'::text), 8) || '-'::text) || substr(lpad(to_hex((created_at / 1000)), 12, '0'::text), 9, 1)));
CREATE INDEX mainspring_finished_20300104_error_task_state_finished_at_idx ON golden.mainspring_finished_20300104 USING btree (error, task, state, finished_at) WHERE (error IS NOT NULL);
CREATE INDEX mainspring_finished_20300104_idempotency_key_idx ON golden.mainspring_finished_20300104 USING btree (idempotency_key) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX mainspring_finished_20300104_schedule_idx ON golden.mainspring_finished_20300104 USING btree (schedule) WHERE (schedule IS NOT NULL);
CREATE INDEX mainspring_finished_20300104_tags_idx ON golden.mainspring_finished_20300104 USING gin (tags) WHERE (tags IS NOT NULL);
CREATE INDEX mainspring_finished_20300104_task_queue_state_finished_at_idx ON golden.mainspring_finished_20300104 USING btree (task, queue, state, finished_at);
CREATE INDEX mainspring_finished_20300104_unique_key_idx ON golden.mainspring_finished_20300104 USING btree (unique_key) WHERE (unique_key IS NOT NULL);
CREATE INDEX mainspring_finished_20300105_created_at_idx ON golden.mainspring_finished_20300105 USING btree (created_at) WHERE ("left"(id, 10) <> (("left"(lpad(to_hex((created_at / 1000)), 12, '0'::text), 8) || '-'::text) || substr(lpad(to_hex((created_at / 1000)), 12, '0'::text), 9, 1)));
CREATE INDEX mainspring_finished_20300105_error_task_state_finished_at_idx ON golden.mainspring_finished_20300105 USING btree (error, task, state, finished_at) WHERE (error IS NOT NULL);
CREATE INDEX mainspring_finished_20300105_idempotency_key_idx ON golden.mainspring_finished_20300105 USING btree (idempotency_key) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX mainspring_finished_20300105_schedule_idx ON golden.mainspring_finished_20300105 USING btree (schedule) WHERE (schedule IS NOT NULL);
CREATE INDEX mainspring_finished_20300105_tags_idx ON golden.mainspring_finished_20300105 USING gin (tags) WHERE (tags IS NOT NULL);
CREATE INDEX mainspring_finished_20300105_task_queue_state_finished_at_idx ON golden.mainspring_finished_20300105 USING btree (task, queue, state, finished_at);
CREATE INDEX mainspring_finished_20300105_unique_key_idx ON golden.mainspring_finished_20300105 USING btree (unique_key) WHERE (unique_key IS NOT NULL);
CREATE INDEX mainspring_finished_20300106_created_at_idx ON golden.mainspring_finished_20300106 USING btree (created_at) WHERE ("left"(id, 10) <> (("left"(lpad(to_hex((created_at / 1000)), 12, '0'::text), 8) || '-'::text) || substr(lpad(to_hex((created_at / 1000)), 12, '0'::text), 9, 1)));
CREATE INDEX mainspring_finished_20300106_error_task_state_finished_at_idx ON golden.mainspring_finished_20300106 USING btree (error, task, state, finished_at) WHERE (error IS NOT NULL);
CREATE INDEX mainspring_finished_20300106_idempotency_key_idx ON golden.mainspring_finished_20300106 USING btree (idempotency_key) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX mainspring_finished_20300106_schedule_idx ON golden.mainspring_finished_20300106 USING btree (schedule) WHERE (schedule IS NOT NULL);
CREATE INDEX mainspring_finished_20300106_tags_idx ON golden.mainspring_finished_20300106 USING gin (tags) WHERE (tags IS NOT NULL);
CREATE INDEX mainspring_finished_20300106_task_queue_state_finished_at_idx ON golden.mainspring_finished_20300106 USING btree (task, queue, state, finished_at);
CREATE INDEX mainspring_finished_20300106_unique_key_idx ON golden.mainspring_finished_20300106 USING btree (unique_key) WHERE (unique_key IS NOT NULL);
CREATE INDEX mainspring_finished_20300107_created_at_idx ON golden.mainspring_finished_20300107 USING btree (created_at) WHERE ("left"(id, 10) <> (("left"(lpad(to_hex((created_at / 1000)), 12, '0'::text), 8) || '-'::text) || substr(lpad(to_hex((created_at / 1000)), 12, '0'::text), 9, 1)));
CREATE INDEX mainspring_finished_20300107_error_task_state_finished_at_idx ON golden.mainspring_finished_20300107 USING btree (error, task, state, finished_at) WHERE (error IS NOT NULL);
CREATE INDEX mainspring_finished_20300107_idempotency_key_idx ON golden.mainspring_finished_20300107 USING btree (idempotency_key) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX mainspring_finished_20300107_schedule_idx ON golden.mainspring_finished_20300107 USING btree (schedule) WHERE (schedule IS NOT NULL);
CREATE INDEX mainspring_finished_20300107_tags_idx ON golden.mainspring_finished_20300107 USING gin (tags) WHERE (tags IS NOT NULL);
CREATE INDEX mainspring_finished_20300107_task_queue_state_finished_at_idx ON golden.mainspring_finished_20300107 USING btree (task, queue, state, finished_at);
CREATE INDEX mainspring_finished_20300107_unique_key_idx ON golden.mainspring_finished_20300107 USING btree (unique_key) WHERE (unique_key IS NOT NULL);
CREATE INDEX mainspring_finished_20300108_created_at_idx ON golden.mainspring_finished_20300108 USING btree (created_at) WHERE ("left"(id, 10) <> (("left"(lpad(to_hex((created_at / 1000)), 12, '0'::text), 8) || '-'::text) || substr(lpad(to_hex((created_at / 1000)), 12, '0'::text), 9, 1)));
CREATE INDEX mainspring_finished_20300108_error_task_state_finished_at_idx ON golden.mainspring_finished_20300108 USING btree (error, task, state, finished_at) WHERE (error IS NOT NULL);
CREATE INDEX mainspring_finished_20300108_idempotency_key_idx ON golden.mainspring_finished_20300108 USING btree (idempotency_key) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX mainspring_finished_20300108_schedule_idx ON golden.mainspring_finished_20300108 USING btree (schedule) WHERE (schedule IS NOT NULL);
CREATE INDEX mainspring_finished_20300108_tags_idx ON golden.mainspring_finished_20300108 USING gin (tags) WHERE (tags IS NOT NULL);
CREATE INDEX mainspring_finished_20300108_task_queue_state_finished_at_idx ON golden.mainspring_finished_20300108 USING btree (task, queue, state, finished_at);
CREATE INDEX mainspring_finished_20300108_unique_key_idx ON golden.mainspring_finished_20300108 USING btree (unique_key) WHERE (unique_key IS NOT NULL);
CREATE INDEX mainspring_jobs_aside ON golden.mainspring_jobs USING btree (id) WHERE (parked OR retried);
CREATE INDEX mainspring_jobs_error ON golden.mainspring_jobs USING btree (error) WHERE (error IS NOT NULL);
CREATE INDEX mainspring_jobs_expiring ON golden.mainspring_jobs USING btree (expires_at) WHERE ((expires_at IS NOT NULL) AND (NOT parked));
CREATE UNIQUE INDEX mainspring_jobs_idempotent ON golden.mainspring_jobs USING btree (idempotency_key) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX mainspring_jobs_odd ON golden.mainspring_jobs USING btree (created_at) WHERE ("left"(id, 10) <> (("left"(lpad(to_hex((created_at / 1000)), 12, '0'::text), 8) || '-'::text) || substr(lpad(to_hex((created_at / 1000)), 12, '0'::text), 9, 1)));
CREATE INDEX mainspring_jobs_parked ON golden.mainspring_jobs USING btree (task, queue) WHERE parked;
CREATE INDEX mainspring_jobs_ready ON golden.mainspring_jobs USING btree (queue, task, rank, run_at, id) WHERE ((crashes < 2) AND (NOT parked));
CREATE INDEX mainspring_jobs_schedule ON golden.mainspring_jobs USING btree (schedule) WHERE (schedule IS NOT NULL);
CREATE INDEX mainspring_jobs_suspects ON golden.mainspring_jobs USING btree (rank, run_at, id) WHERE ((crashes >= 2) AND (NOT parked));
CREATE INDEX mainspring_jobs_tags ON golden.mainspring_jobs USING gin (tags) WHERE (tags IS NOT NULL);
CREATE UNIQUE INDEX mainspring_jobs_unique ON golden.mainspring_jobs USING btree (unique_key) WHERE (unique_key IS NOT NULL);
CREATE INDEX mainspring_rest_error ON golden.mainspring_finished_rest USING btree (error, task, state, finished_at) WHERE (error IS NOT NULL);
CREATE INDEX mainspring_rest_idempotent ON golden.mainspring_finished_rest USING btree (idempotency_key) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX mainspring_rest_odd ON golden.mainspring_finished_rest USING btree (created_at) WHERE ("left"(id, 10) <> (("left"(lpad(to_hex((created_at / 1000)), 12, '0'::text), 8) || '-'::text) || substr(lpad(to_hex((created_at / 1000)), 12, '0'::text), 9, 1)));
CREATE INDEX mainspring_rest_order ON golden.mainspring_finished_rest USING btree (task, queue, state, finished_at);
CREATE INDEX mainspring_rest_schedule ON golden.mainspring_finished_rest USING btree (schedule) WHERE (schedule IS NOT NULL);
CREATE INDEX mainspring_rest_tags ON golden.mainspring_finished_rest USING gin (tags) WHERE (tags IS NOT NULL);
CREATE INDEX mainspring_rest_unique ON golden.mainspring_finished_rest USING btree (unique_key) WHERE (unique_key IS NOT NULL);
CREATE INDEX mainspring_schedules_due ON golden.mainspring_schedules USING btree (due_at, name) WHERE (due_at IS NOT NULL);
CREATE INDEX mainspring_schedules_waiting ON golden.mainspring_schedules USING btree (waits_on) WHERE (waits_on IS NOT NULL);
ALTER INDEX golden.mainspring_finished_odd ATTACH PARTITION golden.mainspring_finished_20300101_created_at_idx;
ALTER INDEX golden.mainspring_finished_error ATTACH PARTITION golden.mainspring_finished_20300101_error_task_state_finished_at_idx;
ALTER INDEX golden.mainspring_finished_idempotent ATTACH PARTITION golden.mainspring_finished_20300101_idempotency_key_idx;
ALTER INDEX golden.mainspring_finished_pkey ATTACH PARTITION golden.mainspring_finished_20300101_pkey;
ALTER INDEX golden.mainspring_finished_schedule ATTACH PARTITION golden.mainspring_finished_20300101_schedule_idx;
ALTER INDEX golden.mainspring_finished_tags ATTACH PARTITION golden.mainspring_finished_20300101_tags_idx;
ALTER INDEX golden.mainspring_finished_order ATTACH PARTITION golden.mainspring_finished_20300101_task_queue_state_finished_at_idx;
ALTER INDEX golden.mainspring_finished_unique ATTACH PARTITION golden.mainspring_finished_20300101_unique_key_idx;
ALTER INDEX golden.mainspring_finished_odd ATTACH PARTITION golden.mainspring_finished_20300102_created_at_idx;
ALTER INDEX golden.mainspring_finished_error ATTACH PARTITION golden.mainspring_finished_20300102_error_task_state_finished_at_idx;
ALTER INDEX golden.mainspring_finished_idempotent ATTACH PARTITION golden.mainspring_finished_20300102_idempotency_key_idx;
ALTER INDEX golden.mainspring_finished_pkey ATTACH PARTITION golden.mainspring_finished_20300102_pkey;
ALTER INDEX golden.mainspring_finished_schedule ATTACH PARTITION golden.mainspring_finished_20300102_schedule_idx;
ALTER INDEX golden.mainspring_finished_tags ATTACH PARTITION golden.mainspring_finished_20300102_tags_idx;
ALTER INDEX golden.mainspring_finished_order ATTACH PARTITION golden.mainspring_finished_20300102_task_queue_state_finished_at_idx;
ALTER INDEX golden.mainspring_finished_unique ATTACH PARTITION golden.mainspring_finished_20300102_unique_key_idx;
ALTER INDEX golden.mainspring_finished_odd ATTACH PARTITION golden.mainspring_finished_20300103_created_at_idx;
ALTER INDEX golden.mainspring_finished_error ATTACH PARTITION golden.mainspring_finished_20300103_error_task_state_finished_at_idx;
ALTER INDEX golden.mainspring_finished_idempotent ATTACH PARTITION golden.mainspring_finished_20300103_idempotency_key_idx;
ALTER INDEX golden.mainspring_finished_pkey ATTACH PARTITION golden.mainspring_finished_20300103_pkey;
ALTER INDEX golden.mainspring_finished_schedule ATTACH PARTITION golden.mainspring_finished_20300103_schedule_idx;
ALTER INDEX golden.mainspring_finished_tags ATTACH PARTITION golden.mainspring_finished_20300103_tags_idx;
ALTER INDEX golden.mainspring_finished_order ATTACH PARTITION golden.mainspring_finished_20300103_task_queue_state_finished_at_idx;
ALTER INDEX golden.mainspring_finished_unique ATTACH PARTITION golden.mainspring_finished_20300103_unique_key_idx;
ALTER INDEX golden.mainspring_finished_odd ATTACH PARTITION golden.mainspring_finished_20300104_created_at_idx;
ALTER INDEX golden.mainspring_finished_error ATTACH PARTITION golden.mainspring_finished_20300104_error_task_state_finished_at_idx;
ALTER INDEX golden.mainspring_finished_idempotent ATTACH PARTITION golden.mainspring_finished_20300104_idempotency_key_idx;
ALTER INDEX golden.mainspring_finished_pkey ATTACH PARTITION golden.mainspring_finished_20300104_pkey;
ALTER INDEX golden.mainspring_finished_schedule ATTACH PARTITION golden.mainspring_finished_20300104_schedule_idx;
ALTER INDEX golden.mainspring_finished_tags ATTACH PARTITION golden.mainspring_finished_20300104_tags_idx;
ALTER INDEX golden.mainspring_finished_order ATTACH PARTITION golden.mainspring_finished_20300104_task_queue_state_finished_at_idx;
ALTER INDEX golden.mainspring_finished_unique ATTACH PARTITION golden.mainspring_finished_20300104_unique_key_idx;
ALTER INDEX golden.mainspring_finished_odd ATTACH PARTITION golden.mainspring_finished_20300105_created_at_idx;
ALTER INDEX golden.mainspring_finished_error ATTACH PARTITION golden.mainspring_finished_20300105_error_task_state_finished_at_idx;
ALTER INDEX golden.mainspring_finished_idempotent ATTACH PARTITION golden.mainspring_finished_20300105_idempotency_key_idx;
ALTER INDEX golden.mainspring_finished_pkey ATTACH PARTITION golden.mainspring_finished_20300105_pkey;
ALTER INDEX golden.mainspring_finished_schedule ATTACH PARTITION golden.mainspring_finished_20300105_schedule_idx;
ALTER INDEX golden.mainspring_finished_tags ATTACH PARTITION golden.mainspring_finished_20300105_tags_idx;
ALTER INDEX golden.mainspring_finished_order ATTACH PARTITION golden.mainspring_finished_20300105_task_queue_state_finished_at_idx;
ALTER INDEX golden.mainspring_finished_unique ATTACH PARTITION golden.mainspring_finished_20300105_unique_key_idx;
ALTER INDEX golden.mainspring_finished_odd ATTACH PARTITION golden.mainspring_finished_20300106_created_at_idx;
ALTER INDEX golden.mainspring_finished_error ATTACH PARTITION golden.mainspring_finished_20300106_error_task_state_finished_at_idx;
ALTER INDEX golden.mainspring_finished_idempotent ATTACH PARTITION golden.mainspring_finished_20300106_idempotency_key_idx;
ALTER INDEX golden.mainspring_finished_pkey ATTACH PARTITION golden.mainspring_finished_20300106_pkey;
ALTER INDEX golden.mainspring_finished_schedule ATTACH PARTITION golden.mainspring_finished_20300106_schedule_idx;
ALTER INDEX golden.mainspring_finished_tags ATTACH PARTITION golden.mainspring_finished_20300106_tags_idx;
ALTER INDEX golden.mainspring_finished_order ATTACH PARTITION golden.mainspring_finished_20300106_task_queue_state_finished_at_idx;
ALTER INDEX golden.mainspring_finished_unique ATTACH PARTITION golden.mainspring_finished_20300106_unique_key_idx;
ALTER INDEX golden.mainspring_finished_odd ATTACH PARTITION golden.mainspring_finished_20300107_created_at_idx;
ALTER INDEX golden.mainspring_finished_error ATTACH PARTITION golden.mainspring_finished_20300107_error_task_state_finished_at_idx;
ALTER INDEX golden.mainspring_finished_idempotent ATTACH PARTITION golden.mainspring_finished_20300107_idempotency_key_idx;
ALTER INDEX golden.mainspring_finished_pkey ATTACH PARTITION golden.mainspring_finished_20300107_pkey;
ALTER INDEX golden.mainspring_finished_schedule ATTACH PARTITION golden.mainspring_finished_20300107_schedule_idx;
ALTER INDEX golden.mainspring_finished_tags ATTACH PARTITION golden.mainspring_finished_20300107_tags_idx;
ALTER INDEX golden.mainspring_finished_order ATTACH PARTITION golden.mainspring_finished_20300107_task_queue_state_finished_at_idx;
ALTER INDEX golden.mainspring_finished_unique ATTACH PARTITION golden.mainspring_finished_20300107_unique_key_idx;
ALTER INDEX golden.mainspring_finished_odd ATTACH PARTITION golden.mainspring_finished_20300108_created_at_idx;
ALTER INDEX golden.mainspring_finished_error ATTACH PARTITION golden.mainspring_finished_20300108_error_task_state_finished_at_idx;
ALTER INDEX golden.mainspring_finished_idempotent ATTACH PARTITION golden.mainspring_finished_20300108_idempotency_key_idx;
ALTER INDEX golden.mainspring_finished_pkey ATTACH PARTITION golden.mainspring_finished_20300108_pkey;
ALTER INDEX golden.mainspring_finished_schedule ATTACH PARTITION golden.mainspring_finished_20300108_schedule_idx;
ALTER INDEX golden.mainspring_finished_tags ATTACH PARTITION golden.mainspring_finished_20300108_tags_idx;
ALTER INDEX golden.mainspring_finished_order ATTACH PARTITION golden.mainspring_finished_20300108_task_queue_state_finished_at_idx;
ALTER INDEX golden.mainspring_finished_unique ATTACH PARTITION golden.mainspring_finished_20300108_unique_key_idx;
ALTER INDEX golden.mainspring_finished_error ATTACH PARTITION golden.mainspring_rest_error;
ALTER INDEX golden.mainspring_finished_idempotent ATTACH PARTITION golden.mainspring_rest_idempotent;
ALTER INDEX golden.mainspring_finished_odd ATTACH PARTITION golden.mainspring_rest_odd;
ALTER INDEX golden.mainspring_finished_order ATTACH PARTITION golden.mainspring_rest_order;
ALTER INDEX golden.mainspring_finished_pkey ATTACH PARTITION golden.mainspring_rest_pkey;
ALTER INDEX golden.mainspring_finished_schedule ATTACH PARTITION golden.mainspring_rest_schedule;
ALTER INDEX golden.mainspring_finished_tags ATTACH PARTITION golden.mainspring_rest_tags;
ALTER INDEX golden.mainspring_finished_unique ATTACH PARTITION golden.mainspring_rest_unique;
