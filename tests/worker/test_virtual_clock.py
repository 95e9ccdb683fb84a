"""The virtual clock: time moves when the test says so."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

from mainspring import BadInput, Mainspring
from mainspring.testing import VirtualClock


async def ticker(clock: VirtualClock, every: float, seen: list[float]) -> None:
    while True:
        await clock.sleep(every)
        seen.append(clock.monotonic())


async def test_elapse_fires_each_timer_at_its_instant(clock: VirtualClock) -> None:
    seen: list[float] = []
    task = asyncio.create_task(ticker(clock, 600, seen))
    await clock.elapse(hours=1)
    task.cancel()
    assert seen == [600, 1200, 1800, 2400, 3000, 3600]


async def test_advance_is_one_jump(clock: VirtualClock) -> None:
    seen: list[float] = []
    task = asyncio.create_task(ticker(clock, 600, seen))
    await clock.settle()
    clock.advance(hours=1)
    await clock.settle()
    task.cancel()
    assert seen == [3600]


async def test_sleep_never_ends_early(clock: VirtualClock) -> None:
    task = asyncio.create_task(clock.sleep(10))
    await clock.elapse(seconds=9.999)
    assert not task.done()
    await clock.elapse(seconds=0.001)
    assert task.done()


async def test_autojump_lets_time_pass_when_all_tasks_wait() -> None:
    clock = VirtualClock(autojump=True)
    await asyncio.gather(clock.sleep(3600), clock.sleep(7200))
    assert clock.monotonic() == 7200


async def test_autojump_runs_the_whole_engine(url: str) -> None:
    clock = VirtualClock(autojump=True)
    app = Mainspring(url, clock=clock)

    @app.task
    async def work() -> str:
        await clock.sleep(30)
        return "done"

    async with app, app.worker():
        handle = await work.using(delay=60).enqueue()
        assert await handle.result() == "done"
    assert clock.monotonic() >= 90


def test_virtual_clock_does_not_go_back(clock: VirtualClock) -> None:
    with pytest.raises(BadInput):
        clock.advance(seconds=-1)
    with pytest.raises(BadInput):
        clock.set(clock.now() - timedelta(seconds=1))


def test_virtual_clock_can_be_set(clock: VirtualClock) -> None:
    then = clock.now() + timedelta(days=3)
    clock.set(then)
    assert clock.now() == then


async def test_app_drain_runs_due_jobs_and_those_they_enqueue(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def countdown(n: int) -> None:
        if n:
            await countdown.enqueue(n - 1)

    async with app:
        await countdown.enqueue(5)
        await countdown.using(delay=60).enqueue(0)
        assert await app.drain() == 6
        clock.advance(minutes=1)
        assert await app.drain() == 1
        assert await app.drain() == 0


async def test_virtual_clock_waits_for_a_slow_store(clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.testing.clock.THREAD_WAIT_SECONDS", 0.0)
    disk = threading.Event()

    async def write() -> timedelta:
        began = clock.now()
        with clock.outside():
            await asyncio.to_thread(disk.wait)
        return clock.now() - began

    writing = asyncio.create_task(write())
    asyncio.get_running_loop().call_later(0.05, disk.set)
    await clock.elapse(minutes=2)
    assert await writing == timedelta(0)


async def test_virtual_clock_goes_on_without_a_task_that_waits_for_it(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.testing.clock.THREAD_WAIT_SECONDS", 0.0)

    async def work() -> timedelta:
        began = clock.now()
        with clock.outside(task=True):
            await clock.sleep(60)
        return clock.now() - began

    working = asyncio.create_task(work())
    await clock.elapse(minutes=2)
    assert await working == timedelta(seconds=60)
