"""The SQLite store keeps the contract, survives its process, and shares its file."""

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NoReturn, cast

import pytest
from sharing import end_last_items_at_once

from mainspring.errors import StoreError, StoreUnavailable
from mainspring.records.audit import AuditFilter
from mainspring.records.job import Enqueued, State
from mainspring.records.outcome import Done, Released, decide
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.sqlite import audit, finish
from mainspring.stores.sqlite.store import SqliteStore
from mainspring.stores.sqlite.writer_thread import translate_error
from mainspring.testing import VirtualClock
from mainspring.testing.contract import StoreContract
from mainspring.testing.contract.build import (
    A_MINUTE_LATER,
    A_SECOND_LATER,
    NOW,
    a_line,
    all_jobs,
    beat,
    claim,
    claim_ids,
    new_job,
    put,
    send_report,
    start,
)
from mainspring.testing.contract.carry_on import CarryOnContract
from mainspring.testing.contract.checkpoint import CheckpointContract, a_checkpoint, keep
from mainspring.testing.contract.flow import FlowContract
from mainspring.testing.contract.flow_actions import FlowActionsContract
from mainspring.testing.contract.flow_requests import FlowRequestsContract
from mainspring.testing.contract.limit import LimitContract
from mainspring.testing.contract.limit_rows import LimitRowsContract
from mainspring.testing.contract.signal import SignalContract


