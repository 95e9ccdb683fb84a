"""The PostgreSQL store keeps the contract, shares its database, and comes back after trouble."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import asyncpg
import pytest
from sharing import Sharing

from mainspring import Mainspring
from mainspring.errors import BadInput, SchemaMismatch, StoreError, StoreUnavailable
from mainspring.records.job import Enqueued, State
from mainspring.records.outcome import Done
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.postgres.claim import TAKE_PLAIN
from mainspring.stores.postgres.completions import COMPLETE_ALL
from mainspring.stores.postgres.pool import HOT_SETTINGS, RETRIED_SQLSTATES, SEPARATOR, SETTINGS, Pool, Session
from mainspring.stores.postgres.store import PostgresStore
from mainspring.stores.postgres.url import PostgresUrl
from mainspring.testing.contract import StoreContract
from mainspring.testing.contract.build import (
    NOW,
    Contract,
    all_jobs,
    beat,
    claim,
    finish_run,
    job_in_state,
    later,
    new_job,
    put,
    start,
)
from mainspring.testing.contract.checkpoint import CheckpointContract
from mainspring.testing.contract.flow import FlowContract
from mainspring.testing.contract.flow_actions import FlowActionsContract
from mainspring.testing.contract.flow_requests import FlowRequestsContract
from mainspring.testing.contract.signal import SignalContract
from servers import Postgres

CLAIMER = Path(__file__).with_name("claimer.py")


class Served(Contract):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres) -> None:
        self.server, self.url = postgres, postgres.fresh()

    def make_store(self) -> Store:
        return open_store(self.url)

    def open_connections(self, state: str = "%") -> int:
        sql = f"""SELECT count(*) FROM pg_stat_activity
            WHERE application_name = 'mainspring' AND coalesce(state, '') LIKE '{state}'"""
        gc.collect()  # frees connections of event loops that were closed before them
        for _ in range(500):  # a server process is gone a moment after its connection
            if (count := self.server.run(sql)[0][0]) == 0:
                break
        return int(count)

    @asynccontextmanager
    async def connected(self, **settings: str) -> AsyncIterator[Any]:
        connection = await asyncpg.connect(self.server.dsn, server_settings=settings)
        try:
            yield connection
        finally:
            await connection.close()


@pytest.mark.slow
class TestPostgres(
    Served, StoreContract, CheckpointContract, FlowContract, FlowActionsContract, FlowRequestsContract, SignalContract
):
    """The contract's jobs are in no daily partition; test_postgres_partitions.py runs it with one."""


@pytest.mark.slow
class TestPostgresByOtherNames(StoreContract):
    """Schema and prefix from settings."""

    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres) -> None:
        self.url = postgres.fresh("elsewhere").partition("&schema=")[0]

    def make_store(self) -> Store:
        return open_store(self.url, postgres_schema="elsewhere", postgres_table_prefix="shop_")


