"""within=: a job is stored in the transaction of the caller, together with its rows, or not at all."""

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections, transaction
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from callers import site
from mainspring import BadInput, JobExists, Mainspring, StoreError, StoreUnavailable
from mainspring.events import JobEnded, JobEnqueued
from mainspring.records.worker import Claim
from mainspring.stores.sqlite.store import SqliteStore
from mainspring.testing.clock import VirtualClock
from mainspring.testing.recorder import Recorder


def receipt(order: int = 0) -> str:
    return f"receipt for {order}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@pytest.fixture
def shop(file: Path) -> Iterator[Mainspring]:
    app = Mainspring(f"sqlite:///{file}", poll_interval=60)
    app.task(receipt)
    app.sync.stats()  # creates the tables
    yield app
    app.sync.close()


@pytest.fixture
def mine(file: Path, shop: Mainspring) -> Iterator[sqlite3.Connection]:
    """A plain sqlite3 connection of the caller, with a table of its own."""
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    connection.commit()
    yield connection
    connection.close()


def orders(file: Path) -> int:
    """Number of orders that another connection sees."""
    other = sqlite3.connect(file)
    try:
        count: int = other.execute("SELECT count(*) FROM orders").fetchone()[0]
        return count
    finally:
        other.close()


async def place(shop: Mainspring, mine: sqlite3.Connection) -> str:
    mine.execute("INSERT INTO orders DEFAULT VALUES")
    return (await shop.tasks["receipt"].using(within=mine).enqueue(1)).id


async def test_within_job_is_invisible_before_the_commit(
    shop: Mainspring, mine: sqlite3.Connection, file: Path
) -> None:
    await place(shop, mine)
    assert (orders(file), len(await shop.jobs.list())) == (0, 0)
    assert mine.in_transaction


async def test_within_commit_stores_the_row_and_the_job(shop: Mainspring, mine: sqlite3.Connection, file: Path) -> None:
    id = await place(shop, mine)
    mine.commit()
    assert (orders(file), [job.id for job in await shop.jobs.list()]) == (1, [id])


async def test_within_rollback_drops_the_row_and_the_job(
    shop: Mainspring, mine: sqlite3.Connection, file: Path
) -> None:
    await place(shop, mine)
    mine.rollback()
    assert (orders(file), len(await shop.jobs.list())) == (0, 0)


async def test_within_error_in_the_block_drops_the_row_and_the_job(
    shop: Mainspring, mine: sqlite3.Connection, file: Path
) -> None:
    async def block() -> None:
        with mine:
            await place(shop, mine)
            raise RuntimeError("the order was wrong")

    with pytest.raises(RuntimeError):
        await block()
    assert (orders(file), len(await shop.jobs.list())) == (0, 0)


async def test_within_begins_a_transaction_that_the_caller_ends(shop: Mainspring, mine: sqlite3.Connection) -> None:
    assert not mine.in_transaction
    await shop.tasks["receipt"].using(within=mine).enqueue(1)
    assert mine.in_transaction
    assert await shop.jobs.list() == []
    mine.commit()
    assert len(await shop.jobs.list()) == 1


@pytest.mark.parametrize("options", [{}, {"unique_key": "one"}, {"idempotency_key": "one"}])
async def test_within_rollback_of_a_transaction_begun_by_enqueue(
    shop: Mainspring, mine: sqlite3.Connection, options: dict[str, Any]
) -> None:
    await shop.tasks["receipt"].using(within=mine, **options).enqueue(1)
    mine.rollback()
    assert await shop.jobs.list() == []


async def test_within_stores_several_jobs_and_rows_in_one_transaction(
    shop: Mainspring, mine: sqlite3.Connection, file: Path
) -> None:
    for _ in range(3):
        await place(shop, mine)
    await shop.enqueue_many([shop.tasks["receipt"].job(n) for n in range(300)], within=mine)
    assert (orders(file), len(await shop.jobs.list(limit=1000))) == (0, 0)
    mine.commit()
    assert (orders(file), len(await shop.jobs.list(limit=1000))) == (3, 303)


async def test_within_rollback_to_savepoint_drops_later_jobs_only(shop: Mainspring, mine: sqlite3.Connection) -> None:
    kept = await place(shop, mine)
    mine.execute("SAVEPOINT here")
    await place(shop, mine)
    mine.execute("ROLLBACK TO here")
    mine.commit()
    assert [job.id for job in await shop.jobs.list()] == [kept]