class TestSqlite(
    StoreContract,
    CheckpointContract,
    FlowContract,
    FlowActionsContract,
    FlowRequestsContract,
    SignalContract,
    CarryOnContract,
    LimitContract,
    LimitRowsContract,
):
    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path, empty_file: Path) -> None:
        self.file = Path(shutil.copy(empty_file, tmp_path))

    def make_store(self) -> Store:
        return open_store(f"sqlite:///{self.file}")

    async def test_accepted_outcomes_survive_reopening_the_file(self) -> None:
        async with self.opened() as store:
            await start(store, unique_key="key", metadata={"a": 1})
            await store.pause_queue("mail", True)
            jobs, queues, workers = (
                await all_jobs(store),
                (await store.overview(now=NOW)).queues,
                await store.workers(now=NOW),
            )
        async with self.opened() as again:
            assert await all_jobs(again) == jobs
            assert (await again.overview(now=NOW)).queues == queues
            assert await again.workers(now=NOW) == workers

    async def test_two_workers_that_end_the_last_items_of_a_map_at_once_release_what_follows_once(self) -> None:
        async with self.opened() as left, self.opened() as right:
            await end_last_items_at_once(left, right)

    async def test_two_handles_on_one_file_never_share_a_job(self) -> None:
        async with self.opened() as left, self.opened() as right:
            ids = await put(left, *(new_job() for _ in range(40)))
            names = [f"worker-{n}" for n in range(10)]
            pairs = zip([left, right] * 5, names, strict=True)
            taken = await asyncio.gather(*(claim_ids(store, name, limit=5) for store, name in pairs))
            assert sorted(job_id for batch in taken for job_id in batch) == ids

    async def test_fifty_callers_on_two_handles_with_one_key_make_one_row(self) -> None:
        async with self.opened() as left, self.opened() as right:
            jobs = [new_job(unique_key="key") for _ in range(50)]
            pairs = zip([left, right] * 25, jobs, strict=True)
            answers = await asyncio.gather(*(store.enqueue([job], now=NOW) for store, job in pairs))
            (only,) = await all_jobs(left)
            assert {answer.id for (answer,) in answers} == {only.id}

    async def test_idle_handle_claims_a_job_that_another_handle_enqueued(self) -> None:
        async with self.opened() as left, self.opened() as right:
            await beat(left)
            assert (await claim(left)).jobs == (await claim(left)).jobs == []
            (job_id,) = await put(right, new_job())
            assert [job.id for job in (await claim(left)).jobs] == [job_id]

    async def test_wait_ends_when_another_handle_enqueues(self) -> None:
        async with self.opened() as left, self.opened() as right, asyncio.timeout(5):
            waiting = asyncio.create_task(left.wait("claimable", 50))
            while not waiting.done():
                await put(right, new_job())
                await asyncio.wait([waiting], timeout=0.02)

    async def test_a_report_of_checkpoints_wakes_no_waiter_of_its_process(self) -> None:
        store = open_store(f"sqlite:///{self.file}", clock=VirtualClock())  # with which nobody watches the file
        await store.open()
        job = await start(store)
        seen = await store.wait("claimable", 0)
        assert await keep(store, job, a_checkpoint(1))
        assert await store.wait("claimable", 0) == seen
        await send_report(store, job, a_line(1), checkpoints=(a_checkpoint(2),))
        assert await store.wait("claimable", 0) != seen
        await store.close()

    @pytest.mark.parametrize("notified", [True, False])
    async def test_a_commit_of_another_handle_before_the_wait_begins_is_not_missed(
        self, notified: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """By inotify, and by polling where there is none."""

        def refuse(*_: object) -> NoReturn:
            raise OSError("no inotify")

        if not notified:
            monkeypatch.setattr("mainspring.stores.sqlite.commit_watch.WriteWatch", refuse)
        async with self.opened() as left, self.opened() as right, asyncio.timeout(5):
            for topic in ("claimable", "final"):
                seen = await left.wait(topic, 0)
                await put(right, new_job())
                assert await left.wait(topic, 50, seen=seen) != seen

    async def test_publish_of_no_items_takes_no_write_lock(self) -> None:
        async with self.opened() as store, asyncio.timeout(5):
            with closing(sqlite3.connect(self.file)) as other:
                other.execute("BEGIN IMMEDIATE")
                assert await store.publish([], now=NOW) is None
                assert (await store.news(after=0, limit=1)).last == 0

    async def test_a_job_enqueued_within_a_transaction_is_there_after_its_commit(self) -> None:
        async with self.opened() as store:
            mine, job = sqlite3.connect(self.file), new_job()
            assert await store.enqueue([job], now=NOW, within=mine) == [Enqueued(job.id)]
            assert await all_jobs(store) == []
            mine.commit()
            mine.close()
            assert [found.id for found in await all_jobs(store)] == [job.id]

    async def test_a_job_enqueued_within_a_transaction_is_removed_by_its_rollback(self) -> None:
        async with self.opened() as store:
            mine = sqlite3.connect(self.file)
            await store.enqueue([new_job(unique_key="key")], now=NOW, within=mine)
            mine.rollback()
            mine.close()
            assert await all_jobs(store) == []

    async def test_a_batch_refused_within_a_transaction_leaves_the_rest_of_it_alone(self) -> None:
        async with self.opened() as store:
            mine, job = sqlite3.connect(self.file), new_job(unique_key="key")
            await store.enqueue([job], now=NOW, within=mine)
            refused = [new_job(), new_job(unique_key="key", on_conflict="raise")]
            assert (await store.enqueue(refused, now=NOW, within=mine))[1] == Enqueued(job.id, "refused", "key")
            mine.commit()
            mine.close()
            assert [found.id for found in await all_jobs(store)] == [job.id]

    async def test_completions_of_one_claim_are_fenced_by_its_lease(self) -> None:
        async with self.opened() as store:
            await put(store, *[new_job() for _ in range(finish.MIN_RUNS_OF_A_CLAIM)])
            await beat(store)
            first, *others = (await claim(store)).jobs
            await store.finish([decide(first, Released(), now=NOW)])
            (again,) = (await claim(store)).jobs
            assert again.id == first.id
            ended = [decide(job, Done(), now=A_SECOND_LATER) for job in [first, *others]]
            assert await store.finish(ended) == {job.id for job in others}
            running = [job for job in await all_jobs(store) if job.state is State.RUNNING]
            assert [(job.id, job.lease) for job in running] == [(again.id, again.lease)]

    async def test_completions_of_one_claim_end_each_run_once(self) -> None:
        async with self.opened() as store:
            await put(store, *[new_job() for _ in range(finish.MIN_RUNS_OF_A_CLAIM)])
            await beat(store)
            jobs = (await claim(store)).jobs
            await store.finish([decide(job, Done(), now=A_SECOND_LATER) for job in jobs])
            assert await store.finish([decide(job, Done(), now=A_MINUTE_LATER) for job in jobs]) == set()
            assert {job.finished_at for job in await all_jobs(store)} == {A_SECOND_LATER}

    async def test_schema_migrates_down_and_up_again(self) -> None:
        async with self.opened() as store:
            newest = (await store.schema()).newest
            assert await store.migrate(0) == list(range(newest - 1, -1, -1))
            assert (await store.schema()).version == 0
            assert await store.migrate() == list(range(1, newest + 1))
            assert await all_jobs(store) == []


async def plan_of(folder: Path, act: Callable[[sqlite3.Connection], object]) -> str:
    """The query plan of its last statement."""
    store = open_store(f"sqlite:///{folder}/jobs.db")
    await store.open()
    await store.close()
    said: list[str] = []
    with closing(sqlite3.connect(folder / "jobs.db")) as db:
        db.set_trace_callback(said.append)
        act(db)
        db.set_trace_callback(None)
        return " ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {said[-1]}"))