class TestSharing(Served, Sharing):
    async def test_claim_skips_locked_jobs(self) -> None:
        async with self.opened() as store, self.connected() as other, asyncio.timeout(5):
            locked, *rest = await put(store, *(new_job() for _ in range(3)))
            await beat(store)
            async with other.transaction():
                await other.execute("SELECT 1 FROM fresh.mainspring_jobs WHERE id = $1 FOR UPDATE", locked)
                taken = await claim(store, limit=3)
            assert ([job.id for job in taken.jobs], taken.next_at) == (rest, NOW)

    async def test_two_apps_in_one_database_are_separate(self) -> None:
        for place in (f"{self.url}&prefix=other_", self.server.own("elsewhere")):
            other = open_store(place)
            await other.open()
            async with self.opened() as store:
                (job_id,) = await put(store, new_job(unique_key="key"))
                assert await put(other, new_job(unique_key="key")) != [job_id]
                await beat(other)
                assert [job.id for job in (await claim(other)).jobs] != [job_id]
            await other.close()

    async def test_job_inserted_again_while_it_ends_can_end_again(self) -> None:
        # The effect of a repeated enqueue that overtakes the end of its own job.
        async with self.opened() as store, self.connected() as other:
            job = new_job(idempotency_key="key")
            await put(store, job)
            await beat(store)
            (run,) = (await claim(store)).jobs
            await finish_run(store, run, Done('"first"'))
            kept = "id, queue, task, rank, run_at, created_at, idempotency_key, options, payload"
            await other.execute(f"""INSERT INTO fresh.mainspring_jobs ({kept}, state)
                SELECT {kept}, 'pending' FROM fresh.mainspring_finished""")
            (again,) = (await claim(store)).jobs
            await finish_run(store, again, Done('"second"'), now=later(2))
            (only,) = await all_jobs(store)
            assert (only.state, only.result) == (State.COMPLETED, '"second"')

    async def test_enqueue_repeated_while_its_job_ends_inserts_nothing(self) -> None:
        async with self.opened() as store, self.connected() as other, asyncio.timeout(20):
            job = new_job()
            await put(store, job)
            async with other.transaction():
                await other.execute("DELETE FROM fresh.mainspring_jobs")  # what its end does first
                repeated = asyncio.create_task(put(store, job))
                await asyncio.wait([repeated], timeout=0.2)
            assert await repeated == [job.id]
            assert await all_jobs(store) == []

    async def test_batch_repeated_in_part_inserts_what_is_missing(self) -> None:
        async with self.opened() as store:
            jobs = [new_job(), new_job(), new_job()]
            await put(store, *jobs[:2])
            await beat(store)
            (run,) = (await claim(store, limit=1)).jobs
            await finish_run(store, run, Done())
            assert await put(store, *jobs) == [job.id for job in jobs]
            assert [job.id for job in (await claim(store)).jobs] == [job.id for job in jobs[1:]]

    async def test_batch_repeated_while_its_jobs_end_inserts_nothing(self) -> None:
        async with self.opened() as store, self.connected() as other, asyncio.timeout(20):
            jobs = [new_job(), new_job()]
            await put(store, *jobs)
            async with other.transaction():
                await other.execute("DELETE FROM fresh.mainspring_jobs")  # what their end does first
                repeated = asyncio.create_task(put(store, *jobs))
                await asyncio.wait([repeated], timeout=0.2)
            await repeated
            assert await all_jobs(store) == []


class TestWithin(Served):
    async def test_a_job_enqueued_within_a_transaction_is_there_after_its_commit(self) -> None:
        async with self.opened() as store, self.connected() as mine:
            job = new_job(unique_key="key")
            async with mine.transaction():
                assert await store.enqueue([job], now=NOW, within=mine) == [Enqueued(job.id)]
                assert await all_jobs(store) == []
            assert [found.id for found in await all_jobs(store)] == [job.id]

    async def test_a_job_enqueued_within_a_transaction_is_removed_by_its_rollback(self) -> None:
        async with self.opened() as store, self.connected() as mine:
            transaction = mine.transaction()
            await transaction.start()
            await store.enqueue([new_job(), new_job(unique_key="key")], now=NOW, within=mine)
            await transaction.rollback()
            assert await all_jobs(store) == []

    async def test_a_batch_refused_within_a_transaction_leaves_the_rest_of_it_alone(self) -> None:
        async with self.opened() as store, self.connected() as mine:
            job = new_job(unique_key="key")
            refused = [new_job(), new_job(unique_key="key", on_conflict="raise")]
            async with mine.transaction():
                await store.enqueue([job], now=NOW, within=mine)
                assert (await store.enqueue(refused, now=NOW, within=mine))[1] == Enqueued(job.id, "refused", "key")
            assert [found.id for found in await all_jobs(store)] == [job.id]

    async def test_commit_of_a_caller_wakes_waiters(self) -> None:
        async with self.opened() as store, self.connected() as mine, asyncio.timeout(5):
            await store.wait("claimable", 50)  # ends when it begins to listen
            waiting = asyncio.create_task(store.wait("claimable", 50))
            while not waiting.done():
                async with mine.transaction():
                    await store.enqueue([new_job()], now=NOW, within=mine)
                await asyncio.wait([waiting], timeout=0.02)

    async def test_within_without_an_open_transaction_is_refused(self) -> None:
        async with self.opened() as store, self.connected() as mine:
            with pytest.raises(BadInput, match="needs an open transaction"):
                await store.enqueue([new_job()], now=NOW, within=mine)
            with pytest.raises(BadInput, match=r"takes a connection of asyncpg .*; got object"):
                await store.enqueue([new_job()], now=NOW, within=object())


