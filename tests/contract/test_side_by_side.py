"""Releases that know different schemas share a store: side by side if compatible, else with a clear error."""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from filled import fill, told
from further import HARSH, MILD, STERN, after

from mainspring import Mainspring
from mainspring.clock import StoreClock, SystemClock
from mainspring.errors import BadInput, SchemaMismatch, StoreUnavailable
from mainspring.events import StoreTrouble
from mainspring.records.outcome import Done
from mainspring.records.schema import Schema
from mainspring.store import Store
from mainspring.stores.migrations import Migrations
from mainspring.stores.postgres import schema
from mainspring.stores.postgres.store import PostgresStore
from mainspring.stores.postgres.url import PostgresUrl
from mainspring.stores.sqlite import file
from mainspring.stores.sqlite.store import SqliteStore
from mainspring.testing.contract.build import a_worker, finish_run, later, new_job, put, start
from servers import Postgres


class Releases:
    """Three releases: `old`; `new`, with a compatible migration; `later`, with an incompatible one."""

    old: Migrations

    @pytest.fixture(autouse=True)
    def _later(self, place: object) -> None:
        self.new = after(self.old, MILD)
        self.later = after(self.new, HARSH)

    def store(self, migrations: Migrations, **said: object) -> Store:
        raise NotImplementedError

    @asynccontextmanager
    async def opened(self, migrations: Migrations) -> AsyncIterator[Store]:
        store = self.store(migrations)
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    @asynccontextmanager
    async def beating(self, store: Store, migrations: Migrations) -> AsyncIterator[None]:
        """A worker of that release lives meanwhile, by the real clock."""
        info, now = a_worker("ada", schema=migrations.newest), await store.time()
        await store.beat(info, until=now.replace(year=now.year + 1), now=now)
        yield
        await store.beat(info, until=now, now=now)

    async def test_an_older_release_works_on_a_later_compatible_schema(self) -> None:
        async with self.opened(self.new):
            pass
        async with self.opened(self.old) as store:
            n = self.old.newest
            assert await store.schema() == Schema(n + 1, n, n)
            running = await fill(store)
            assert await finish_run(store, running, Done()) == {running.id}

    async def test_an_older_release_refuses_a_later_incompatible_schema(self) -> None:
        async with self.opened(self.later):
            pass
        n = self.old.newest
        with pytest.raises(SchemaMismatch) as refused:
            await self.store(self.old).open()
        assert str(refused.value) == (
            f"the store has schema {n + 2}, for releases that know schema {n + 2} or a later one; "
            f"this one knows {n}: upgrade mainspring"
        )

    async def test_older_release_cannot_migrate_a_later_schema_down(self) -> None:
        async with self.opened(self.new):
            pass
        async with self.opened(self.old) as store:
            with pytest.raises(SchemaMismatch, match="only the release that migrated it there, or a later one"):
                await store.migrate()

    async def test_data_is_the_same_after_every_migration_down_and_up(self) -> None:
        async with self.opened(self.new) as store, self.opened(self.later) as later:
            await later.migrate(self.new.newest)
            running = await fill(store)
            before = await told(store)
            for _ in range(2):
                assert await later.migrate(self.old.newest) == [self.old.newest]
                assert await told(store) == before
                assert await later.migrate() == [self.new.newest, self.later.newest]
                assert await later.migrate(self.new.newest) == [self.new.newest]
                assert await told(store) == before
            assert await finish_run(store, running, Done()) == {running.id}

    async def test_migration_refuses_incompatible_live_workers(self) -> None:
        async with self.opened(self.old) as old:
            async with self.beating(old, self.old):
                refused = f"workers are alive that cannot work with schema {self.later.newest}: ada (knows"
                with pytest.raises(StoreUnavailable) as told:
                    await self.store(self.later).open()
                assert str(told.value).startswith(refused)
                assert str(told.value).endswith("; stop them first")
                assert (await old.schema()).version == self.old.newest
            async with self.opened(self.later) as later:
                assert (await later.schema()).version == self.later.newest

    async def test_compatible_migration_ignores_live_workers(self) -> None:
        async with self.opened(self.old) as old, self.beating(old, self.old), self.opened(self.new) as new:
            assert (await new.schema()).usable
            assert (await old.schema()).usable

    async def test_migration_down_refuses_workers_of_a_later_schema(self) -> None:
        async with self.opened(self.new) as new:
            async with self.beating(new, self.new):
                with pytest.raises(StoreUnavailable, match=f"cannot work with schema {self.old.newest}: ada"):
                    await new.migrate(self.old.newest)
            assert await new.migrate(self.old.newest) == [self.old.newest]

    async def test_silent_workers_do_not_block_a_migration(self) -> None:
        async with self.opened(self.old) as old:
            at = (await old.time()).replace(year=2020)
            await old.beat(a_worker("ada", schema=self.old.newest), until=at, now=at.replace(year=2019))
            async with self.opened(self.later) as later:
                assert (await later.schema()).version == self.later.newest

    async def test_beat_on_an_incompatible_schema_raises_schema_mismatch(self) -> None:
        async with self.opened(self.old) as old:
            job = await start(old)
            async with self.opened(self.later):
                with pytest.raises(SchemaMismatch, match="upgrade mainspring"):
                    await old.beat(a_worker(), until=later(60), now=later(0))
                # A statement on a renamed table raises the same error.
                with pytest.raises(SchemaMismatch, match="upgrade mainspring"):
                    await old.pause_queue("mail", True)
                assert await finish_run(old, job, Done()) == {job.id}

    async def test_call_without_tables_raises_schema_mismatch(self) -> None:
        async with self.opened(self.old) as store:
            await store.migrate(0)
            with pytest.raises(SchemaMismatch, match="has schema 0, this release works with"):
                await put(store, new_job())

    async def test_store_can_be_opened_unmigrated_and_migrated_later(self) -> None:
        store = self.store(self.new)
        await store.open(migrate=False)
        assert await store.schema() == Schema(0, self.new.newest, 0)
        assert await store.migrate(self.old.newest) == list(range(1, self.old.newest + 1))
        await store.open()
        assert (await store.schema()).version == self.new.newest
        await store.close()

    async def test_migration_to_an_unknown_schema_version_is_refused(self) -> None:
        async with self.opened(self.old) as store:
            with pytest.raises(BadInput, match="there is no schema version 99"):
                await store.migrate(99)

    # workers

    def app(self, migrations: Migrations) -> Mainspring:
        clock = StoreClock(SystemClock())
        app = Mainspring(self.store(migrations, clock=clock), clock=clock, beat=0.05, lease=5, poll_interval=0.2)

        @app.task(name="double")
        async def double(n: int) -> int:
            return 2 * n

        return app

    async def test_workers_of_both_releases_run_during_migrations(self) -> None:
        old, other = self.app(self.old), self.app(self.old)
        async with asyncio.timeout(60), old, other, self.opened(self.new) as new, old.worker(), other.worker():
            handles = []
            for turn in range(6):
                await new.migrate(self.new.newest if turn % 2 else self.old.newest)
                handles += await old.enqueue_many(old.tasks["double"].job(n=n) for n in range(50))
            assert [await handle.result(timeout=20) for handle in handles] == [2 * n for n in range(50)] * 6
            jobs = [await handle.job() for handle in handles]
            assert {(job.attempt, job.crashes) for job in jobs} == {(1, 0)}

    async def test_worker_row_has_the_schema_it_knows(self) -> None:
        app = self.app(self.old)
        async with asyncio.timeout(20), app, app.worker():
            assert [worker.info.schema for worker in await app.workers.list()] == [self.old.newest]

    async def test_a_new_worker_waits_until_the_old_ones_have_stopped(self) -> None:
        old, new = self.app(self.old), self.app(after(self.old, STERN))
        waits = asyncio.Event()
        new.events.subscribe(
            StoreTrouble, lambda trouble: waits.set() if "workers are alive" in trouble.error else None
        )
        async with asyncio.timeout(30), old, old.worker():
            starting = asyncio.create_task(new.worker().__aenter__())
            await waits.wait()
            handle = await old.tasks["double"].enqueue(n=1)
            assert await handle.result(timeout=9) == 2
            assert not starting.done()
        async with asyncio.timeout(30), new:
            worker = await starting
            handle = await new.tasks["double"].enqueue(n=2)
            assert await handle.result(timeout=9) == 4
            await worker.stop()

    async def test_worker_ends_with_an_error_on_an_incompatible_schema(self, caplog: pytest.LogCaptureFixture) -> None:
        app = self.app(self.old)
        async with asyncio.timeout(20), app:
            worker = app.worker()
            running = asyncio.create_task(worker.run())
            while not await app.workers.list():
                await asyncio.wait([running], timeout=0.01)
            await self.forced()
            with caplog.at_level(logging.ERROR, "mainspring"), pytest.raises(BaseExceptionGroup) as ended:
                await running
        assert ended.group_contains(SchemaMismatch, match="upgrade mainspring")
        assert "ended by SchemaMismatch: the store has schema" in caplog.text

    async def forced(self) -> None:
        """The last release migrates the schema although there are live workers: their rows were removed."""
        store = self.store(self.later)
        await store.open(migrate=False)
        for _ in range(100):
            async with asyncio.timeout(10):
                await self.forget_workers()
                try:
                    await store.migrate()
                except StoreUnavailable:  # a beat came between
                    continue
                break
        await store.close()

    async def forget_workers(self) -> None:
        raise NotImplementedError


class TestSqlite(Releases):
    old = file.MIGRATIONS

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.path = str(tmp_path / "jobs.db")

    def store(self, migrations: Migrations, **said: object) -> Store:
        return SqliteStore(self.path, migrations=migrations, **said)  # type: ignore[arg-type]

    async def forget_workers(self) -> None:
        with sqlite3.connect(self.path, timeout=10) as db:
            db.execute("DELETE FROM mainspring_workers")
        db.close()


class TestPostgres(Releases):
    old = schema.MIGRATIONS

    @pytest.fixture(autouse=True)
    def place(self, postgres: Postgres) -> None:
        self.server, url = postgres, postgres.own("releases")
        self.where = PostgresUrl(url, url)

    def store(self, migrations: Migrations, **said: object) -> Store:
        return PostgresStore(self.where, migrations=migrations, **said)  # type: ignore[arg-type]

    async def forget_workers(self) -> None:
        await asyncio.to_thread(self.server.run, "DELETE FROM releases.mainspring_workers")
