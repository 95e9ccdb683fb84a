"""RunOutput: the chunks that a run writes until the store has them, their numbers, and the wait of a fast writer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Generator
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime
from typing import Any

from ..records.job import Job
from ..records.run import OutputChunk, RunReport
from ..store import Store
from ..task.context import DONE_AWAITABLE
from ..task.output import OutputLimit

# A writer that is further ahead of the store waits.
MAX_UNSENT_BYTES = 128 << 10
# A plain function that waits can be interrupted this often.
WAIT_SECONDS = 0.25


class RunOutput:
    """The chunks that one run writes. Any thread may call it.

    The chunks of a job are numbered through all its runs: a run that is not the first asks the store for the last
    number before its first chunks are sent.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._lock = threading.Lock()
        self._limit = OutputLimit()
        self._before: int | None = 0 if job.runs == 1 else None
        self._written = 0
        self._waiting: list[tuple[int, datetime, bytes, bool]] = []
        self._unsent_bytes = 0
        self._room: Future[None] | None = None

    def add(self, data: bytes, at: datetime, resumed: bool = False) -> bool:
        """Adds a chunk. Returns whether there is something new to send."""
        with self._lock:
            if (kept := self._limit.admit(data)) is None:
                return False
            self._written += 1
            self._waiting.append((self._written, at, kept, resumed))
            self._unsent_bytes += len(kept)
            return True

    # numbers

    @property
    def unnumbered(self) -> bool:
        """Whether it has to ask the store for the last number before it can be drained."""
        return self._before is None

    async def number(self, store: Store) -> None:
        """Reads the number of the job's last chunk. No other run can add one: this one has the job's lease."""
        last = await store.output(self._job.id, limit=1, newest=True)
        self._before = last[0].n if last else 0

    # sending

    def drain(self) -> tuple[OutputChunk, ...]:
        """The chunks that were not drained before."""
        with self._lock:
            if self._before is None:
                return ()
            waiting, self._waiting = self._waiting, []
            run, before = self._job.runs, self._before
            return tuple(OutputChunk(before + n, run, at, data.decode(), resumed) for n, at, data, resumed in waiting)

    def restore(self, chunks: tuple[OutputChunk, ...]) -> None:
        """Takes back chunks that the store did not accept."""
        with self._lock:
            before = self._before or 0
            self._waiting[:0] = [(chunk.n - before, chunk.at, chunk.text.encode(), chunk.resumed) for chunk in chunks]

    def sent(self, report: RunReport) -> None:
        """The store has these chunks, or has refused them: writers that wait for room go on."""
        with self._lock:
            self._unsent_bytes -= sum(len(chunk.text.encode()) for chunk in report.chunks)
            room = self._room
            if room is None or self._unsent_bytes > MAX_UNSENT_BYTES:
                return
            self._room = None
        room.set_result(None)

    def room(self) -> Future[None] | None:
        """What a writer that is ahead waits for; None if it need not wait."""
        with self._lock:
            if self._unsent_bytes <= MAX_UNSENT_BYTES:
                return None
            self._room = room = self._room or Future()
            return room


def waited(room: Future[None]) -> Awaitable[None]:
    """Waits at once in a plain function, in a coroutine when it is awaited."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        while not room.done():
            with suppress(TimeoutError):
                room.result(WAIT_SECONDS)
        return DONE_AWAITABLE
    return _Room(room)


class _Room:
    """Awaits room for more, on any event loop."""

    def __init__(self, room: Future[None]) -> None:
        self._room = room

    def __await__(self) -> Generator[Any, None, None]:
        # Shielded: the wait of one writer may be cancelled, and others wait for the same future.
        yield from asyncio.shield(asyncio.wrap_future(self._room)).__await__()
