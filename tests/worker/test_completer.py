"""The completer stores outcomes in batches that are bounded in bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.ids import JobId
from mainspring.records.outcome import Outcome
from mainspring.stores.memory.store import MemoryStore
from mainspring.testing import VirtualClock
from mainspring.worker import completer

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
