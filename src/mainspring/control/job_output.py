"""The output of a job: a page of it, and following it chunk by chunk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Protocol

from ..errors import BadInput
from ..ids import JobId
from ..records.job import Job
from ..records.run import OutputChunk
from .checks import checked_id, checked_limit

if TYPE_CHECKING:
    from ..engine import Engine

# Chunks of one page.
MAX_PAGE_CHUNKS = 1000
# Pauses after the store has told of a change, which may be one of any job: the first after a chunk was read. It doubles
# with each read that finds nothing.
MIN_PAUSE_SECONDS = 0.02
MAX_PAUSE_SECONDS = 0.16


class OutputReader(Protocol):
    """Reads the output of a job from a position, and waits for more."""

    after: int
    """The number of the last chunk it has read."""
    ended: bool
    """Whether the job has ended and all of its output was read."""

    async def read(self, timeout: float | None = None, *, limit: int = MAX_PAGE_CHUNKS) -> Sequence[OutputChunk]:
        """The next chunks. Empty if the job has ended, or after `timeout` seconds (None: never)."""
        ...


class JobOutput(ABC):
    """Reads what the runs of a job have written with ctx.write()."""

    _engine: Engine

    @abstractmethod
    async def get(self, id: JobId) -> Job: ...

    async def output(
        self, id: JobId, *, limit: int = MAX_PAGE_CHUNKS, after: int = 0, newest: bool = False
    ) -> Sequence[OutputChunk]:
        """The chunks beyond number `after`, in order: the first of them, or the last ones if `newest`."""
        checked_limit(limit, MAX_PAGE_CHUNKS)
        await self.get(id)
        store = await self._engine.connect()
        return await store.output(id, limit=limit, after=checked_after(after), newest=newest)

    async def read(self, id: JobId, *, after: int = 0) -> AsyncIterator[OutputChunk]:
        """Yields every chunk beyond number `after`, then each new one, until the job has ended.

        Each run begins a new output: a chunk with another `run` than the one before is the first of a new attempt,
        unless it is `resumed`: then it goes on behind what stored steps have written.
        """
        reader = self.output_reader(id, after=after)
        while not reader.ended:
            for chunk in await reader.read():
                yield chunk

    def output_reader(self, id: JobId, *, after: int = 0) -> OutputReader:
        """For a caller that waits for other things as well."""
        return _StoreReader(self._engine, self, checked_id(id), checked_after(after))


def checked_after(after: int) -> int:
    if after < 0:
        raise BadInput(f"after is the number of the last chunk that was read, 0 or more; got {after}")
    return after


class _StoreReader:
    def __init__(self, engine: Engine, jobs: JobOutput, id: JobId, after: int) -> None:
        self.after = after
        self.ended = False
        self._engine = engine
        self._jobs = jobs
        self._id = id
        self._pause = MIN_PAUSE_SECONDS

    async def read(self, timeout: float | None = None, *, limit: int = MAX_PAGE_CHUNKS) -> Sequence[OutputChunk]:
        clock, poll = self._engine.clock, self._engine.settings.poll_interval
        end = None if timeout is None else clock.monotonic() + timeout
        store = await self._engine.connect()
        while True:
            seen = await store.wait("final", 0)
            if found := await self._next(limit):
                return found
            # The job before its output: what it wrote is there when it has ended.
            job = await self._jobs.get(self._id)
            if job.state.final or job.shown(clock.now()) == "expired":
                found = await self._next(limit)
                self.ended = not found
                return found
            left = poll if end is None else min(poll, end - clock.monotonic())
            if left <= 0:
                return ()
            await store.wait("final", left, seen=seen)
            await clock.sleep(self._pause)
            self._pause = min(2 * self._pause, MAX_PAUSE_SECONDS)

    async def _next(self, limit: int) -> Sequence[OutputChunk]:
        store = await self._engine.connect()
        found = await store.output(self._id, limit=limit, after=self.after)
        if found:
            self.after, self._pause = found[-1].n, MIN_PAUSE_SECONDS
        return found
