"""within= in PostgreSQL: a job in the caller's own transaction, whatever library that is in."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from typing import Any

import psycopg
import pytest
import sqlalchemy
from django.db import OperationalError
from django.db.transaction import TransactionManagementError

from callers import (
    CALLERS,
    Alchemy,
    AlchemyAsync,
    AlchemyAsyncPsycopg,
    AlchemyConnection,
    Asyncpg,
    AsyncpgPool,
    Caller,
    Django,
    Psycopg,
    PsycopgAsync,
)
from mainspring import BadInput, JobExists, Mainspring, StoreError, Task
from mainspring.events import JobEnded, JobEnqueued
from mainspring.records.worker import Claim
from mainspring.stores import open_store
from mainspring.testing import Recorder
from servers import Postgres


def receipt(order: int = 0) -> str:
    return f"receipt for {order}"


class Shop:
    """An app on PostgreSQL, and a caller with a table of its own beside the jobs."""

    def __init__(self, server: Postgres, kind: type[Caller]) -> None:
        self.server = server
        self.app = Mainspring(server.fresh(), poll_interval=600)
        self.task: Task[Any, Any] = self.app.task(receipt)
        self.caller = kind(server.port)

    def orders(self) -> int:
        return int(self.server.run("SELECT count(*) FROM orders")[0][0])

    async def jobs(self) -> list[str]:
        return sorted(job.id for job in await self.app.jobs.list(limit=1000))

    async def place(self, **options: Any) -> str:
        await self.caller.run("INSERT INTO orders DEFAULT VALUES")
        return await self.caller.enqueue(self.task, 7, **options)


@asynccontextmanager
async def open_shop(server: Postgres, kind: type[Caller], isolation: str | None = None) -> AsyncIterator[Shop]:
    server.run("DROP TABLE IF EXISTS orders")
    server.run("CREATE TABLE orders (id serial PRIMARY KEY)")
    shop = Shop(server, kind)
    async with shop.app:
        await shop.caller.open(isolation)
        try:
            yield shop
        finally:
            await shop.caller.close()


@pytest.fixture(params=CALLERS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> type[Caller]:
    found: type[Caller] = request.param
    return found


ISOLATIONS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


async def test_a_job_enqueued_within_a_transaction_is_visible_only_after_its_commit(
    postgres: Postgres, kind: type[Caller]
) -> None:
    async with open_shop(postgres, kind) as shop:
        await shop.caller.begin()
        id = await shop.place()
        assert (shop.orders(), await shop.jobs()) == (0, [])
        await shop.caller.commit()
        assert (shop.orders(), await shop.jobs()) == (1, [id])


async def test_a_rollback_removes_the_callers_row_and_its_jobs(postgres: Postgres, kind: type[Caller]) -> None:
    async with open_shop(postgres, kind) as shop:
        await shop.caller.begin()
        await shop.place()
        await shop.place(unique_key="one")
        await shop.caller.rollback()
        assert (shop.orders(), await shop.jobs()) == (0, [])


async def test_a_transaction_that_only_enqueues_a_job_is_committed(postgres: Postgres, kind: type[Caller]) -> None:
    async with open_shop(postgres, kind) as shop:
        await shop.caller.begin()
        id = await shop.caller.enqueue(shop.task, 7)
        assert await shop.jobs() == []
        await shop.caller.commit()
        assert await shop.jobs() == [id]


async def test_a_rolled_back_savepoint_removes_only_its_own_job(postgres: Postgres, kind: type[Caller]) -> None:
    async with open_shop(postgres, kind) as shop:
        await shop.caller.begin()
        kept = await shop.place()
        await shop.caller.savepoint()
        await shop.place()
        await shop.caller.back()
        await shop.caller.commit()
        assert (shop.orders(), await shop.jobs()) == (1, [kept])


async def test_unique_keys_apply_inside_the_transaction_as_outside(postgres: Postgres, kind: type[Caller]) -> None:
    async with open_shop(postgres, kind) as shop:
        outside = (await shop.task.using(unique_key="outside").enqueue(1)).id
        await shop.caller.begin()
        first = await shop.place(unique_key="inside", tags=["a", 'b "c"'])
        assert await shop.place(unique_key="inside") == first
        assert await shop.place(unique_key="outside") == outside
        with pytest.raises(JobExists):
            await shop.place(unique_key="outside", on_conflict="raise")
        await shop.caller.commit()
        assert (shop.orders(), await shop.jobs()) == (4, sorted([outside, first]))


async def test_replace_and_debounce_within_a_transaction_take_effect_with_its_commit(
    postgres: Postgres, kind: type[Caller]
) -> None:
    async with open_shop(postgres, kind) as shop:
        keyed = shop.task.using(unique_key="one", delay=60)
        old = await (await keyed.enqueue(1)).job()
        await shop.caller.begin()
        assert await shop.place(unique_key="one", on_conflict="replace") == old.id
        assert (await shop.app.jobs.get(old.id)).payload == old.payload
        assert await shop.place(unique_key="one", on_conflict="debounce", delay=600) == old.id
        await shop.caller.commit()
        new = await shop.app.jobs.get(old.id)
        assert "7" in new.payload
        assert new.run_at > old.run_at


async def test_a_batch_within_a_transaction_is_all_or_nothing(postgres: Postgres, kind: type[Caller]) -> None:
    async with open_shop(postgres, kind) as shop:
        await shop.caller.begin()
        ids = await shop.caller.many(shop.app, [shop.task.job(n) for n in range(300)])
        refused = shop.task.using(unique_key="one", on_conflict="raise")
        with pytest.raises(JobExists):
            await shop.caller.many(shop.app, [refused.job(1), refused.job(2)])
        assert await shop.jobs() == []
        await shop.caller.commit()
        assert await shop.jobs() == sorted(ids)


async def test_no_event_is_emitted_for_a_job_that_may_still_be_rolled_back(
    postgres: Postgres, kind: type[Caller]
) -> None:
    async with open_shop(postgres, kind) as shop:
        heard: list[JobEnqueued] = []
        shop.app.events.subscribe(JobEnqueued, heard.append)
        await shop.caller.begin()
        await shop.place()
        await shop.caller.rollback()
        assert heard == []


# waking


class Watched:
    """A store with an event that is set when a worker has found nothing to claim."""

    def __init__(self, url: str) -> None:
        self._store = open_store(url)
        self.idle = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim(self, *args: Any, **given: Any) -> Claim:
        claim = await self._store.claim(*args, **given)
        if not claim.jobs:
            self.idle.set()
        return claim


async def test_a_commit_wakes_an_idle_worker_and_a_rollback_does_not(postgres: Postgres, kind: type[Caller]) -> None:
    async with open_shop(postgres, kind) as shop, asyncio.timeout(20):
        heard: list[str] = []
        listener = await psycopg.AsyncConnection.connect(f"{postgres.dsn}", autocommit=True)
        watched: Any = Watched(shop.app.settings.store)
        app = Mainspring(watched, poll_interval=600)
        app.task(receipt)
        recorder = Recorder(app)
        listener.add_notify_handler(lambda notice: heard.append(notice.payload))
        await listener.execute(f"LISTEN {watched.url.channel}")
        async with app, app.worker():
            await watched.idle.wait()
            await shop.caller.begin()
            await shop.place()
            await shop.caller.rollback()
            await listener.execute("SELECT 1")
            assert "within new" not in heard
            await shop.caller.begin()
            id = await shop.place()
            await shop.caller.commit()
            await recorder.wait(JobEnded, job=id, timeout=10)
            await listener.execute("SELECT 1")
        assert heard.count("within new") == 1
        await listener.close()


# other settings of the caller's session


async def test_enqueue_within_a_transaction_works_with_any_isolation_and_search_path(
    postgres: Postgres, kind: type[Caller]
) -> None:
    async with open_shop(postgres, kind) as shop:
        await shop.task.using(unique_key="held").enqueue(1)
        for isolation in ISOLATIONS:
            await shop.caller.close()
            await shop.caller.open(isolation)
            await shop.caller.begin()
            await shop.caller.run("SET LOCAL search_path = pg_temp")
            plain = await shop.caller.enqueue(shop.task, 1)
            keyed = await shop.caller.enqueue(shop.task, 2, unique_key=isolation)
            await shop.caller.enqueue(shop.task, 1, unique_key="held")
            await shop.caller.commit()
            assert {plain, keyed} < set(await shop.jobs()), isolation
        assert len(await shop.jobs()) == 1 + 2 * len(ISOLATIONS)


SERIALIZATION: dict[type[Caller], type[Exception]] = {
    Psycopg: psycopg.errors.SerializationFailure,
    PsycopgAsync: psycopg.errors.SerializationFailure,
    Alchemy: sqlalchemy.exc.OperationalError,
    AlchemyAsync: sqlalchemy.exc.DBAPIError,
    Django: OperationalError,
}


def code_of(error: BaseException) -> str:
    """The serialization failure of each library."""
    inner: Any = getattr(error, "orig", None) or error.__cause__ or error
    return str(inner.sqlstate)


@pytest.mark.parametrize("kind", SERIALIZATION, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("key", ["unique_key", "idempotency_key"])
async def test_a_key_taken_after_the_snapshot_raises_the_serialization_failure_of_the_library(
    postgres: Postgres, kind: type[Caller], key: Any
) -> None:
    async with open_shop(postgres, kind, "REPEATABLE READ") as shop:
        await shop.caller.begin()
        await shop.caller.run("SELECT 1")  # takes the snapshot
        await shop.task.using(**{key: "one"}).enqueue(1)
        if key == "idempotency_key":
            await shop.app.drain()  # the finished job is outside the unique index
        with pytest.raises(SERIALIZATION[kind]) as raised:
            await shop.place(**{key: "one"})
        assert code_of(raised.value) == "40001"
        await shop.caller.rollback()
        await shop.caller.begin()
        assert [await shop.place(**{key: "one"})] == await shop.jobs()
        await shop.caller.commit()


async def test_a_job_that_has_changed_since_the_snapshot_is_a_serialization_failure(postgres: Postgres) -> None:
    async with open_shop(postgres, Psycopg, "SERIALIZABLE") as shop:
        held = await shop.task.using(unique_key="one", delay=60).enqueue(1)
        await shop.caller.begin()
        await shop.caller.run("SELECT 1")
        await shop.app.jobs.update(held.id, priority=5)
        with pytest.raises(psycopg.errors.SerializationFailure):
            await shop.place(unique_key="one", on_conflict="replace")


# refusals


@pytest.fixture(scope="module")
def another(postgres: Postgres) -> Iterator[str]:
    """A database on the same server with tables of the same names, for another app."""
    postgres.run("CREATE DATABASE another")
    app = Mainspring(postgres.fresh().replace("/postgres?", "/another?"))
    app.sync.stats()
    app.sync.close()
    yield app.settings.store
    postgres.run("DROP DATABASE another WITH (FORCE)")


async def test_a_connection_to_another_database_is_refused_before_anything_is_written(
    postgres: Postgres, kind: type[Caller], another: str
) -> None:
    async with open_shop(postgres, kind) as shop:
        for database in ("template1", "another"):
            elsewhere = kind(postgres.port, database)
            await elsewhere.open()
            await elsewhere.begin()
            with pytest.raises(BadInput) as refused:
                await elsewhere.enqueue(shop.task, 1)
            assert str(refused.value) == f"within= needs a connection to {shop.app.settings.store}, where the jobs are"
            await elsewhere.commit()
            await elsewhere.close()
        assert await shop.jobs() == []
    other = Mainspring(another)
    async with other:
        assert await other.jobs.list() == []


async def test_a_database_is_recognised_after_a_restart_of_its_server() -> None:
    server = Postgres()
    try:
        async with open_shop(server, Psycopg) as shop:
            await shop.caller.begin()
            await shop.place()
            await shop.caller.commit()
            await asyncio.to_thread(server.end)
            await asyncio.to_thread(server.start)
            again = Psycopg(server.port)
            await again.open()
            id = await again.enqueue(shop.task, 2)
            await again.commit()
            await again.close()
            assert id in await shop.jobs()
    finally:
        await asyncio.to_thread(server.close)


@pytest.mark.parametrize("kind", [Asyncpg, AsyncpgPool, Django], ids=lambda kind: kind.__name__)
async def test_enqueue_within_a_connection_without_a_transaction_names_the_remedy(
    postgres: Postgres, kind: type[Caller]
) -> None:
    async with open_shop(postgres, kind) as shop:
        await shop.caller.run("SELECT 1")
        with pytest.raises(BadInput, match=r"needs an open transaction.*(transaction\.atomic|connection\.transaction)"):
            await shop.caller.enqueue(shop.task, 1)
        assert await shop.jobs() == []


@pytest.mark.parametrize(
    "kind", [Psycopg, PsycopgAsync, Alchemy, AlchemyConnection, AlchemyAsync, AlchemyAsyncPsycopg],
    ids=lambda kind: kind.__name__,
)  # fmt: skip
async def test_an_autocommit_connection_is_refused(postgres: Postgres, kind: type[Caller]) -> None:
    async with open_shop(postgres, kind, "AUTOCOMMIT") as shop:
        with pytest.raises(BadInput) as refused:
            await shop.caller.enqueue(shop.task, 1)
        assert str(refused.value) == (
            "within= needs an open transaction, and this connection commits by itself: "
            "enqueue inside `with connection.transaction():` (`async with` on an async connection)"
        )
        assert await shop.jobs() == []


async def test_an_explicit_transaction_on_an_autocommit_connection_is_used(postgres: Postgres) -> None:
    async with open_shop(postgres, PsycopgAsync, "AUTOCOMMIT") as shop:
        async with shop.caller.within.transaction(force_rollback=True):
            await shop.place()
        async with shop.caller.within.transaction():
            id = await shop.place()
        assert (shop.orders(), await shop.jobs()) == (1, [id])


async def test_an_object_that_is_no_connection_is_refused_with_its_type(postgres: Postgres) -> None:
    async with open_shop(postgres, Psycopg) as shop:
        with closing(sqlite3.connect(":memory:")) as other:
            for thing in (5, "dsn", object(), other, shop.caller):
                with pytest.raises(BadInput, match=f"; got {type(thing).__name__}$"):
                    await shop.task.using(within=thing).enqueue(1)
        assert await shop.jobs() == []


async def test_another_driver_behind_a_library_is_refused_by_its_name(postgres: Postgres) -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    async with open_shop(postgres, Psycopg) as shop:
        with engine.connect() as other, pytest.raises(BadInput, match=r"; got Connection over sqlite3$"):
            await shop.task.using(within=other).enqueue(1)
    engine.dispose()


@pytest.mark.parametrize("kind", [Asyncpg, Psycopg, PsycopgAsync], ids=lambda kind: kind.__name__)
async def test_a_closed_connection_is_refused(postgres: Postgres, kind: type[Caller]) -> None:
    async with open_shop(postgres, kind) as shop:
        await shop.caller.close()
        with pytest.raises(BadInput, match="within= got a connection that is closed"):
            await Caller.enqueue(shop.caller, shop.task, 1)
        await shop.caller.open()


async def test_enqueue_within_an_aborted_transaction_is_refused(postgres: Postgres, kind: type[Caller]) -> None:
    async with open_shop(postgres, kind) as shop:
        await shop.caller.begin()
        with pytest.raises(Exception, match="division by zero"):
            await shop.caller.run("SELECT 1 / 0")
        with pytest.raises((StoreError, TransactionManagementError, sqlalchemy.exc.PendingRollbackError)):
            await shop.caller.enqueue(shop.task, 1)
        await shop.caller.rollback()
        assert await shop.jobs() == []


@pytest.mark.parametrize("kind", [Asyncpg, PsycopgAsync, AlchemyAsync], ids=lambda kind: kind.__name__)
async def test_an_async_connection_is_refused_in_synchronous_code(postgres: Postgres, kind: type[Caller]) -> None:
    async with open_shop(postgres, kind) as shop:
        await shop.caller.begin()
        with pytest.raises(BadInput, match=r"that is async: leave out \.sync, and await enqueue"):
            await asyncio.to_thread(lambda: shop.task.sync.using(within=shop.caller.within).enqueue(1))


async def test_the_django_connection_is_refused_in_async_code(postgres: Postgres) -> None:
    async with open_shop(postgres, Django) as shop:
        with pytest.raises(BadInput, match=r"which is synchronous: enqueue with \.sync there"):
            await shop.task.using(within=shop.caller.within).enqueue(1)


# threads


async def somebody_waits(postgres: Postgres) -> None:
    while not postgres.run("SELECT 1 FROM pg_locks WHERE NOT granted"):
        await asyncio.sleep(0)


async def test_a_synchronous_enqueue_uses_its_connection_in_its_own_thread_only(postgres: Postgres) -> None:
    async with open_shop(postgres, Psycopg) as shop:
        seen: set[str] = set()

        class Noticing(psycopg.Connection[Any]):
            def wait(self, *args: Any, **given: Any) -> Any:
                seen.add(threading.current_thread().name)
                return super().wait(*args, **given)

        def view() -> None:
            with Noticing.connect(shop.caller.dsn) as mine:
                shop.task.sync.using(within=mine, unique_key="one").enqueue(1)

        thread = threading.Thread(target=view, name="view")
        thread.start()
        await asyncio.to_thread(thread.join)
        assert (seen, len(await shop.jobs())) == ({"view"}, 1)


async def test_a_synchronous_enqueue_that_waits_for_a_lock_does_not_block_other_calls(postgres: Postgres) -> None:
    async with open_shop(postgres, Psycopg) as shop, asyncio.timeout(20):
        keyed = {"unique_key": "one"}
        await shop.place(**keyed)
        other = Psycopg(postgres.port)
        await other.open()
        waiting = asyncio.create_task(other.enqueue(shop.task, 2, **keyed))
        await somebody_waits(postgres)
        free = await asyncio.to_thread(lambda: shop.task.sync.enqueue(3))
        assert not waiting.done()
        await shop.caller.commit()
        await waiting
        await other.commit()
        await other.close()
        assert len(await shop.jobs()) == 2
        assert free.id in await shop.jobs()


async def test_a_cancelled_enqueue_waits_until_the_callers_connection_is_idle(postgres: Postgres) -> None:
    async with open_shop(postgres, Psycopg) as shop, asyncio.timeout(20):
        await shop.place(unique_key="one")
        mine = psycopg.connect(shop.caller.dsn)
        waiting = asyncio.create_task(shop.task.using(within=mine, unique_key="one").enqueue(2))
        await somebody_waits(postgres)
        waiting.cancel()
        await asyncio.wait([waiting], timeout=0.1)
        assert not waiting.done()  # the server still runs the statement
        await shop.caller.rollback()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert mine.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        mine.close()
        assert await shop.jobs() == []


async def test_a_hundred_synchronous_enqueues_open_no_further_connection(postgres: Postgres) -> None:
    async with open_shop(postgres, Psycopg) as shop:
        ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'mainspring'"
        await shop.place()
        before = postgres.run(ours)[0][0]
        for _ in range(100):
            await shop.place()
        assert postgres.run(ours)[0][0] == before