async def test_within_joins_a_transaction_begun_by_the_caller(shop: Mainspring, file: Path) -> None:
    by_hand = sqlite3.connect(file, isolation_level=None)
    by_hand.execute("BEGIN")
    await shop.tasks["receipt"].using(within=by_hand).enqueue(1)
    assert await shop.jobs.list() == []
    by_hand.execute("COMMIT")
    by_hand.close()
    assert len(await shop.jobs.list()) == 1


async def test_within_job_runs_after_the_commit(shop: Mainspring, mine: sqlite3.Connection) -> None:
    mine.execute("INSERT INTO orders DEFAULT VALUES")
    job = await shop.tasks["receipt"].using(within=mine).enqueue(7)
    mine.commit()
    assert await shop.drain() == 1
    assert await job.result() == "receipt for 7"


# keys


async def test_within_unique_key_holds_inside_the_transaction(shop: Mainspring, mine: sqlite3.Connection) -> None:
    keyed = shop.tasks["receipt"].using(within=mine, unique_key="one")
    first, second = await keyed.enqueue(1), await keyed.enqueue(2)
    assert (second.id, second.status) == (first.id, "duplicate")
    mine.commit()
    assert len(await shop.jobs.list()) == 1


async def test_within_refused_key_keeps_the_callers_rows(
    shop: Mainspring, mine: sqlite3.Connection, file: Path
) -> None:
    task = shop.tasks["receipt"].using(unique_key="one")
    await task.enqueue(1)
    mine.execute("INSERT INTO orders DEFAULT VALUES")
    with pytest.raises(JobExists):
        await task.using(within=mine, on_conflict="raise").enqueue(2)
    assert mine.in_transaction
    mine.commit()
    assert (orders(file), len(await shop.jobs.list())) == (1, 1)


# refusals


async def test_within_refuses_a_connection_to_another_file(shop: Mainspring, tmp_path: Path, file: Path) -> None:
    other = sqlite3.connect(tmp_path / "other.db")
    with pytest.raises(BadInput) as refused:
        await shop.tasks["receipt"].using(within=other).enqueue(1)
    assert str(refused.value) == f"within= needs a connection to '{file}', where the jobs are"
    assert not other.in_transaction
    other.close()


async def test_within_refuses_a_connection_to_memory(shop: Mainspring) -> None:
    other = sqlite3.connect(":memory:")
    with pytest.raises(BadInput, match="within= needs a connection to"):
        await shop.tasks["receipt"].using(within=other).enqueue(1)
    other.close()


async def test_within_accepts_another_name_of_the_same_file(shop: Mainspring, tmp_path: Path, file: Path) -> None:
    os.symlink(file, tmp_path / "link.db")
    linked = sqlite3.connect(tmp_path / "link.db")
    await shop.tasks["receipt"].using(within=linked).enqueue(1)
    linked.commit()
    linked.close()
    assert len(await shop.jobs.list()) == 1


async def test_within_refuses_autocommit_without_a_transaction(shop: Mainspring, file: Path) -> None:
    by_itself = sqlite3.connect(file, isolation_level=None)
    with pytest.raises(BadInput) as refused:
        await shop.tasks["receipt"].using(within=by_itself).enqueue(1)
    assert str(refused.value) == "within= needs an open transaction: execute BEGIN first, then enqueue, then commit"
    by_itself.close()
    assert await shop.jobs.list() == []


@pytest.mark.parametrize("thing", [5, "shop.db", object(), True])
async def test_within_refuses_objects_that_are_no_connection(shop: Mainspring, file: Path, thing: object) -> None:
    with pytest.raises(BadInput) as refused:
        await shop.tasks["receipt"].using(within=thing).enqueue(1)
    kind = type(thing).__name__
    takes = f"a sqlite3.Connection to '{file}' here, or SQLAlchemy's or Django's over one that is not awaited"
    assert str(refused.value) == f"within= takes {takes}; got {kind}"
    assert await shop.jobs.list() == []


async def test_within_refuses_a_cursor_by_name(shop: Mainspring, mine: sqlite3.Connection) -> None:
    with pytest.raises(BadInput, match="got Cursor"):
        await shop.tasks["receipt"].using(within=mine.cursor()).enqueue(1)


async def test_within_refuses_a_closed_connection(shop: Mainspring, file: Path) -> None:
    closed = sqlite3.connect(file)
    closed.close()
    with pytest.raises(StoreError, match="closed database"):
        await shop.tasks["receipt"].using(within=closed).enqueue(1)


