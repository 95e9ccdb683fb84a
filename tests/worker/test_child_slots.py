"""Process tasks that take turns with fewer child processes than slots: what runs, what waits, what is claimed ahead."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import jobs_for_children as jobs
import pytest
from children import children, job_of
from test_executors import Said

from mainspring import Handle, Mainspring, State, Task
from mainspring.events import JobEnded
from mainspring.records.outcome import Released
from mainspring.testing import Recorder, VirtualClock
from mainspring.worker.child_slots import AHEAD_SECONDS, MAX_WAIT_SECONDS, ChildSlots
from mainspring.worker.run import Run
from mainspring.worker.worker import Worker

QUICK = 3


@pytest.fixture
def said() -> Iterator[Said]:
    heard, logger = Said(), logging.getLogger("mainspring.task")
    logger.addHandler(heard)
    logger.setLevel(logging.INFO)
    yield heard
    logger.removeHandler(heard)
    logger.setLevel(logging.NOTSET)


@pytest.fixture
def app(url: str, clock: VirtualClock) -> Mainspring:
    return Mainspring(url, clock=clock, concurrency=10, children=1, beat=0.5, lease=20)


def process(app: Mainspring, fn: Callable[..., Any], **options: Any) -> Task[Any, Any]:
    return app.task(executor="process", **options)(fn)


# counting


def slots_of(clock: VirtualClock, size: int) -> tuple[ChildSlots, Callable[[], Run]]:
    app = Mainspring("memory://")
    task = process(app, jobs.nothing, name="t")
    return ChildSlots(clock, size, {"t": task}), lambda: Run(job_of())


def test_as_many_runs_as_there_are_children_go_on_and_the_others_wait_in_order(clock: VirtualClock) -> None:
    slots, run = slots_of(clock, 2)
    runs = [run() for _ in range(4)]
    assert [slots.take(one) for one in runs] == [True, True, False, False]
    assert slots.give_back(runs[1]) is runs[2]
    assert slots.give_back(runs[0]) is runs[3]
    assert slots.give_back(runs[2]) is slots.give_back(runs[3]) is None
    assert slots.take(run())


def test_a_run_without_a_child_gives_none_back(clock: VirtualClock) -> None:
    slots, run = slots_of(clock, 1)
    first, second, third = run(), run(), run()
    assert [slots.take(one) for one in (first, second, third)] == [True, False, False]
    assert slots.give_back(second) is None
    assert slots.give_back(first) is second


def test_no_job_is_claimed_ahead_until_runs_have_ended(clock: VirtualClock) -> None:
    slots, run = slots_of(clock, 2)
    assert slots.room == 2
    slots.take(run())
    assert slots.room == 1
    slots.take(run())
    assert slots.room == 0


def test_as_many_jobs_are_claimed_ahead_as_have_ended_lately(clock: VirtualClock) -> None:
    slots, run = slots_of(clock, 2)
    for _ in range(20):
        slots.take(one := run())
        slots.give_back(one)
    assert slots.room == 22
    held = [run() for _ in range(22)]
    assert [slots.take(one) for one in held].count(True) == 2
    assert slots.room == 0
    clock.advance(seconds=2.5 * AHEAD_SECONDS)
    assert slots.room == 0
    for one in held[:22]:
        slots.give_back(one)
    assert slots.room == 2 + 22
    clock.advance(seconds=2.5 * AHEAD_SECONDS)
    assert slots.room == 2


def test_jobs_are_claimed_ahead_when_half_of_them_have_ended(clock: VirtualClock) -> None:
    slots, run = slots_of(clock, 1)
    for _ in range(9):
        slots.take(one := run())
        slots.give_back(one)
    held = [run() for _ in range(6)]
    for one in held:
        slots.take(one)
    assert slots.room == 0
    slots.give_back(held[0])  # 10 have ended now, and 5 of 11 are held
    assert slots.room == 6


def test_a_run_that_was_ended_while_it_waited_is_removed(clock: VirtualClock) -> None:
    slots, run = slots_of(clock, 1)
    first, second, third = run(), run(), run()
    for one in (first, second, third):
        slots.take(one)
    second.end(Released())
    assert slots.remove_ended() == [second]
    assert slots.give_back(first) is third


def test_without_a_number_of_children_no_run_waits(clock: VirtualClock) -> None:
    slots, run = slots_of(clock, 0)
    assert all(slots.take(run()) for _ in range(100))
    assert slots.tasks == frozenset()


# in a worker


@asynccontextmanager
async def blocked(app: Mainspring, said: Said, **options: Any) -> AsyncIterator[tuple[Worker, int, list[Handle[Any]]]]:
    """A worker whose only child, of process `pid`, runs the first job; the others wait in its slots for the child."""
    quick = process(app, jobs.nothing, name="quick")
    slow, after = process(app, jobs.wait_in_c, name="slow"), process(app, jobs.whole_job, name="after", **options)
    recorder = Recorder(app)
    async with app:
        worker = app.worker()
        async with worker:
            for n in range(1, QUICK + 1):  # so that jobs are claimed ahead
                await quick.enqueue()
                await recorder.wait(JobEnded, n)
            await app.queues.pause("default")
            handles = [await slow.enqueue(), await after.enqueue(), await after.enqueue()]
            await app.queues.resume("default")
            pid = int(await said.line())
            async with asyncio.timeout(10):
                while len(worker.running) < 3:
                    await asyncio.sleep(0)
            try:
                yield worker, pid, handles
            finally:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


async def states(handles: list[Handle[Any]]) -> list[State]:
    return [(await handle.job()).state for handle in handles]


async def until_states(clock: VirtualClock, handles: list[Handle[Any]], wanted: list[State]) -> None:
    async with asyncio.timeout(5):
        while await states(handles) != wanted:
            await asyncio.sleep(0)


async def test_runs_of_process_tasks_take_turns_with_the_children(app: Mainspring) -> None:
    before = children()
    pid = process(app, jobs.pid)
    async with app:
        handles = [await pid.enqueue() for _ in range(8)]
        async with app.worker():
            async with asyncio.timeout(10):
                assert len({await handle.result() for handle in handles}) == 1
            assert len(children() - before) == 1


async def test_a_waiting_job_that_is_cancelled_ends_at_once(app: Mainspring, clock: VirtualClock, said: Said) -> None:
    async with blocked(app, said) as (worker, _, handles):
        await app.jobs.cancel(handles[1].id, "enough")
        clock.advance(seconds=0.5)  # a beat
        await until_states(clock, handles, [State.RUNNING, State.CANCELLED, State.RUNNING])
        assert [job.id for job in worker.running] == [handles[0].id, handles[2].id]


async def test_waiting_jobs_are_released_at_once_when_the_worker_stops(
    app: Mainspring, clock: VirtualClock, said: Said
) -> None:
    async with blocked(app, said) as (worker, pid, handles):
        stopping = asyncio.create_task(worker.stop(grace=30))
        await until_states(clock, handles, [State.RUNNING, State.PENDING, State.PENDING])
        assert not stopping.done()
        os.kill(pid, signal.SIGKILL)
        await stopping
        for job in [await handle.job() for handle in handles[1:]]:
            assert (job.attempt, job.crashes) == (0, 0)


async def test_jobs_that_wait_too_long_for_a_child_are_released(
    app: Mainspring, clock: VirtualClock, said: Said
) -> None:
    async with blocked(app, said) as (worker, _, handles):
        clock.advance(seconds=MAX_WAIT_SECONDS)
        await until_states(clock, handles, [State.RUNNING, State.PENDING, State.PENDING])
        assert [job.id for job in worker.running] == [handles[0].id]


async def test_a_crash_of_the_child_is_counted_for_its_own_job_only(
    app: Mainspring, clock: VirtualClock, said: Said
) -> None:
    async with blocked(app, said) as (_, pid, handles):
        os.kill(pid, signal.SIGKILL)
        await until_states(clock, handles, [State.PENDING, State.COMPLETED, State.COMPLETED])
        jobs_now = [await handle.job() for handle in handles]
        assert [job.crashes for job in jobs_now] == [1, 0, 0]
        assert [job.attempt for job in jobs_now[1:]] == [1, 1]


async def test_the_time_of_a_run_that_waited_counts_from_when_it_got_its_child(
    app: Mainspring, clock: VirtualClock, said: Said
) -> None:
    async with blocked(app, said, timeout=0.4) as (_, pid, handles):
        clock.advance(seconds=MAX_WAIT_SECONDS / 2)
        began = clock.now()
        os.kill(pid, signal.SIGKILL)
        await until_states(clock, handles, [State.PENDING, State.COMPLETED, State.COMPLETED])
        told = await handles[1].result()
    assert told["deadline"].startswith(f"{began:%Y-%m-%dT%H:%M:%S}")
    assert told["deadline"] > began.isoformat()
