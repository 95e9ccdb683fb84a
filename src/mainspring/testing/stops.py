"""A test suite for anything that starts and stops: subclass StopSafety, implement make_loop(), run pytest."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from msgspec import Struct

Act = Callable[[], Awaitable[object]]

# Real time that a stop may take.
STOP_SECONDS = 2.0
# Prefixes of threads that live as long as the process and belong to no loop: sync bridge, asyncio's executor.
_SHARED = ("mainspring-sync", "asyncio_")


async def _nothing() -> None:
    return None


class Loop(Struct, frozen=True, kw_only=True):
    """The object under test: how it is started, stopped and given work."""

    start: Act
    stop: Act
    """Stops without grace: work under way is interrupted."""
    work: Act = _nothing
    """Starts work that does not end by itself, and returns once it has begun."""
    run: Act | None = None
    """Starts, runs and stops in one call, if there is such a method; `work` may be called while it starts."""


class StopSafety:
    """Tests that a loop can be stopped at any time and repeatedly, in time, and leaves no task or thread behind.

    Needs the plugin mainspring.testing.plugin.
    """

    within = STOP_SECONDS

    def make_loop(self) -> AbstractAsyncContextManager[Loop]:
        """Returns a loop that was not started. Leaving the block releases resources that the loop does not own."""
        raise NotImplementedError

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Loop]:
        tasks, threads = asyncio.all_tasks(), set(threading.enumerate())
        async with self.make_loop() as loop:
            yield loop
        now = asyncio.get_running_loop().time
        end = now() + self.within
        while (left := _left(tasks, threads)) and now() < end:  # noqa: ASYNC110  a thread's end has no event
            await asyncio.sleep(0.005)
        assert left == []

    async def test_a_stop_returns_and_leaves_nothing_behind(self) -> None:
        async with self.fresh() as loop:
            await loop.start()
            async with asyncio.timeout(self.within):
                await loop.stop()

    async def test_a_stop_while_it_works_returns_in_time(self) -> None:
        async with self.fresh() as loop:
            await loop.start()
            await loop.work()
            async with asyncio.timeout(self.within):
                await loop.stop()

    async def test_ten_stops_in_a_row_are_as_good_as_one(self) -> None:
        async with self.fresh() as loop:
            await loop.start()
            await loop.work()
            async with asyncio.timeout(self.within):
                for _ in range(10):
                    await loop.stop()

    async def test_a_hundred_stops_at_once_are_as_good_as_one(self) -> None:
        async with self.fresh() as loop:
            await loop.start()
            await loop.work()
            async with asyncio.timeout(self.within):
                await asyncio.gather(*(loop.stop() for _ in range(100)))

    async def test_a_stop_before_the_start_does_no_harm(self) -> None:
        async with self.fresh() as loop:
            async with asyncio.timeout(self.within):
                await loop.stop()
            await loop.start()
            async with asyncio.timeout(self.within):
                await loop.stop()

    async def test_a_stop_in_the_middle_of_the_start_returns_in_time(self) -> None:
        async with self.fresh() as loop:
            starting = asyncio.ensure_future(loop.start())
            await asyncio.sleep(0)
            async with asyncio.timeout(self.within):
                await loop.stop()
                await asyncio.wait([starting])
                await loop.stop()

    async def test_a_stop_that_was_cancelled_can_be_repeated(self) -> None:
        async with self.fresh() as loop:
            await loop.start()
            await loop.work()
            stopping = asyncio.ensure_future(loop.stop())
            await asyncio.sleep(0)
            stopping.cancel()
            async with asyncio.timeout(self.within):
                await asyncio.wait([stopping])
                await loop.stop()

    async def test_a_cancel_ends_it_in_time(self) -> None:
        async with self.fresh() as loop:
            running = await _running(loop)
            await loop.work()
            running.cancel()
            done, _ = await asyncio.wait([running], timeout=self.within)
            assert done == {running}


async def _running(loop: Loop) -> asyncio.Future[Any]:
    """A task that runs the loop from start to stop."""
    if loop.run is not None:
        running = asyncio.ensure_future(loop.run())
        await asyncio.sleep(0)
        return running
    up = asyncio.Event()

    async def live() -> None:
        await loop.start()
        up.set()
        try:
            await asyncio.Event().wait()
        finally:
            await loop.stop()

    living = asyncio.ensure_future(live())
    await up.wait()
    return living


def _left(tasks: set[asyncio.Task[object]], threads: set[threading.Thread]) -> list[str]:
    """Tasks and threads that are not in the given sets, and still run."""
    begun = [repr(task) for task in asyncio.all_tasks() - tasks]
    return begun + [
        str(thread) for thread in set(threading.enumerate()) - threads if not thread.name.startswith(_SHARED)
    ]