async def test_within_raises_store_unavailable_if_the_write_lock_is_held(
    shop: Mainspring, mine: sqlite3.Connection, file: Path
) -> None:
    await place(shop, mine)
    second = sqlite3.connect(file, timeout=0)
    with pytest.raises(StoreUnavailable, match="locked; nothing was written, the call may be repeated"):
        await shop.tasks["receipt"].using(within=second).enqueue(1)
    second.close()


async def test_within_is_refused_by_the_memory_store() -> None:
    app = Mainspring("memory://", clock=VirtualClock())
    task = app.task(receipt)
    with pytest.raises(BadInput) as refused:
        await app.enqueue_many([task.job(1)], within=sqlite3.connect(":memory:"))
    way = "use sqlite:///… or postgresql://…"
    assert str(refused.value) == f"the memory store has no transactions for within=: {way}"
    assert (await app.stats()).pending == 0


@pytest.mark.parametrize("url", ["memory://", "redis://127.0.0.1:1/0", "https://jobs.example"])
def test_using_within_is_refused_by_stores_without_transactions(url: str) -> None:
    """It is refused before the caller writes a row, and without a connection to a server."""
    app = Mainspring(url, api_key="msk_a") if url.startswith("https") else Mainspring(url)
    task = app.task(receipt)
    with pytest.raises(BadInput, match=r"no transactions for within=: use sqlite:///… or postgresql://…"):
        task.using(within=object())
    assert task.using(within=None).options.within is None


# sync code


def test_within_sync_enqueue_runs_in_the_callers_thread(shop: Mainspring, mine: sqlite3.Connection, file: Path) -> None:
    with mine:
        mine.execute("INSERT INTO orders DEFAULT VALUES")
        job = shop.tasks["receipt"].sync.using(within=mine).enqueue(7)
        assert shop.sync.stats().pending == 0
    assert orders(file) == 1
    assert job.job().id == job.id


def test_within_sync_rollback_drops_the_job(shop: Mainspring, mine: sqlite3.Connection, file: Path) -> None:
    mine.execute("INSERT INTO orders DEFAULT VALUES")
    shop.tasks["receipt"].sync.using(within=mine).enqueue(7)
    mine.rollback()
    assert (orders(file), shop.sync.stats().pending) == (0, 0)


def test_within_sync_enqueue_many(shop: Mainspring, mine: sqlite3.Connection) -> None:
    with mine:
        shop.sync.enqueue_many([shop.tasks["receipt"].job(n) for n in range(3)], within=mine)
    assert shop.sync.stats().pending == 3


# the wake-up


class Watched(SqliteStore):
    """A store that sets `idle` when a claim returns no jobs."""

    idle: asyncio.Event

    async def claim(self, *args: Any, **given: Any) -> Claim:
        claim = await super().claim(*args, **given)
        if not claim.jobs:
            self.idle.set()
        return claim


async def test_within_commit_wakes_an_idle_worker_before_its_poll(file: Path, mine: sqlite3.Connection) -> None:
    store = Watched(str(file))
    store.idle = asyncio.Event()
    app = Mainspring(store, poll_interval=600)
    app.task(receipt)
    recorder = Recorder(app)
    async with app, app.worker():
        await store.idle.wait()
        job = await app.tasks["receipt"].using(within=mine).enqueue(7)
        store.idle.clear()
        mine.commit()
        await recorder.wait(JobEnded, job=job.id, timeout=10)


async def test_within_rolled_back_job_never_runs(shop: Mainspring, mine: sqlite3.Connection) -> None:
    recorder = Recorder(shop)
    async with shop.worker():
        await place(shop, mine)
        mine.rollback()
        after = await shop.tasks["receipt"].enqueue(1)
        await recorder.wait(JobEnded, job=after.id, timeout=10)
    assert [event.job.id for event in recorder.of(JobEnded)] == [after.id]


async def test_within_rolled_back_job_has_no_event(shop: Mainspring, mine: sqlite3.Connection) -> None:
    heard: list[JobEnqueued] = []
    shop.events.subscribe(JobEnqueued, heard.append)
    await place(shop, mine)
    mine.rollback()
    assert heard == []


