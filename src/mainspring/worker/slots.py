"""The slots of a worker: what runs now, and how each run is ended."""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from ..clock import Alarm, Clock
from ..errors import JobTimeout
from ..ids import JobId, Lease
from ..records.job import Job
from ..records.outcome import Done, Released, RunEnd, Stopped
from ..records.worker import BeatReply
from ..task.context import Context
from .runner import Runner

RunKey = tuple[JobId, Lease]
# How long a run may go on after it was told to end before its slot is given up.
PATIENCE = 5.0
# How long runs may take to end after a drain has cancelled them.
LAST_CALL = 3.0


class Run:
    """One job in a slot."""

    __slots__ = ("ctx", "job", "key", "lost", "size", "task", "why")

    def __init__(self, job: Job, ctx: Context) -> None:
        self.job = job
        self.ctx = ctx
        self.key: RunKey = (job.id, job.lease or "")
        self.task: asyncio.Task[RunEnd] | None = None
        self.why: Released | Stopped | None = None
        """Why the worker ended the run, if it did."""
        self.lost = False
        """The lease is gone: whatever the run does counts for nothing."""
        self.size = 0
        """Bytes of its job and outcome, once it has ended."""

    def end(self, why: Released | Stopped) -> None:
        """Interrupts the run; the first reason counts."""
        if self.why is None and self.task is not None:
            self.why = why
            self.ctx.stop()
            self.task.cancel()

    def lose(self) -> None:
        self.lost = True
        self.end(Released())


class Slots:
    """A run holds its slot until it has ended; one that will not end is settled without it, and leaks the slot."""

    def __init__(
        self,
        runner: Runner,
        size: int,
        clock: Clock,
        ended: Callable[[Run, RunEnd], object],
        leaked: Callable[[Job, str], object],
    ) -> None:
        self._runner = runner
        self._clock = clock
        self._ended = ended
        self._leaked = leaked
        self._runs: dict[RunKey, Run] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._fewer = Alarm(clock)
        self._leaks: set[RunKey] = set()
        self._deserted: set[asyncio.Task[RunEnd]] = set()
        runner.threads.leaked = self._thread_leaked
        runner.threads.returned = self._thread_returned
        self.size = size
        self.per_task: Counter[str] = Counter()
        self.per_queue: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(list(self._runs.values()))

    def __contains__(self, key: RunKey) -> bool:
        return key in self._runs

    def newest(self, count: int) -> list[Run]:
        """The runs that began last, in their order."""
        return list(islice(reversed(self._runs.values()), count))[::-1]

    @property
    def leaks(self) -> int:
        """Slots that are held by runs that have been given up."""
        return len(self._leaks)

    @property
    def free(self) -> int:
        return self.size - len(self._runs) - len(self._leaks)

    def begin(self, job: Job) -> None:
        run = Run(job, self._runner.context(job))
        run.ctx.watch = self._watch
        self._runs[run.key] = run
        self.per_task[job.task] += 1
        self.per_queue[job.queue] += 1
        # Not asyncio.create_task(), which asks for the loop each time: a system call on some releases of Python.
        self._loop = self._loop or asyncio.get_running_loop()
        run.task = self._loop.create_task(self._runner.run(run.ctx))
        run.task.add_done_callback(partial(self._done, run))

    def _done(self, run: Run, task: asyncio.Task[RunEnd]) -> None:
        if run.key not in self._runs:  # settled long ago; what it says now counts for nothing
            self._deserted.discard(task)
            self._leaks.discard(run.key)
            if not task.cancelled():
                task.exception()  # looked at, so that asyncio does not complain
            return
        if task.cancelled():
            ended: RunEnd = run.why or asyncio.CancelledError("the task cancelled itself")
        elif (broken := task.exception()) is not None:  # a bug of ours: the run is settled all the same
            ended = broken
        else:
            ended = task.result()
            if run.why is not None and (isinstance(run.why, Stopped) or type(ended) is not Done):
                ended = run.why  # whatever it did on its way out, it was told to stop; a release lets it be done
        self.give_up(run, ended)

    def give_up(self, run: Run, ended: RunEnd) -> None:
        """Settles the run and gives its slot back; one that was settled already is not heard a second time."""
        if self._runs.get(run.key) is run:
            del self._runs[run.key]
            self.per_task[run.job.task] -= 1
            self.per_queue[run.job.queue] -= 1
            if run.task is not None and not run.task.done():
                self._deserted.add(run.task)
            self._ended(run, ended)
            self._fewer.ring()

    async def idle(self, patience: Callable[[], float] | None = None) -> None:
        """Returns when nothing runs, or patience (seconds from now) is over; hurry() makes it look at that again."""
        began = self._clock.monotonic()
        while self._runs:
            left = None if patience is None else began + patience() - self._clock.monotonic()
            if left is not None and left <= 0:
                return
            await self._fewer.wait(left)

    async def stirred(self) -> None:
        """Until a run has ended, or hurry() was called."""
        await self._fewer.wait(None)

    def hurry(self) -> None:
        self._fewer.ring()

    async def drain(self, grace: Callable[[], float]) -> None:
        """Runs get their grace, then are released; nothing runs when it returns."""
        await self.idle(grace)
        for run in self:
            run.end(Released())
        await self.idle(lambda: LAST_CALL)
        for run in self:
            # It ignores its cancellation: the job is released all the same, and the run counts for nothing.
            self.give_up(run, Released())

    def lose(self) -> None:
        """The leases are gone, of all that runs."""
        for run in self:
            run.lose()

    def close(self) -> None:
        """Ends the coroutines that were given up: an event loop waits for all of its tasks before it closes."""
        for task in self._deserted:
            with suppress(RuntimeError):  # it ignores even this
                coroutine: Any = task.get_coro()
                coroutine.close()
            task.cancel()

    def _watch(self, ctx: Context) -> None:
        run = self._runs.get((ctx.job.id, ctx.lease))
        if run is not None:
            self._clock.call_later(PATIENCE, lambda: self._leak(run))

    def _leak(self, run: Run) -> None:
        """The run was told to end long ago: a coroutine that swallows its cancellation."""
        if run.key not in self._runs or run.task is None:
            return
        self._leaks.add(run.key)
        stack = _stack(run.task.get_coro())
        self.give_up(run, run.why or JobTimeout("ran on after its timeout, and ignored every interruption"))
        self._leaked(run.job, stack)

    def _thread_leaked(self, ctx: Context, stack: str) -> None:
        self._leaks.add((ctx.job.id, ctx.lease))
        self._leaked(ctx.job, stack)

    def _thread_returned(self, ctx: Context) -> None:
        self._leaks.discard((ctx.job.id, ctx.lease))

    def hear(self, beat: BeatReply, sent: set[RunKey]) -> None:
        """Ends what the store says is cancelled, or is not ours any more, among the runs it was asked about."""
        for run in self:
            if run.ctx.commitment is not None and run.ctx.commitment.irrevocable:
                continue  # its transaction says how it ends, and the store may know before we do
            id, lease = run.key
            if beat.holds.get(id) != lease:
                if run.key in sent:
                    run.lose()
            elif id in beat.cancels:
                run.end(Stopped(beat.cancels[id] or "cancelled"))


def _stack(waiting: Any) -> str:
    """Where a suspended coroutine is, down to what it awaits; a task's own get_stack() stops at its first frame."""
    lines: list[str] = []
    while (frame := getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)) is not None:
        lines += traceback.format_stack(frame, limit=1)
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)
    return "".join(lines)
