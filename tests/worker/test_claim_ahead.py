"""Jobs claimed ahead of the slots while runs end at once: how many, when they begin, and who gets them back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mainspring import Context, Handle, Mainspring, State
from mainspring.records.worker import Claim
from mainspring.testing import VirtualClock
from mainspring.worker.claim_ahead import (
    AHEAD_SECONDS,
    ENOUGH_SLOTS,
    MAX_PER_SLOT,
    MAX_WAIT_SECONDS,
    RECENT_SECONDS,
    ClaimAhead,
)
from mainspring.worker.worker import Worker

SLOTS, QUICK, SLOW = 3, 40, 30


@pytest.fixture(params=["memory"])
def url() -> str:
    return "memory://"


@pytest.fixture
def app(url: str, clock: VirtualClock) -> Mainspring:
    return Mainspring(url, clock=clock, beat=MAX_WAIT_SECONDS / 2, lease=20)


# counting


def test_as_many_jobs_are_claimed_ahead_as_runs_in_a_row_ended_at_once(clock: VirtualClock) -> None:
    ahead = ClaimAhead(clock)
    assert ahead.jobs(100) == 0
    ahead.note_ended(20, 0.0)
    ahead.note_ended(30, 0.0)
    assert ahead.jobs(100) == 50
    ahead.note_wait()
    assert ahead.jobs(100) == 0


def test_no_more_jobs_are_claimed_ahead_than_begin_soon(clock: VirtualClock) -> None:
    ahead = ClaimAhead(clock)
    ahead.note_ended(100, 10 * AHEAD_SECONDS)
    assert ahead.jobs(100) == 10


def test_runs_that_ended_long_ago_say_nothing(clock: VirtualClock) -> None:
    ahead = ClaimAhead(clock)
    ahead.note_ended(100, 0.0)
    clock.advance(seconds=1.1 * RECENT_SECONDS)
    assert ahead.jobs(100) == 0


def test_jobs_claimed_ahead_are_bounded_by_the_slots(clock: VirtualClock) -> None:
    ahead = ClaimAhead(clock)
    ahead.note_ended(10_000, 0.0)
    assert ahead.jobs(2) == 2 * MAX_PER_SLOT
    assert ahead.jobs(400) == ENOUGH_SLOTS - 400
    assert ahead.jobs(1000) == 0


def test_a_worker_with_one_slot_claims_no_job_ahead(clock: VirtualClock) -> None:
    ahead = ClaimAhead(clock)
    ahead.note_ended(10_000, 0.0)
    assert ahead.jobs(1) == 0


# in a worker


class Work:
    """Quick jobs, then jobs that wait for `gate`, all enqueued in this order."""

    def __init__(self, app: Mainspring) -> None:
        self.app = app
        self.gate = asyncio.Event()
        self.running = self.most_running = 0
        self.deadlines: list[str] = []
        self.quick = app.task(self._quick, name="quick")
        self.slow = app.task(self._slow, name="slow", timeout=10)
        self.slow_handles: list[Handle[Any]] = []

    async def _quick(self) -> None:
        pass

    async def _slow(self, ctx: Context) -> None:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        self.deadlines.append(str(ctx.deadline))
        await self.gate.wait()
        self.running -= 1

    async def enqueue(self) -> None:
        await self.app.enqueue_many([self.quick.job() for _ in range(QUICK)])
        self.slow_handles = await self.app.enqueue_many([self.slow.job() for _ in range(SLOW)])

    async def states(self) -> dict[State, int]:
        jobs = [await handle.job() for handle in self.slow_handles]
        return {state: n for state in State if (n := sum(job.state is state for job in jobs))}

    async def until_states(self, wanted: dict[State, int]) -> None:
        async with asyncio.timeout(5):
            while await self.states() != wanted:
                await asyncio.sleep(0)


@asynccontextmanager
async def full(app: Mainspring) -> AsyncIterator[tuple[Worker, Work]]:
    """A worker whose slots are taken by slow jobs, with further ones claimed ahead."""
    work = Work(app)
    async with app:
        await work.enqueue()
        worker = app.worker(concurrency=SLOTS)
        async with worker:
            async with asyncio.timeout(5):
                while work.running < SLOTS or len(worker.running) <= SLOTS:
                    await asyncio.sleep(0)
            try:
                yield worker, work
            finally:
                work.gate.set()


async def test_quick_jobs_are_claimed_ahead(app: Mainspring, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[int] = []

    @app.task
    async def work() -> None:
        pass

    async with app:
        store = await app._engine.connect()
        claim = store.claim

        async def noted(*args: Any, limit: int, **options: Any) -> Claim:
            limits.append(limit)
            return await claim(*args, limit=limit, **options)

        monkeypatch.setattr(store, "claim", noted)
        await app.enqueue_many([work.job() for _ in range(100)])
        await app.worker(concurrency=4).drain()
    assert limits[:3] == [4, 8, 16]
    assert max(limits) == 4 + 4 * MAX_PER_SLOT


async def test_no_more_runs_than_slots_go_on_at_once(app: Mainspring) -> None:
    async with full(app) as (worker, work):
        assert worker._describe()[0].running == SLOTS
        work.gate.set()
        await work.until_states({State.COMPLETED: SLOW})
        assert work.most_running == SLOTS


async def test_jobs_that_wait_too_long_for_a_slot_are_released(app: Mainspring, clock: VirtualClock) -> None:
    async with full(app) as (worker, work):
        clock.advance(seconds=MAX_WAIT_SECONDS)
        await work.until_states({State.RUNNING: SLOTS, State.PENDING: SLOW - SLOTS})
        assert len(worker.running) == SLOTS
        for handle in work.slow_handles[SLOTS:]:
            job = await handle.job()
            assert (job.attempt, job.crashes) == (0, 0)


async def test_released_jobs_run_when_slots_become_free(app: Mainspring, clock: VirtualClock) -> None:
    async with full(app) as (_, work):
        clock.advance(seconds=MAX_WAIT_SECONDS)
        await work.until_states({State.RUNNING: SLOTS, State.PENDING: SLOW - SLOTS})
        work.gate.set()
        await work.until_states({State.COMPLETED: SLOW})
        assert work.most_running == SLOTS
        assert [(await handle.job()).attempt for handle in work.slow_handles] == [1] * SLOW


async def test_jobs_that_wait_for_a_slot_are_released_at_once_when_the_worker_stops(app: Mainspring) -> None:
    async with full(app) as (worker, work):
        stopping = asyncio.create_task(worker.stop(grace=30))
        await work.until_states({State.RUNNING: SLOTS, State.PENDING: SLOW - SLOTS})
        assert not stopping.done()
        work.gate.set()
        await stopping
        assert await work.states() == {State.COMPLETED: SLOTS, State.PENDING: SLOW - SLOTS}


async def test_a_job_that_waits_for_a_slot_is_cancelled_at_once(app: Mainspring, clock: VirtualClock) -> None:
    async with full(app) as (worker, work):
        cancelled = work.slow_handles[SLOTS]
        assert cancelled.id in [job.id for job in worker.running]
        await app.jobs.cancel(cancelled.id, "enough")
        clock.advance(seconds=MAX_WAIT_SECONDS / 2)  # a beat
        async with asyncio.timeout(5):
            while (await cancelled.job()).state is not State.CANCELLED:
                await asyncio.sleep(0)
        assert len(worker.running) > SLOTS


async def test_the_leases_of_waiting_jobs_are_lost_like_those_of_runs(app: Mainspring) -> None:
    async with full(app) as (worker, work):
        worker._lose_leases()
        async with asyncio.timeout(5):
            while worker.running:
                await asyncio.sleep(0)
        assert work.most_running == SLOTS


async def test_the_time_of_a_run_that_waited_for_a_slot_counts_from_its_beginning(
    app: Mainspring, clock: VirtualClock
) -> None:
    async with full(app) as (_, work):
        clock.advance(seconds=MAX_WAIT_SECONDS / 2)
        work.gate.set()
        await work.until_states({State.COMPLETED: SLOW})
        assert work.deadlines[SLOTS] > work.deadlines[0]


async def test_one_slot_runs_jobs_by_priority_however_quick_they_are(app: Mainspring) -> None:
    order: list[str] = []

    @app.task
    async def work(name: str) -> None:
        order.append(name)
        if name == "first":
            await work.using(priority=5).enqueue("urgent")

    async with app:
        await app.enqueue_many([work.job(name) for name in ("first", "second", "third")])
        await app.worker(concurrency=1).drain()
    assert order == ["first", "urgent", "second", "third"]
