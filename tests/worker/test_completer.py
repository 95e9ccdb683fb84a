"""The completer stores outcomes in batches: bounded in bytes, and gathered from shared child processes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.clock import SystemClock
from mainspring.events import Bus
from mainspring.ids import JobId
from mainspring.records.job import Job, State
from mainspring.records.outcome import Outcome
from mainspring.records.run import Ending
from mainspring.stores.memory.store import MemoryStore
from mainspring.testing import VirtualClock
from mainspring.worker import completer
from mainspring.worker.completer import Completer
from mainspring.worker.report_buffer import ReportBuffer
from mainspring.worker.reports import ReportSender
from mainspring.worker.slots import Run

RESULT_BYTES = 100_000


class BatchStore(MemoryStore):
    """Records how many outcomes each finish has."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []

    async def finish(self, outcomes: Sequence[Outcome]) -> set[JobId]:
        self.batches.append(len(outcomes))
        return await super().finish(outcomes)


@pytest.mark.parametrize(
    ("batch_bytes", "batches"), [(16 << 20, [10]), (3 * RESULT_BYTES, [3, 3, 3, 1]), (1, [1] * 10)]
)
async def test_outcomes_are_finished_in_batches_of_limited_bytes(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, batch_bytes: int, batches: list[int]
) -> None:
    monkeypatch.setattr(completer, "BATCH_BYTES", batch_bytes)
    store, go = BatchStore(), asyncio.Event()
    app = Mainspring(store, clock=clock)

    @app.task
    async def large() -> str:
        await go.wait()
        return "x" * RESULT_BYTES

    async with app:
        handles: list[Any] = [await large.enqueue() for _ in range(10)]
        async with app.worker(concurrency=10):
            await clock.settle()
            go.set()
            await clock.settle()
        assert [len(await handle.result()) for handle in handles] == [RESULT_BYTES] * 10
    assert store.batches == batches


@pytest.mark.parametrize(("garbage_bytes", "collections"), [(32 << 20, 0), (2 * RESULT_BYTES, 3)])
async def test_garbage_is_collected_by_finished_bytes(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, garbage_bytes: int, collections: int
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(completer, "GARBAGE_BYTES", garbage_bytes)
    monkeypatch.setattr(completer.gc, "collect", lambda: seen.append(1))
    app = Mainspring(MemoryStore(), clock=clock)

    @app.task
    async def large() -> str:
        return "x" * RESULT_BYTES

    async with app, app.worker(concurrency=1):
        for _ in range(6):
            await large.enqueue()
            await clock.settle()
    assert len(seen) == collections


NOW = datetime(2026, 1, 1, tzinfo=UTC)


class BusyStore(BatchStore):
    """Calls `meanwhile` during its first finish."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self._meanwhile = meanwhile

    async def finish(self, outcomes: Sequence[Outcome]) -> set[JobId]:
        if not self.batches:
            self._meanwhile()
        return await super().finish(outcomes)


async def _call_once(_what: str, call: Callable[[], Awaitable[Any]]) -> Any:
    return await call()


@pytest.mark.parametrize(("in_children", "batches"), [(1, [1, 2]), (0, [1, 1, 1])])
async def test_outcomes_of_shared_children_that_come_during_a_batch_gather_for_the_next(
    monkeypatch: pytest.MonkeyPatch, in_children: int, batches: list[int]
) -> None:
    monkeypatch.setattr(completer, "GATHER_SECONDS", 60.0)
    monkeypatch.setattr(completer, "ENOUGH_OUTCOMES", 2)
    clock, bus, stored = SystemClock(), Bus(), asyncio.Event()
    number = iter(range(3))

    def end_run() -> None:
        id = f"job-{next(number)}"
        job = Job(id=id, task="t", payload="{}", queue="q", priority=0, state=State.RUNNING, run_at=NOW, created_at=NOW)
        outcome = Outcome(id=id, lease="l", state=State.COMPLETED, ending=Ending.COMPLETED, finished_at=NOW)
        outcomes.add(Run(job), outcome)

    def end_two_runs() -> None:
        end_run()
        asyncio.get_running_loop().call_soon(end_run)

    def note() -> None:
        if sum(store.batches) == 3:
            stored.set()

    store = BusyStore(end_two_runs)
    sender = ReportSender(ReportBuffer(clock), clock, bus)
    outcomes = Completer(clock, bus, sender, note, lambda _store, _job, outcome: outcome, lambda: in_children)  # type: ignore[arg-type, return-value]
    async with asyncio.timeout(10):
        running = asyncio.create_task(outcomes.run(store, _call_once))  # type: ignore[arg-type]
        end_run()
        await stored.wait()
        running.cancel()
    assert store.batches == batches
