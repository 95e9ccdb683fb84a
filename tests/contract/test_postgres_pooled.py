"""The PostgreSQL store keeps the contract through a pooler that lends its connections for a transaction at a time."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import asyncpg
import pytest
from kept import Kept

from mainspring import Mainspring
from mainspring.errors import BadSetting, StoreUnavailable
from mainspring.records.job import Enqueued
from mainspring.records.outcome import Done
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.postgres.pool import Pool
from mainspring.stores.postgres.url import PostgresUrl
from mainspring.testing.contract import StoreContract
from mainspring.testing.contract.beat import BeatContract
from mainspring.testing.contract.build import NOW, Contract, all_jobs, beat, finish_run, new_job, put, read_job, start
from mainspring.testing.contract.claim import ClaimContract
from mainspring.testing.contract.claim_expiry import ClaimExpiryContract
from mainspring.testing.contract.enqueue import EnqueueContract
from mainspring.testing.contract.finish import FinishContract
from mainspring.testing.contract.fire import FireContract
from mainspring.testing.contract.flow import FlowContract
from mainspring.testing.contract.flow_actions import FlowActionsContract
from mainspring.testing.contract.flow_requests import FlowRequestsContract
from mainspring.testing.contract.keys import KeysContract
from mainspring.testing.contract.leader import LeaderContract
from mainspring.testing.contract.lifecycle import LifecycleContract
from mainspring.testing.contract.signal import SignalContract
from servers import PgBouncer, Postgres

# The settings that the store sends when it connects to a server without a pooler.
IGNORED = "statement_timeout,lock_timeout,idle_in_transaction_session_timeout,plan_cache_mode,enable_seqscan,jit"


class Pooled(Contract):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres, pgbouncer: PgBouncer) -> None:
        self.server, self.pooler, self.straight = postgres, pgbouncer, postgres.fresh()
        self.url = pgbouncer.through(self.straight)

    def make_store(self) -> Store:
        return open_store(self.url)

    def app(self, url: str = "", **settings: Any) -> tuple[Mainspring, Any]:
        app = Mainspring(url or self.url, **settings)

        @app.task(name="echo")
        async def echo(text: str) -> str:
            return text

        return app, echo


class TestPooled(
    Kept, Pooled, LifecycleContract, EnqueueContract, KeysContract, ClaimContract, ClaimExpiryContract, BeatContract,
    FinishContract, FireContract, FlowContract,
    LeaderContract,
):  # fmt: skip
    """Transactions, locks, batches; the other tests repeat these, and are slow."""

    def make_store(self) -> Store:
        return open_store(f"{self.url}&pooler=transaction")


@pytest.mark.slow
class TestAllPooled(
    Kept, Pooled, StoreContract, FlowContract, FlowActionsContract, FlowRequestsContract, SignalContract
):
    pass


@contextmanager
def pooler(server: Postgres, **settings: Any) -> Iterator[PgBouncer]:
    made = PgBouncer(server, **settings)
    try:
        yield made
    finally:
        made.close()


async def pooled(url: str) -> tuple[bool | None, str]:
    """Whether a pooler was seen, and a setting that each of our statements must have."""
    pool = Pool(PostgresUrl(url, ""))
    try:
        setting: str = await pool.call(lambda db: db.value("SHOW lock_timeout"))
        return pool.connector.pooled, setting
    finally:
        await pool.close()


class TestRoute(Pooled):
    async def test_pooler_is_detected(self) -> None:
        assert await pooled(self.url) == (True, "10s")

    async def test_server_is_not_detected_as_a_pooler(self) -> None:
        assert await pooled(self.straight) == (False, "10s")

    async def test_pooler_that_ignores_settings_is_detected(self) -> None:
        with pooler(self.server, ignore_startup_parameters=IGNORED) as lax:
            assert await pooled(lax.through(self.straight)) == (True, "10s")

    async def test_pooler_can_be_given_in_the_url(self) -> None:
        assert await pooled(f"{self.straight}&pooler=transaction") == (True, "10s")
        assert await pooled(f"{self.straight}&pooler=none") == (False, "10s")

    def test_unknown_pooler_value_is_refused(self) -> None:
        with pytest.raises(BadSetting, match="use one of auto, none, transaction"):
            open_store(f"{self.straight}&pooler=statement")
        with pytest.raises(BadSetting, match="or off"):
            open_store(f"{self.straight}&listen=no")

    async def test_the_error_of_a_refused_url_masks_the_listener_password(self) -> None:
        with pytest.raises(BadSetting) as refused:
            open_store("postgresql://h/db?pooler=x&listen=postgresql%3A%2F%2Fada%3Asecret%40h%2Fdb&schema=x")
        assert "secret" not in str(refused.value)
        assert "listen=***&schema=x" in str(refused.value)

    async def test_settings_of_a_verb_end_with_its_transaction(self) -> None:
        async with self.opened() as store:
            await put(store, *(new_job() for _ in range(5)))
            other = await asyncpg.connect(self.pooler.through(self.server.dsn), statement_cache_size=0)
            assert {await other.fetchval("SHOW lock_timeout") for _ in range(5)} == {"0"}
            await other.close()

    async def test_relaxed_commits_are_relaxed_and_others_are_not(self) -> None:
        for durability, expected in (("full", "on"), ("relaxed", "off")):
            pool = Pool(PostgresUrl(self.url, ""), durability)  # type: ignore[arg-type]
            assert await pool.call(lambda db: db.value("SHOW synchronous_commit")) == expected
            await pool.close()


class TestSharing(Pooled):
    async def test_many_callers_share_two_connections(self) -> None:
        async with self.opened() as store:
            jobs = [new_job() for _ in range(100)]
            await asyncio.gather(*(store.enqueue([job], now=NOW) for job in jobs))
            assert len(await all_jobs(store)) == 100
            sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'mainspring'"
            assert self.server.run(sql)[0][0] <= 2

    async def test_fifty_callers_on_two_handles_with_one_key_make_one_row(self) -> None:
        async with self.opened() as left, self.opened() as right:
            pairs = zip([left, right] * 25, (new_job(unique_key="key") for _ in range(50)), strict=True)
            answers = await asyncio.gather(*(store.enqueue([job], now=NOW) for store, job in pairs))
            (only,) = await all_jobs(left)
            assert {answer.id for (answer,) in answers} == {only.id}

    async def test_a_job_is_enqueued_within_a_transaction_through_the_pooler(self) -> None:
        mine = await asyncpg.connect(self.pooler.through(self.server.dsn), statement_cache_size=0)
        async with self.opened() as store:
            job = new_job(unique_key="key")
            async with mine.transaction():
                assert await store.enqueue([job], now=NOW, within=mine) == [Enqueued(job.id)]
                assert await all_jobs(store) == []
            assert [found.id for found in await all_jobs(store)] == [job.id]
        await mine.close()

    async def test_handle_works_after_a_restart_of_the_pooler(self) -> None:
        with pooler(self.server) as own:
            self.url = own.through(self.straight)
            async with self.opened() as store, asyncio.timeout(30):
                job = await start(store)
                own.end()
                with pytest.raises(StoreUnavailable):
                    await finish_run(store, job, Done())
                own.start()
                assert await finish_run(store, job, Done()) == {job.id}


class TestWorker(Pooled):
    async def test_worker_behind_a_pooler_runs_new_and_orphaned_jobs(self) -> None:
        async with self.opened() as store, asyncio.timeout(30):
            app, echo = self.app(poll_interval=0.1, beat=0.2, lease=1, sweep=0.2)
            async with app:
                left, now = await echo.enqueue("left"), app.clock.now()
                await beat(store, "gone", until=now + timedelta(seconds=0.5), now=now)
                taken = await store.claim(None, worker="gone", tasks=["echo"], limit=1, now=now)
                assert [job.id for job in taken.jobs] == [left.id]
                async with app.worker():
                    came = await echo.enqueue("came")
                    assert [await handle.result(timeout=20) for handle in (left, came)] == ["left", "came"]
            assert (await read_job(store, left.id)).crashes == 1

    async def test_worker_without_notifications_warns_and_polls(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("mainspring.stores.postgres.listener.ECHO_TIMEOUT_SECONDS", 0.5)
        (client, ask), (server, _) = self.app(), self.app(poll_interval=0.2, beat=0.2, lease=2)
        async with client, server, server.worker() as worker, asyncio.timeout(30):
            while not worker.deaf:
                assert await (await ask.enqueue("x")).result(timeout=9) == "x"
            health = await server.health()
            assert (health.ready, health.reasons) == (True, [])
            assert "deaf" in health.notes[0]
            assert await (await ask.enqueue("y")).result(timeout=9) == "y"
            while not (await client.workers.list())[0].info.deaf:
                pass

    async def test_worker_with_a_listen_url_receives_notifications(self) -> None:
        url = f"{self.url}&listen={quote(self.server.dsn)}"
        (client, ask), (server, _) = self.app(), self.app(url, poll_interval=60)
        async with client, server, server.worker() as worker, asyncio.timeout(30):
            store = await server.connect()
            while store.listening != "ok":
                await store.wait("claimable", 1)
            assert await (await ask.enqueue("x")).result(timeout=9) == "x"
            assert not worker.deaf

    async def test_listener_works_through_a_session_pooler(self) -> None:
        with pooler(self.server, mode="session", size=5) as patient:
            store = open_store(patient.through(self.straight))
            await store.open()
            async with asyncio.timeout(20):
                while store.listening != "ok":
                    await store.wait("claimable", 1)
            await store.close()