class TestSchema(Served):
    @pytest.fixture(autouse=True)
    def _own(self, _server: None) -> None:
        self.url = self.server.own("own")

    async def test_schema_migrates_down_and_up_again(self) -> None:
        async with self.opened() as store:
            newest = (await store.schema()).newest
            assert await store.migrate(0) == list(range(newest - 1, -1, -1))
            assert (await store.schema()).version == 0
            assert await store.migrate() == list(range(1, newest + 1))
            assert await all_jobs(store) == []

    async def test_concurrent_opens_of_an_empty_database_succeed(self) -> None:
        stores = [open_store(self.url) for _ in range(6)]
        await asyncio.gather(*(store.open() for store in stores))
        (job_id,) = await put(stores[0], new_job())
        assert [[job.id for job in await all_jobs(store)] for store in stores] == [[job_id]] * 6
        await asyncio.gather(*(store.close() for store in stores))

    async def test_schema_of_a_later_release_is_refused(self) -> None:
        async with self.opened(), self.connected() as other:
            await other.execute("UPDATE own.mainspring_schema SET version = 99, oldest = 99")
        with pytest.raises(SchemaMismatch, match="has schema 99"):
            await self.make_store().open()
        assert self.open_connections() == 0

    async def test_migration_to_an_unknown_schema_version_is_refused(self) -> None:
        async with self.opened() as store:
            with pytest.raises(BadInput, match="there is no schema version 99"):
                await store.migrate(99)


class TestManyGroups(Served):
    """Claims from more groups than they take jobs."""

    async def test_claims_of_more_groups_than_jobs_take_the_first_jobs(self) -> None:
        async with self.opened() as store:
            jobs = [
                new_job(queue=f"queue{n % 14}", priority=n * 7 % 3, run_at=later(-(n * 37 % 50) - 1)) for n in range(90)
            ]
            await put(store, *jobs)
            await beat(store)
            found = [job.id for _ in range(18) for job in (await claim(store, limit=5)).jobs]
            order = sorted(jobs, key=lambda job: (-job.priority, job.run_at, job.id))
            assert found == [job.id for job in order]

    @pytest.mark.parametrize(
        ("sizes", "apart"),
        [([60, 9, 9, 9, 9, 9], 60), ([60, 1, 1, 1, 1, 1], 60), ([5, 5, 70, 3], 1), ([33, 33, 33], 0), ([45, 45], 45)],
    )
    @pytest.mark.parametrize("ranks", [1, 3])
    async def test_claims_of_more_jobs_than_groups_take_the_first_jobs(
        self, sizes: list[int], apart: int, ranks: int
    ) -> None:
        """The jobs of the n-th queue are due `apart` seconds after those of the one before."""
        async with self.opened() as store:
            jobs = [
                new_job(queue=f"queue{n}", priority=m % ranks, run_at=later(m + n * apart - 900))
                for n, size in enumerate(sizes)
                for m in range(size)
            ]
            await put(store, *jobs)
            await beat(store)
            found = [job.id for _ in range(6) for job in (await claim(store, limit=20)).jobs]
            order = sorted(jobs, key=lambda job: (-job.priority, job.run_at, job.id))
            assert found == [job.id for job in order]

    async def test_claims_of_jobs_due_at_one_instant_take_them_by_id(self) -> None:
        async with self.opened() as store:
            ids = await put(store, *(new_job(queue=f"queue{n * 5 % 8}") for n in range(24)))
            await beat(store)
            assert [job.id for _ in range(8) for job in (await claim(store, limit=3)).jobs] == ids


