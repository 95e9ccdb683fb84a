"""Migrations of the PostgreSQL store beside live workers: locks, rights, a script for psql."""

import asyncio
import re
import subprocess
from typing import Any

import pytest
from filled import fill, told
from further import HARSH, LAST, NEXT, REAL, Placed, after

from mainspring import Mainspring
from mainspring.errors import BadInput, SchemaMismatch, StoreError, StoreUnavailable
from mainspring.records.outcome import Done
from mainspring.stores import open_store
from mainspring.stores.migrations import Migrations
from mainspring.stores.postgres import schema, script
from mainspring.stores.postgres.pool import Pool, Session
from mainspring.stores.postgres.store import PostgresStore
from mainspring.stores.postgres.url import PostgresUrl
from mainspring.testing.contract.build import a_schedule, a_worker, finish_run, fire, later, new_job, put, start
from servers import Postgres, program

WAITS = """SELECT EXISTS (SELECT 1 FROM pg_locks
    WHERE relation = 'own.mainspring_queues'::regclass AND mode = 'AccessExclusiveLock' AND NOT granted)"""


class TestSteps(Placed):
    @pytest.mark.parametrize("migrations", [REAL, NEXT], ids=["real", "one more"])
    async def test_live_rows_survive_every_migration_down_and_up(self, migrations: Migrations) -> None:
        async with self.opened(migrations=migrations) as store:
            running = await fill(store)
            before = await told(store)
            for version in range(migrations.newest - 1, 0, -1):
                assert (await store.migrate(version))[-1] == version
                assert (await store.schema()).version == version
                assert (await store.migrate())[-1] == migrations.newest
                assert await told(store) == before
            assert await finish_run(store, running, Done()) == {running.id}

    async def test_tables_are_the_same_whatever_the_migration_path(self) -> None:
        async with self.opened(migrations=NEXT) as store:
            at_once = self.shape()
            await store.migrate(1)
            await store.migrate()
            stepped = self.shape()
            await store.migrate(0)
            assert self.tables() == []
            assert await store.migrate() == list(range(1, NEXT.newest + 1))
        assert self.shape() == stepped == at_once

    async def test_concurrent_migrations_run_once(self) -> None:
        stores = [self.store(migrations=NEXT) for _ in range(6)]
        await asyncio.gather(*(store.open(migrate=False) for store in stores))
        passed = await asyncio.gather(*(store.migrate() for store in stores))
        assert sorted(passed) == [[]] * 5 + [list(range(1, NEXT.newest + 1))]
        await asyncio.gather(*(store.close() for store in stores))

    async def test_failed_migration_changes_nothing(self) -> None:
        broken = Migrations(f"{NEXT.text}\n-- up {NEXT.newest + 1}\nDROP TABLE mainspring_moods;\nSELECT 1 / 0;\n")
        async with self.opened(migrations=NEXT):
            before = self.shape()
            with pytest.raises(StoreError, match="division by zero"):
                await self.store(migrations=broken).open()
            assert self.shape() == before

    async def test_tables_without_oldest_are_for_their_own_version(self) -> None:
        async with self.opened(), self.connected() as other:
            await other.execute("ALTER TABLE own.mainspring_schema DROP COLUMN oldest")
        async with self.opened(migrations=NEXT) as store:
            assert (await store.schema()).oldest == NEXT.oldest(NEXT.newest)

    async def test_statement_prepared_before_a_migration_is_prepared_again(self) -> None:
        pool = Pool(PostgresUrl(self.url, ""))

        async def look(db: Session) -> list[Any]:
            return [tuple(row) for row in await db.rows("SELECT * FROM mainspring_queues")]

        async with self.opened() as store, self.connected() as other:
            await store.pause_queue("mail", True)
            assert await pool.transact(look) == [("mail", True)]
            await other.execute("ALTER TABLE own.mainspring_queues ADD COLUMN note text DEFAULT 'new'")
            assert await pool.transact(look) == [("mail", True, "new")]
        await pool.close()


