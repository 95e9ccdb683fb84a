"""Everything that is started can be stopped: at any time, any number of times, within its time limit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.stores import open_store
from mainspring.testing import QueueMonitor, VirtualClock
from mainspring.testing.stops import Loop, StopSafety

Loops = AbstractAsyncContextManager[Loop]


class Case(StopSafety):
    """Each of them on memory and on a file."""

    @pytest.fixture(autouse=True, params=["memory", "sqlite"])
    def _store(self, request: pytest.FixtureRequest, tmp_path: Path) -> None:
        self.url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"


@asynccontextmanager
async def workers(app: Mainspring, task: Callable[[asyncio.Event], Any]) -> AsyncIterator[Loop]:
    began = asyncio.Event()
    endless = app.task(timeout=None)(task(began))
    async with app:
        worker = app.worker()

        async def work() -> None:
            await endless.enqueue()
            await began.wait()

        yield Loop(start=worker.__aenter__, stop=partial(worker.stop, grace=0), work=work, run=worker.run)


def coroutine(began: asyncio.Event) -> Any:
    async def endless() -> None:
        began.set()
        await asyncio.Event().wait()

    return endless


def plain_function(began: asyncio.Event) -> Any:
    loop = asyncio.get_running_loop()

    def endless() -> None:
        loop.call_soon_threadsafe(began.set)
        while True:
            threading.Event().wait(0.005)

    return endless


class TestWorker(Case):
    def make_loop(self) -> Loops:
        return workers(Mainspring(self.url), coroutine)


class TestWorkerWithAThreadAtWork(Case):
    def make_loop(self) -> Loops:
        return workers(Mainspring(self.url), plain_function)


class TestWorkerOnAVirtualClock(Case):
    def make_loop(self) -> Loops:
        return workers(Mainspring(self.url, clock=VirtualClock()), coroutine)


class TestApp(Case):
    @asynccontextmanager
    async def make_loop(self) -> AsyncIterator[Loop]:
        app = Mainspring(self.url)

        @app.task
        async def never() -> None: ...

        async def work() -> None:
            handle = await never.enqueue()
            waiting.append(asyncio.create_task(handle.result()))
            await asyncio.sleep(0)

        waiting: list[asyncio.Task[None]] = []
        yield Loop(start=app.__aenter__, stop=app.close, work=work)
        await ended(waiting)


class TestStore(Case):
    @asynccontextmanager
    async def make_loop(self) -> AsyncIterator[Loop]:
        store = open_store(self.url)

        async def work() -> None:
            waiting.append(asyncio.create_task(store.wait("claimable", 3600)))
            await asyncio.sleep(0)

        waiting: list[asyncio.Task[None]] = []
        yield Loop(start=store.open, stop=store.close, work=work)
        await ended(waiting)


class TestSyncBridge(Case):
    @asynccontextmanager
    async def make_loop(self) -> AsyncIterator[Loop]:
        app = Mainspring(self.url)

        @app.task
        async def never() -> None: ...

        async def work() -> None:
            job = await asyncio.to_thread(never.sync.enqueue)
            waiting.append(asyncio.create_task(asyncio.to_thread(job.result, 0.1)))

        waiting: list[asyncio.Task[None]] = []
        yield Loop(
            start=partial(asyncio.to_thread, app.sync.__aenter__),
            stop=partial(asyncio.to_thread, app.sync.close),
            work=work,
        )
        await asyncio.gather(*waiting, return_exceptions=True)


class TestQueueMonitor(Case):
    @asynccontextmanager
    async def make_loop(self) -> AsyncIterator[Loop]:
        async with Mainspring(self.url) as app:
            monitor = QueueMonitor(app, every=0.001)
            yield Loop(start=monitor.start, stop=monitor.stop, work=partial(asyncio.sleep, 0))


class TestLeader(Case):
    @asynccontextmanager
    async def make_loop(self) -> AsyncIterator[Loop]:
        async with Mainspring(self.url) as app:
            leader = app.leader("it")
            yield Loop(
                start=partial(leader.acquire, keep=True), stop=leader.release,
                run=partial(leader.run, asyncio.Event().wait),
            )  # fmt: skip
            await leader.release()


class TestWorkerThatLeads(Case):
    def make_loop(self) -> Loops:
        return workers(Mainspring(self.url, fire="leader"), coroutine)


async def ended(waiting: list[asyncio.Task[None]]) -> None:
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