def test_within_closed_loop_keeps_the_store_of_other_loops_open(
    shop: Mainspring, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = list[SqliteStore]()
    close = SqliteStore.close

    async def counted(self: SqliteStore) -> None:
        closed.append(self)
        await close(self)

    async def main() -> None:
        await shop.jobs.counts()
        monkeypatch.setattr(SqliteStore, "close", counted)
        for _ in range(3):
            await asyncio.to_thread(asyncio.run, shop.jobs.counts())
        assert closed == []
        await shop.close()
        assert len(closed) == 1

    asyncio.run(main())


def test_within_threads_have_their_own_transactions(shop: Mainspring, mine: sqlite3.Connection, file: Path) -> None:
    async def one(n: int) -> None:
        connection = sqlite3.connect(file, timeout=10)
        with connection:
            await shop.tasks["receipt"].using(within=connection).enqueue(n)
        connection.close()

    async def all_of_them() -> None:
        await asyncio.gather(*(asyncio.to_thread(asyncio.run, one(n)) for n in range(8)))

    asyncio.run(all_of_them())
    assert shop.sync.stats().pending == 8


# libraries over sqlite3


@pytest.fixture
def engine(file: Path, mine: sqlite3.Connection) -> Iterator[Engine]:
    engine = create_engine(f"sqlite:///{file}")
    yield engine
    engine.dispose()


def test_within_sqlalchemy_session_commits_and_rolls_back_the_job(shop: Mainspring, engine: Engine, file: Path) -> None:
    task = shop.tasks["receipt"].sync
    with Session(engine) as session, session.begin():
        session.execute(text("INSERT INTO orders DEFAULT VALUES"))
        kept = task.using(within=session).enqueue(1)
    with Session(engine) as session:
        session.execute(text("INSERT INTO orders DEFAULT VALUES"))
        task.using(within=session).enqueue(2)
        session.rollback()
    assert (orders(file), [job.id for job in shop.sync.jobs.list()]) == (1, [kept.id])


@pytest.mark.parametrize("keyed", [{}, {"unique_key": "one"}])
def test_within_sqlalchemy_connection_commits_a_lone_job(shop: Mainspring, engine: Engine, keyed: Any) -> None:
    with engine.connect() as connection:
        shop.tasks["receipt"].sync.using(within=connection, **keyed).enqueue(1)
        assert shop.sync.stats().pending == 0
        connection.commit()
    assert shop.sync.stats().pending == 1


async def test_within_sqlalchemy_session_in_async_code(shop: Mainspring, engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        await shop.tasks["receipt"].using(within=session).enqueue(1)
    assert len(await shop.jobs.list()) == 1


@pytest.fixture
def wrapper(file: Path, mine: sqlite3.Connection) -> Iterator[Any]:
    """Django's connection to the file."""
    site("file", ENGINE="django.db.backends.sqlite3", NAME=str(file))
    yield connections["file"]
    connections["file"].close()
    del connections["file"]


def test_within_django_atomic_commits_and_rolls_back_the_job(shop: Mainspring, wrapper: Any, file: Path) -> None:
    task = shop.tasks["receipt"].sync.using(within=wrapper)
    with transaction.atomic(using="file"):
        wrapper.cursor().execute("INSERT INTO orders DEFAULT VALUES")
        kept = task.enqueue(1)
        with transaction.atomic(using="file"):
            task.enqueue(2)
            transaction.set_rollback(True, using="file")
    with transaction.atomic(using="file"):
        task.enqueue(3)
        transaction.set_rollback(True, using="file")
    assert (orders(file), [job.id for job in shop.sync.jobs.list()]) == (1, [kept.id])


def test_within_django_outside_atomic_is_refused(shop: Mainspring, wrapper: Any) -> None:
    wrapper.ensure_connection()
    with pytest.raises(BadInput, match=r"within= needs an open transaction: with transaction.atomic\(\): …"):
        shop.tasks["receipt"].sync.using(within=wrapper).enqueue(1)


def test_within_sqlalchemy_on_another_file_is_refused(shop: Mainspring, tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/other.db")
    with engine.connect() as other, pytest.raises(BadInput, match="within= needs a connection to"):
        shop.tasks["receipt"].sync.using(within=other).enqueue(1)
    engine.dispose()


async def test_within_sqlalchemy_async_session_is_refused(shop: Mainspring) -> None:
    with pytest.raises(BadInput, match="over one that is not awaited; got AsyncSession"):
        await shop.tasks["receipt"].using(within=AsyncSession()).enqueue(1)