class TestLocks(Placed):
    @pytest.fixture(autouse=True)
    def _soon(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(script, "LOCK_SECONDS", 0.2)
        monkeypatch.setattr(schema, "RETRY_SECONDS", 0.05)
        monkeypatch.setattr(schema, "MAX_LOCK_TRIES", 2)

    async def test_migration_names_the_holder_of_its_lock(self) -> None:
        async with self.opened(), self.connected() as other, other.transaction():
            await other.execute("SELECT count(*) AS figures FROM own.mainspring_jobs")
            with pytest.raises(StoreUnavailable) as refused:
                await self.store(migrations=NEXT).open()
        assert re.fullmatch(
            r"the schema of the database was not changed: 2 times a lock was not given in 0.2 s\. Held by pid \d+ "
            r"\(user tests, a report, idle in transaction, open for \d s: SELECT count\(\*\) AS figures FROM "
            r"own\.mainspring_jobs\)\. End it \(pg_terminate_backend\), or try again later",
            str(refused.value),
        )

    async def test_migration_names_another_migration_that_does_not_end(self) -> None:
        async with self.connected() as other, other.transaction():
            await other.execute("SELECT pg_advisory_xact_lock($1, -1)", PostgresUrl(self.url, "").lock)
            with pytest.raises(StoreUnavailable, match=r"Held by pid \d+ \(user tests, a report, idle in transaction"):
                await self.store().open()

    async def test_migration_proceeds_once_the_lock_is_free(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(schema, "MAX_LOCK_TRIES", 100)
        async with self.opened() as old, self.connected() as other, asyncio.timeout(20):
            lock = other.transaction()
            await lock.start()
            await other.execute("SELECT 1 FROM own.mainspring_jobs")
            stepping = asyncio.create_task(self.step(NEXT))
            await asyncio.wait([stepping], timeout=0.5)
            assert (stepping.done(), (await old.schema()).version) == (False, REAL.newest)
            await lock.rollback()
            await stepping
            assert (await old.schema()).version == NEXT.newest

    async def test_other_transactions_proceed_while_a_migration_retries(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(schema, "MAX_LOCK_TRIES", 100)
        async with self.opened() as store, self.connected() as other, asyncio.timeout(20):
            async with other.transaction():
                await other.execute("SELECT 1 FROM own.mainspring_jobs")
                stepping = asyncio.create_task(self.step(NEXT))
                for _ in range(5):
                    job = await start(store)
                    assert await finish_run(store, job, Done()) == {job.id}
                assert not stepping.done()
            await stepping

    async def test_beat_waits_for_a_migration_that_has_checked_workers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(script, "LOCK_SECONDS", 20.0)
        async with self.opened() as store, self.connected() as other, asyncio.timeout(20):
            async with other.transaction():
                await other.execute("SELECT 1 FROM own.mainspring_queues")
                stepping = asyncio.create_task(self.step(after(REAL, HARSH)))
                while not await other.fetchval(WAITS):
                    await asyncio.wait([stepping], timeout=0.01)
                beating = asyncio.create_task(store.beat(a_worker(schema=REAL.newest), until=later(60), now=later(0)))
                await asyncio.wait([beating], timeout=0.2)
                assert not beating.done()
            await stepping
            with pytest.raises(SchemaMismatch):
                await beating
            assert self.server.run("SELECT id FROM own.mainspring_workers") == []


class TestScript(Placed):
    def play(self, script: str, user: str = "tests") -> subprocess.CompletedProcess[str]:
        where = ["-h", "127.0.0.1", "-p", str(self.server.port), "-U", user, "-d", "postgres"]
        command = [program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", *where]
        return subprocess.run(command, input=script, text=True, capture_output=True, timeout=60)

    async def test_script_in_psql_migrates_like_the_store(self) -> None:
        for at, to in [(0, REAL.newest), (REAL.newest, NEXT.newest), (NEXT.newest, 1), (1, 0)]:
            played = self.play(self.store(migrations=NEXT).script(at, to))
            assert (played.returncode, played.stdout, played.stderr) == (0, "", "")
            by_psql = self.shape()
            rows = [tuple(row) for row in self.server.run("SELECT * FROM own.mainspring_schema")] if to else None
            self.server.own("own")
            async with self.opened(migrations=NEXT) as store:
                await store.migrate(to)
                assert self.shape() == by_psql
                assert rows == ([(to, NEXT.oldest(to))] if to else None)

    async def test_store_migrated_by_psql_works(self) -> None:
        url = f"{self.url}&prefix=shop_"
        assert self.play(self.store(url).script(0)).returncode == 0
        async with self.opened(url) as store:
            running = await fill(store)
            assert await finish_run(store, running, Done()) == {running.id}

    async def test_script_for_another_version_changes_nothing(self) -> None:
        script = self.store(migrations=NEXT).script(REAL.newest)
        played = self.play(script)
        assert f"ERROR:  the schema is 0, these are the steps from {REAL.newest}" in played.stderr
        assert (played.returncode, self.tables()) == (3, [])
        async with self.opened(migrations=NEXT):
            assert f"the schema is {NEXT.newest}, these are the steps from" in self.play(script).stderr

    async def test_script_refuses_incompatible_workers(self) -> None:
        async with self.opened() as store:
            now = await store.time()
            await store.beat(a_worker(schema=REAL.newest), until=now.replace(year=now.year + 1), now=now)
            played = self.play(self.store(migrations=LAST).script(REAL.newest))
            assert f"workers are alive that cannot work with schema {LAST.newest}: ada (knows" in played.stderr
            assert (await store.schema()).version == REAL.newest

    def test_script_contains_tables_locks_and_version(self) -> None:
        script = self.store(f"{self.url}&prefix=shop_").script(0)
        assert "mainspring" not in script
        for line in ("BEGIN;", "SET LOCAL lock_timeout = '2000ms';", 'SET LOCAL search_path = "own";', "COMMIT;"):
            assert script.count(f"{line}\n") == 1
        version = f"{REAL.newest}, {REAL.oldest(REAL.newest)}"
        assert f'INSERT INTO "shop_schema" (version, oldest) SELECT {version};' in script

    def test_script_to_the_same_version_is_empty(self) -> None:
        script = self.store().script(1, 1)
        assert script == "-- own.mainspring_* has schema 1: nothing to do\n"

    def test_script_of_unknown_versions_is_refused(self) -> None:
        for at, to in [(99, 1), (0, 99), (-1, 1)]:
            with pytest.raises(BadInput, match="there is no schema version"):
                self.store().script(at, to)


class TestRights(Placed):
    """A role that may use tables and not make them."""

    @pytest.fixture(autouse=True)
    def _clerk(self, _server: None) -> None:
        if self.server.run("SELECT 1 FROM pg_roles WHERE rolname = 'clerk'"):
            self.server.run("DROP OWNED BY clerk")
            self.server.run("DROP ROLE clerk")
        self.server.run("CREATE ROLE clerk LOGIN")
        self.clerk = self.url.replace("tests@", "clerk@")

    def grant(self) -> None:
        self.server.run("GRANT USAGE ON SCHEMA own TO clerk")
        self.server.run("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA own TO clerk")

    async def test_script_works_with_schema_and_prefix(self) -> None:
        async with self.opened():
            self.grant()
        async with self.opened(self.clerk) as store:
            running = await fill(store)
            assert await finish_run(store, running, Done()) == {running.id}
            assert (await fire(store, a_schedule())).stands
            assert await store.diagnose()

    async def test_missing_schema_error_names_the_grant(self) -> None:
        with pytest.raises(StoreError) as refused:
            await self.store(self.clerk).open()
        assert not isinstance(refused.value, StoreUnavailable)
        assert str(refused.value) == (
            f"role 'clerk' may not change the tables of the database from schema 0 to {REAL.newest} (permission denied "
            "for database postgres): let their owner run what `mainspring migrate up --sql --from 0` prints, or "
            '`mainspring migrate up`; or, for this role to own them: GRANT CREATE ON DATABASE "postgres" TO "clerk"'
        )

    async def test_missing_tables_error_names_the_grant(self) -> None:
        self.server.run("CREATE SCHEMA own")
        self.server.run("GRANT USAGE ON SCHEMA own TO clerk")
        with pytest.raises(StoreError, match='GRANT CREATE ON SCHEMA "own" TO "clerk"'):
            await self.store(self.clerk).open()
        self.server.run("GRANT CREATE ON SCHEMA own TO clerk")
        async with self.opened(self.clerk) as store:
            assert await put(store, new_job())

    async def test_tables_of_another_owner_are_not_migrated(self) -> None:
        async with self.opened() as store:
            self.grant()
            with pytest.raises(StoreError, match=f"must be owner.*migrate up --sql --from {REAL.newest}` prints"):
                await self.store(self.clerk, NEXT).open()
            assert (await store.schema()).version == REAL.newest

    async def test_missing_read_right_raises_the_servers_error(self) -> None:
        async with self.opened():
            with pytest.raises(StoreError, match="permission denied for schema own"):
                await self.store(self.clerk).open()


async def test_app_on_an_incompatible_schema_fails_at_first_use(postgres: Postgres) -> None:
    url = postgres.own("own")
    later = PostgresStore(PostgresUrl(url, url), migrations=LAST)
    await later.open()
    await later.close()
    app = Mainspring(url)
    assert (await app.health()).reasons[0].endswith("upgrade mainspring")
    with pytest.raises(SchemaMismatch):
        await app.stats()
    await app.close()
    assert open_store(url).script(0).startswith("-- own.mainspring_*: from schema 0 to")