async def test_a_page_of_the_audit_log_is_read_in_the_order_of_its_ids(tmp_path: Path) -> None:
    plan = await plan_of(tmp_path, lambda db: audit.audit_page(db, AuditFilter(who="ada"), 10, "x"))
    assert plan == "SEARCH mainspring_audit USING INDEX sqlite_autoindex_mainspring_audit_1 (id<?)"


async def test_completions_of_one_claim_are_found_by_their_ids(tmp_path: Path) -> None:
    values = {"ended": '{"x": 1}', "lease": "y"}
    plan = await plan_of(tmp_path, lambda db: db.execute(finish.COMPLETE_BARE, values))
    assert plan.startswith("SCAN ended VIRTUAL TABLE")
    assert "SEARCH job USING INDEX sqlite_autoindex_mainspring_jobs_1 (id=?)" in plan


async def test_old_audit_entries_are_found_without_a_scan(tmp_path: Path) -> None:
    plan = await plan_of(tmp_path, lambda db: db.execute(audit.DROP_OLD, (10, 0)))
    assert "SCAN mainspring_audit USING COVERING INDEX" in plan  # for as many ids as it is given
    assert "SEARCH mainspring_audit USING INDEX sqlite_autoindex_mainspring_audit_1 (id=?)" in plan


HEAVY = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000) SELECT count(*) FROM n"


async def test_cancelled_read_frees_its_thread(tmp_path: Path) -> None:
    store = cast(SqliteStore, open_store(f"sqlite:///{tmp_path}/jobs.db"))
    await store.open()
    began = asyncio.Event()
    loop = asyncio.get_running_loop()

    def heavy(db: sqlite3.Connection) -> int:
        loop.call_soon_threadsafe(began.set)
        return int(db.execute(HEAVY).fetchone()[0])

    async with asyncio.timeout(60):
        for _ in range(3):
            reading = asyncio.create_task(store._read(heavy))
            await began.wait()
            waiting = asyncio.create_task(store.overview(now=NOW))
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert (await waiting).states == {}
            assert await all_jobs(store) == []
            began.clear()
        await store.close()


async def test_read_of_a_cancelled_caller_is_not_begun(tmp_path: Path) -> None:
    store = cast(SqliteStore, open_store(f"sqlite:///{tmp_path}/jobs.db"))
    await store.open()
    held, begun = threading.Event(), list[int]()
    first = asyncio.create_task(store._read(lambda db: held.wait(60)))
    second = asyncio.create_task(store._read(lambda db: begun.append(2)))
    await asyncio.wait([second], timeout=0.05)
    second.cancel()
    await asyncio.wait([second])
    held.set()
    await first
    await store.overview(now=NOW)
    assert begun == []
    await store.close()


async def test_read_only_file_raises_store_unavailable(tmp_path: Path) -> None:
    """Like a read-only server: the caller may repeat the call, and a worker waits."""
    store = cast(SqliteStore, open_store(f"sqlite:///{tmp_path}/jobs.db"))
    await store.open()
    try:
        job = new_job()
        store._writes.connection.execute("PRAGMA query_only = ON")
        with pytest.raises(StoreUnavailable, match="readonly database; nothing was written, the call may be repeated"):
            await store.enqueue([job], now=NOW)
        store._writes.connection.execute("PRAGMA query_only = OFF")
        assert [answer.status for answer in await store.enqueue([job], now=NOW)] == ["new"]
    finally:
        await store.close()


def test_moved_file_raises_store_error() -> None:
    moved = sqlite3.OperationalError("attempt to write a readonly database")
    moved.sqlite_errorname = "SQLITE_READONLY_DBMOVED"
    told = translate_error(moved)
    assert not isinstance(told, StoreUnavailable)
    assert "the file was moved or deleted while it was in use" in str(told)


@pytest.mark.parametrize("way", ["deleted", "replaced"])
async def test_worker_on_a_moved_file_ends_with_the_reason(tmp_path: Path, way: str) -> None:
    """SQLite continues in the removed file, which no other process sees."""
    path = tmp_path / "jobs.db"
    store = open_store(f"sqlite:///{path}")
    await store.open()
    try:
        await beat(store)
        path.unlink()
        if way == "replaced":
            path.touch()
        with pytest.raises(StoreError, match="was moved, deleted or replaced while it was in use"):
            await beat(store)
    finally:
        await store.close()