class TestStride(Served):
    """Claims of a long backlog, as if every survey of it were slow."""

    @pytest.fixture(autouse=True)
    def _slow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in (
            ("MIN_BACKLOG_JOBS", 5),
            ("SLOW_SURVEY_SECONDS", -1.0),
            ("SURVEY_EVERY_SECONDS", 0.0),
            ("SURVEY_REST_FACTOR", 0.0),
        ):
            monkeypatch.setattr(f"mainspring.stores.postgres.claim.{name}", value)

    async def taken(self, store: Store) -> list[str]:
        """The jobs of one claim, after the survey that it started has ended."""
        jobs = (await claim(store, limit=5)).jobs
        if (survey := cast(PostgresStore, store)._survey) is not None:
            await survey
        return [job.id for job in jobs]

    async def test_backlog_cursor_continues_after_the_last_claim(self) -> None:
        async with self.opened() as store:
            ids = await put(store, *(new_job(queue=f"queue{n % 3}", priority=-(n // 20)) for n in range(60)))
            await beat(store)
            found = [await self.taken(store) for _ in range(12)]
            assert found == [ids[n : n + 5] for n in range(0, 60, 5)]
            assert await self.taken(store) == []

    async def test_claim_does_not_count_a_job_behind_the_backlog_cursor(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("mainspring.stores.postgres.claim.SURVEY_EVERY_SECONDS", 1000.0)
        async with self.opened() as store:
            ids = await put(store, *(new_job(queue=f"queue{n % 5}") for n in range(20)))
            await beat(store)
            assert await self.taken(store) + await self.taken(store) == ids[:10]
            await put(store, new_job(id="0", queue="queue0"))
            assert await self.taken(store) == ids[10:15]

    async def test_survey_finds_a_job_behind_the_backlog_cursor(self) -> None:
        async with self.opened() as store:
            ids = await put(store, *(new_job() for _ in range(20)))
            await beat(store)
            found = await self.taken(store)
            ids += await put(store, new_job(run_at=later(-60)), new_job(queue="another", priority=9))
            while some := await self.taken(store):
                found += some
            assert sorted(found) == sorted(ids)

    async def test_store_can_be_closed_during_a_survey(self) -> None:
        async with self.opened() as store:
            await put(store, *(new_job() for _ in range(20)))
            await beat(store)
            assert len((await claim(store, limit=5)).jobs) == 5


class TestTrouble(Served):
    async def test_lost_connections_fail_one_call_each_at_most(self) -> None:
        async with self.opened() as store, self.connected() as other:
            (job_id,) = await put(store, new_job())
            await other.execute("""SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity
                WHERE application_name = 'mainspring'""")
            try:
                await beat(store)
            except StoreUnavailable:
                await beat(store)
            assert [job.id for job in (await claim(store)).jobs] == [job_id]

    @pytest.mark.parametrize("turns", range(5))
    async def test_connection_being_terminated_fails_one_call_at_most(self, turns: int) -> None:
        async with self.opened() as store:
            await beat(store)
            # From another thread, so that this event loop receives nothing of it before its next iteration.
            self.server.run("""SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity
                WHERE application_name = 'mainspring'""")
            for _ in range(turns):
                await asyncio.sleep(0)
            with suppress(StoreUnavailable):
                await beat(store)
            await beat(store)

    async def test_handle_works_after_a_restart_of_the_server(self) -> None:
        async with self.opened() as store, asyncio.timeout(50):
            job = await start(store)
            await asyncio.to_thread(self.server.end)
            with pytest.raises(StoreUnavailable):
                await finish_run(store, job, Done())
            await asyncio.to_thread(self.server.start)
            assert await finish_run(store, job, Done()) == {job.id}

    async def test_waiter_receives_notifications_after_a_reconnect(self) -> None:
        async with self.opened() as left, self.opened() as right, self.connected() as other, asyncio.timeout(20):
            for _ in range(2):
                waiting = asyncio.create_task(left.wait("claimable", 50))
                while not waiting.done():
                    await put(right, new_job())
                    await asyncio.wait([waiting], timeout=0.02)
                await other.execute("""SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity
                    WHERE query LIKE 'LISTEN%' AND pid <> pg_backend_pid()""")

    async def test_cancelled_caller_leaves_no_transaction_open(self) -> None:
        async with self.opened() as store, self.connected() as other, asyncio.timeout(20):
            job = await start(store)
            lock = other.transaction()
            await lock.start()
            await other.execute("SELECT 1 FROM fresh.mainspring_jobs FOR UPDATE")
            settling = asyncio.create_task(finish_run(store, job, Done()))
            await asyncio.wait([settling], timeout=0.1)
            settling.cancel()
            await asyncio.wait([settling])
            await lock.rollback()
            assert self.open_connections("%in transaction%") == 0
            assert await all_jobs(store)

    @pytest.mark.parametrize("code", RETRIED_SQLSTATES)
    async def test_deadlocked_transaction_runs_again(self, code: str) -> None:
        pool, played = Pool(PostgresUrl(self.url, "")), 0

        async def step(db: Session) -> int:
            nonlocal played
            played += 1
            if played < 3:
                await db.run(f"DO $$ BEGIN RAISE SQLSTATE '{code}'; END $$")
            return played

        assert await pool.transact(step) == 3
        await pool.close()

    async def test_idle_transaction_does_not_block_others(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert int(SETTINGS["idle_in_transaction_session_timeout"]) < int(SETTINGS["lock_timeout"])
        monkeypatch.setitem(SETTINGS, "idle_in_transaction_session_timeout", "300")
        pool = Pool(PostgresUrl(self.url, "the server"))

        async def locked(db: Session) -> None:
            await db.run("SELECT pg_advisory_xact_lock(1, 2)")

        async def standing(db: Session) -> None:
            await locked(db)
            await pool.transact(locked)

        with pytest.raises(StoreUnavailable):
            await pool.transact(standing)
        await pool.close()

    async def test_lock_timeout_raises_store_unavailable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("mainspring.stores.postgres.pool.MAX_TRIES", 2)
        for settings in (SETTINGS, HOT_SETTINGS):
            monkeypatch.setitem(settings, "lock_timeout", "20")
        async with self.opened() as store, self.connected() as other:
            job = await start(store)
            async with other.transaction():
                await other.execute("LOCK TABLE fresh.mainspring_jobs IN ACCESS EXCLUSIVE MODE")
                with pytest.raises(StoreUnavailable, match="55P03"):
                    await finish_run(store, job, Done())
            assert await finish_run(store, job, Done()) == {job.id}

    async def test_an_unreachable_server_raises_store_unavailable(self) -> None:
        with pytest.raises(StoreUnavailable, match="cannot connect to postgresql://ada@127"):
            await open_store("postgresql://ada@127.0.0.1:1/jobs").open()

    async def test_a_missing_database_raises_store_error(self) -> None:
        with pytest.raises(StoreError, match='"nowhere" does not exist') as refused:
            await open_store(self.server.dsn.replace("/postgres?", "/nowhere?")).open()
        assert not isinstance(refused.value, StoreUnavailable)

    async def test_handle_of_another_event_loop_raises(self) -> None:
        async with self.opened() as store:
            with pytest.raises(StoreError, match="clone"):
                await asyncio.to_thread(asyncio.run, all_jobs(store))


class TestApp(Served):
    def test_app_serves_several_event_loops_and_closes_each_handle(self) -> None:
        app = Mainspring(self.url)

        @app.task
        async def double(n: int) -> int:
            return 2 * n

        async def alone() -> None:
            await double.enqueue(1)

        async def main() -> list[int]:
            async with app:
                handles = [await double.enqueue(n) for n in range(3)]
                await app.drain()
                return [await handle.result(timeout=9) for handle in handles]

        double.sync.enqueue(0)
        asyncio.run(alone())
        asyncio.run(alone())
        assert asyncio.run(main()) == [0, 2, 4]
        assert self.open_connections() == 0

    async def test_a_worker_runs_jobs_that_another_app_enqueues(self) -> None:
        def make() -> tuple[Mainspring, Any]:
            app = Mainspring(self.url)

            @app.task(name="echo")
            def echo(text: str) -> str:
                return text

            return app, echo

        (client, ask), (server, _) = make(), make()
        async with client, server, server.worker(), asyncio.timeout(20):
            handles = [await ask.enqueue(f"{n} ü") for n in range(20)]
            assert [await handle.result(timeout=9) for handle in handles] == [f"{n} ü" for n in range(20)]


class TestPlans(Served):
    """On newly filled tables without statistics."""

    async def explained(self, connection: Any, sql: str, *values: Any) -> str:
        rows = await connection.fetch(f"EXPLAIN {PostgresUrl(self.url, '').sql(sql)}", *values)
        return "\n".join(line for (line,) in rows)

    async def test_claim_and_finish_use_indexes_on_full_tables(self) -> None:
        async with self.opened() as store, self.connected(**SETTINGS) as other:
            await put(store, *(new_job(run_at=later(n % 100)) for n in range(20_000)))
            us = 1_000_000
            take = await self.explained(other, TAKE_PLAIN, "ada", us, ["task"], None, "lease", 500)
            ids = [job.id for job in await all_jobs(store)]
            some = sorted(ids[:500])
            columns = [SEPARATOR.join(column) for column in (some, [str(us)] * 500, ["x"] * 500)]
            done = await self.explained(other, COMPLETE_ALL, *columns[:2], [], [], [], [], "ada", [], columns[2], None)
        assert "Seq Scan on mainspring_jobs" not in take
        assert take.count("mainspring_jobs_ready") >= 4
        assert "Tid Scan on mainspring_jobs" in take
        assert "Seq Scan on mainspring_jobs" not in done
        assert "mainspring_jobs_pkey" in done

    @pytest.mark.parametrize("full", [False, True])
    async def test_prepared_plans_use_indexes_on_empty_and_full_tables(self, full: bool) -> None:
        async with self.opened() as store, self.connected(**HOT_SETTINGS) as other:
            if full:
                await put(store, *(new_job(run_at=later(n % 100)) for n in range(20_000)))
            for name, sql, known in (
                ("take", TAKE_PLAIN, "text, bigint, text[], text[], text, bigint"),
                ("done", COMPLETE_ALL, "text, text, bigint[], text[], text[], text[], text, text[], text, jsonb"),
            ):
                await other.execute(f"PREPARE {name} ({known}) AS {store.url.sql(sql)}")
            take = await self.planned(other, "EXECUTE take ('ada', 1000000, '{task}', NULL, 'lease', 500)")
            done = await self.planned(other, "EXECUTE done ('x', '1', '{}', '{}', '{}', '{}', 'ada', '{}', 'x', NULL)")
        assert "$3" in take  # a generic plan: no value is known
        for plan in (take, done):
            assert "Seq Scan on mainspring_jobs" not in plan
            assert "Bitmap" not in plan
        assert take.count("Index") - take.count("Index Cond") >= 8
        assert "Tid Scan on mainspring_jobs" in take
        assert "Index Scan using mainspring_jobs_pkey" in done

    async def planned(self, connection: Any, sql: str) -> str:
        return "\n".join(line for (line,) in await connection.fetch(f"EXPLAIN {sql}"))


async def test_a_finished_job_is_not_enqueued_again(postgres: Postgres) -> None:
    store = open_store(postgres.fresh())
    await store.open()
    done = await job_in_state(store, State.COMPLETED)
    await put(store, new_job(id=done.id), new_job())
    assert [job.state for job in await all_jobs(store)] == [State.COMPLETED, State.PENDING]
    await store.close()


async def test_a_finished_job_is_not_enqueued_again_alone(postgres: Postgres) -> None:
    store = open_store(postgres.fresh())
    await store.open()
    done = await job_in_state(store, State.COMPLETED)
    assert await put(store, new_job(id=done.id)) == [done.id]
    assert [job.state for job in await all_jobs(store)] == [State.COMPLETED]
    await beat(store)
    assert (await claim(store)).jobs == []
    await store.close()


async def test_a_job_that_is_being_enqueued_alone_is_not_enqueued_twice(postgres: Postgres) -> None:
    store = open_store(postgres.fresh())
    await store.open()
    for _ in range(20):
        job = new_job()
        answers = await asyncio.gather(*(put(store, job) for _ in range(4)))
        assert answers == [[job.id]] * 4
    assert len(await all_jobs(store)) == 20
    await store.close()
