"""worker.drain(): production's loops, run until nothing is due."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast

import pytest

from mainspring import DeadLetter, Handle, Mainspring, State, Store, StoreUnavailable
from mainspring.events import Event, WorkerStarted, WorkerStopped, WorkerStopping
from mainspring.ids import JobId
from mainspring.records.document import Document
from mainspring.records.outcome import Outcome
from mainspring.records.worker import Claim, WorkerInfo
from mainspring.stores.memory.store import MemoryStore
from mainspring.testing import Faults, FaultStore, VirtualClock


@pytest.fixture
def app(clock: VirtualClock) -> Mainspring:
    return Mainspring("memory://", clock=clock)


async def test_drain_claims_the_jobs_that_a_run_waits_for(app: Mainspring) -> None:
    @app.task
    async def part() -> int:
        return 7

    @app.task
    async def whole() -> int:
        return await (await part.enqueue()).result()

    async with app, asyncio.timeout(10):
        handle: Handle[int] = await whole.enqueue()
        assert await app.worker(concurrency=2).drain() == 2
        assert await handle.result() == 7


class LateReply:
    """A store that stores an outcome after the next claim has found nothing, and before that claim is answered."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._running, self._claimed, self._stored = False, asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim(self, *args: Any, **given: Any) -> Claim:
        claim = await self._store.claim(*args, **given)
        if claim.jobs:
            self._running = True
        elif self._running:
            self._claimed.set()
            await self._stored.wait()
        return claim

    async def finish(self, outcomes: Sequence[Outcome]) -> set[JobId]:
        await self._claimed.wait()
        stands = await self._store.finish(outcomes)
        self._stored.set()
        return stands


async def test_drain_sees_what_became_due_while_a_claim_was_under_way(clock: VirtualClock) -> None:
    app = Mainspring(cast(Store, LateReply(MemoryStore(clock))), clock=clock)

    @app.dead_letter
    async def on_death(letter: DeadLetter) -> None: ...

    @app.task(max_retries=0)
    async def work() -> None:
        raise RuntimeError("its end enqueues a job")

    async with app, asyncio.timeout(10):
        await work.enqueue()
        assert await app.drain() == 2


class LateSweep:
    """A store that stores the outcomes of the first sweep after the first claim has found nothing."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._sweeping, self._claimed, self._stored = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def documents(self, *args: Any, **given: Any) -> list[Document]:
        """Read before the first claim."""
        await self._sweeping.wait()
        return await self._store.documents(*args, **given)

    async def claim(self, *args: Any, **given: Any) -> Claim:
        claim = await self._store.claim(*args, **given)
        self._claimed.set()
        await self._stored.wait()
        return claim

    async def finish(self, outcomes: Sequence[Outcome]) -> set[JobId]:
        self._sweeping.set()
        await self._claimed.wait()
        stands = await self._store.finish(outcomes)
        self._stored.set()
        for _ in range(10):  # the claim is answered first
            await asyncio.sleep(0)
        return stands


async def test_drain_runs_what_a_sweep_enqueued_while_a_claim_was_under_way(clock: VirtualClock) -> None:
    store = MemoryStore(clock)
    app = Mainspring(cast(Store, LateSweep(store)), clock=clock, max_crashes=1)

    @app.dead_letter
    async def on_death(letter: DeadLetter) -> None: ...

    @app.task(max_retries=0)
    async def work() -> None: ...

    async with app, asyncio.timeout(10):
        await work.enqueue()
        ghost = WorkerInfo(
            id="ghost", host="", pid=0, queues=None, tasks=("work",), concurrency=1, started_at=clock.now()
        )
        await store.beat(ghost, until=clock.now() + timedelta(seconds=1), now=clock.now())
        assert len((await store.claim(None, worker="ghost", tasks=["work"], limit=1, now=clock.now())).jobs) == 1
        clock.advance(seconds=5)
        assert await app.drain() == 1


async def test_drain_starts_at_most_as_many_runs_as_it_may(app: Mainspring) -> None:
    @app.task
    async def work() -> None: ...

    async with app:
        await app.enqueue_many(work.job() for _ in range(5))
        assert await app.worker().drain(3) == 3
        assert (await app.jobs.counts())["completed"] == 3
        assert await app.worker().drain() == 2


async def test_drain_raises_an_error_of_the_store_at_once(clock: VirtualClock) -> None:
    faults = Faults()
    app = Mainspring(FaultStore(MemoryStore(clock), faults), clock=clock)  # type: ignore[arg-type]
    app.task(name="work")(lambda: None)
    async with app, asyncio.timeout(10):
        await app.enqueue("work")
        for verb in ("claim", "finish"):
            faults.fail(verb, error=lambda: StoreUnavailable("away"))
            with pytest.raises(StoreUnavailable, match="away"):
                await app.drain()


async def test_drain_is_not_announced_as_a_worker(app: Mainspring) -> None:
    seen: list[Event] = []
    for kind in (WorkerStarted, WorkerStopping, WorkerStopped):
        app.events.subscribe(kind, seen.append)
    app.task(name="work")(lambda: None)
    async with app:
        await app.enqueue("work")
        assert await app.drain() == 1
        assert seen == []


async def test_drain_that_is_cancelled_releases_its_jobs(app: Mainspring) -> None:
    began = asyncio.Event()

    @app.task
    async def work() -> None:
        began.set()
        await asyncio.Event().wait()

    async with app, asyncio.timeout(10):
        handle = await work.enqueue()
        drain = asyncio.create_task(app.drain())
        await began.wait()
        drain.cancel()
        with pytest.raises(asyncio.CancelledError):
            await drain
        assert (await handle.job()).state is State.PENDING


async def test_drain_ends_after_a_run_that_leaked_its_slot(app: Mainspring, clock: VirtualClock) -> None:
    release = asyncio.Event()

    @app.task(timeout=1, max_retries=0)
    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    async with app, asyncio.timeout(10):
        handle = await stubborn.enqueue()
        drain = asyncio.create_task(app.worker(concurrency=1).drain())
        await clock.elapse(minutes=1)
        assert await drain == 1
        assert (await handle.job()).state is State.DEAD
        release.set()
