"""The slots of a worker: the runs in progress, and how each of them is ended."""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from contextvars import Context as ContextVars
from contextvars import copy_context
from datetime import datetime
from itertools import islice
from typing import Any

from ..clock import Alarm, Clock, Timer
from ..errors import JobTimeout
from ..ids import JobId, Lease
from ..records.job import Job
from ..records.outcome import Done, Outcome, Released, RunEnd, Stopped
from ..records.worker import BeatReply
from ..task.context import Context
from .batch_size import bytes_of
from .child_slots import MAX_WAIT_SECONDS
from .own_context import run_on
from .runner import Runner

RunKey = tuple[JobId, Lease]
# How long a run may continue after it was interrupted before its slot counts as leaked.
INTERRUPT_GRACE_SECONDS = 5.0
# How long runs are started one after the other before other work of the event loop has its turn.
START_SECONDS = 0.01
# How long runs may take to end after a drain has cancelled them.
DRAIN_GRACE_SECONDS = 3.0


class Run:
    """One job in a slot."""

    __slots__ = (
        "began_at",
        "coroutine",
        "ctx",
        "end_reason",
        "has_child",
        "job",
        "key",
        "lost",
        "settled",
        "size",
        "task",
    )

    def __init__(self, job: Job) -> None:
        self.job = job
        self.key: RunKey = (job.id, job.lease or "")
        self.ctx: Context | None = None
        self.task: asyncio.Task[None] | None = None
        """The task that runs it; like the context and the coroutine None before it begins and after it has ended."""
        self.coroutine: Coroutine[Any, Any, RunEnd] | None = None
        self.end_reason: Released | Stopped | None = None
        """Why the worker ended the run; None if it did not."""
        self.has_child = False
        """Whether one of the worker's child processes is for this run."""
        self.began_at: datetime | None = None
        """When it got a child process; None if it did not wait for one."""
        self.lost = False
        """The lease is gone: the outcome of the run is discarded."""
        self.settled = False
        """Whether its slot is free, or leaked, and its end was passed on."""
        self.size = 0
        """Bytes of the job and its outcome, set when the run has ended."""

    def give_child(self, began_at: datetime | None = None) -> None:
        self.has_child, self.began_at = True, began_at

    def take_child(self) -> None:
        self.has_child = False

    def begin(self, ctx: Context, task: asyncio.Task[None], coroutine: Coroutine[Any, Any, RunEnd]) -> None:
        self.ctx, self.task, self.coroutine = ctx, task, coroutine

    def returned(self) -> None:
        self.task = self.coroutine = None

    def settle(self) -> Context | None:
        """Marks it as settled, and returns its context, which nothing needs while the outcome is stored."""
        ctx, self.ctx, self.settled = self.ctx, None, True
        return ctx

    def measure(self, outcome: Outcome) -> int:
        """Sets its size, and returns it."""
        self.size = bytes_of(self.job) + len(outcome.result or "")
        return self.size

    def end(self, reason: Released | Stopped) -> None:
        """Interrupts the run, or keeps it from beginning. Only the first reason is recorded."""
        if self.end_reason is None:
            self.end_reason = reason
            if self.ctx is not None:
                self.ctx.stop()
            if self.task is not None:
                self.task.cancel()

    def lose(self) -> None:
        self.lost = True
        self.end(Released())


class Slots:
    """The runs of a worker. A run that ignores its interruption is settled anyway, and its slot counts as leaked."""

    def __init__(
        self,
        runner: Runner,
        size: int,
        clock: Clock,
        on_end: Callable[[Run, Context | None, RunEnd], object],
        on_freed: Callable[[], object],
        on_leak: Callable[[Job, str], object],
        *,
        counts: bool,
    ) -> None:
        """`on_end` is called with each run that has ended and its context (None if it did not begin), `on_freed` once
        after one or several of them. `counts`: runs are counted by task and queue."""
        self._runner = runner
        self._clock = clock
        self._on_end = on_end
        self._on_freed = on_freed
        self._on_leak = on_leak
        self._counts = counts
        self._children = runner.children
        self._release_timer: Timer | None = None
        self._runs: dict[RunKey, Run] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready: deque[Run] = deque()
        self._starter: asyncio.Task[None] | None = None
        """The task that begins the runs that are ready."""
        self._overlaps = False
        self._has_freed = False
        """Whether slots became free since `on_freed` was called."""
        self._changed = Alarm(clock)
        self._leaks: set[RunKey] = set()
        self._abandoned: set[asyncio.Task[None]] = set()
        runner.threads.watch_leaks(self._thread_leaked, self._thread_returned)
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
        """The `count` runs started last, oldest first."""
        return list(islice(reversed(self._runs.values()), count))[::-1]

    def resize(self, size: int) -> None:
        self.size = size

    def overlap_with_store(self) -> None:
        """Lets the loop send the next claim and finish when half of a claim's runs have started, so that the store
        works on them while Python starts the rest."""
        self._overlaps = True

    @property
    def leaks(self) -> int:
        """Slots held by runs that were settled but have not ended."""
        return len(self._leaks)

    @property
    def free(self) -> int:
        return self.size - len(self._runs) - len(self._leaks)

    @property
    def child_room(self) -> int:
        """How many more jobs to claim for the child processes."""
        return self._children.room

    def start(self, job: Job) -> None:
        run = Run(job)
        self._runs[run.key] = run
        if self._counts:
            self.per_task[job.task] += 1
            self.per_queue[job.queue] += 1
        if not self._children.tasks or self._children.take(run):
            self._make_ready(run)
        elif self._release_timer is None:
            self._release_later(MAX_WAIT_SECONDS)

    def _make_ready(self, run: Run) -> None:
        self._ready.append(run)
        if self._starter is None:
            self._start_soon()

    def _start_soon(self) -> None:
        # Not asyncio.create_task(): it looks up the loop each time, a system call on some releases of Python.
        self._loop = self._loop or asyncio.get_running_loop()
        self._starter = self._loop.create_task(self._start_runs())
        self._starter.add_done_callback(self._starter_done)

    async def _start_runs(self) -> None:
        """Begins the runs that are ready, one after the other, until one of them waits.

        A run that ends without waiting needs no task of its own. One that waits keeps this task, which has been its
        current_task() from the first step on, and the others begin in another task.
        """
        assert self._loop is not None
        task = asyncio.current_task(self._loop)
        assert task is not None
        until, half = self._clock.monotonic() + START_SECONDS, self.size // 2 if self._overlaps else -1
        ended: RunEnd
        while self._ready:
            run = self._ready.popleft()
            if run.end_reason is not None:
                self._settle(run, run.end_reason)
                continue
            ctx = self._runner.context(run.job, self._watch, run.began_at)
            coroutine, variables = self._runner.run(ctx), copy_context()
            run.begin(ctx, task, coroutine)
            try:
                waits_for = variables.run(coroutine.send, None)
            except StopIteration as stop:
                ended = stop.value
            except BaseException as error:  # a cancellation; else a bug in the engine: the run is settled all the same
                ended = error
            else:
                self._go_on()
                try:
                    ended = await run_on(coroutine, variables, waits_for)
                except GeneratorExit:  # by close()
                    raise
                except BaseException as error:
                    ended = error
                # The task of a run in a child process has run no code of the user's: it may begin the next run.
                resumes = run.has_child and self._starter is None and not task.cancelling()
                if resumes:
                    self._starter, until = task, self._clock.monotonic() + START_SECONDS
                self._end(run, task, ended)
                if resumes:
                    continue
                self._freed()
                return
            cancelled = task.cancelling() > 0
            self._end(run, task, asyncio.CancelledError() if cancelled else ended)
            if cancelled or len(self._runs) == half or self._clock.monotonic() > until:
                break  # to begin the others in a task that is not cancelled, or after other work of the loop
        self._go_on()

    def _go_on(self) -> None:
        """Passes on that slots are free, and begins the other runs in another task."""
        self._freed()
        self._starter = None
        if self._ready:
            self._start_soon()

    def _starter_done(self, task: asyncio.Task[None]) -> None:
        if self._starter is task:  # other code, or the end of the loop, has cancelled it before it began
            self._starter = None
            self._release_ready()
        if task in self._abandoned and not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it

    def _release_ready(self) -> None:
        """Releases the runs that have not begun."""
        while self._ready:
            run = self._ready.popleft()
            self.settle(run, run.end_reason or Released())

    def _end(self, run: Run, task: asyncio.Task[None], ended: RunEnd) -> None:
        run.returned()
        if run.settled:  # its result is discarded
            if run.has_child:
                self._give_back_child(run)
            self._abandoned.discard(task)
            self._leaks.discard(run.key)
            return
        reason = run.end_reason
        if reason is not None and (isinstance(reason, Stopped) or type(ended) is not Done):
            ended = reason  # an interruption wins over the result, but a released run may still be done
        elif issubclass(type(ended), asyncio.CancelledError):  # not isinstance(), which asks the object for its class
            ended = asyncio.CancelledError("the task cancelled itself")
        self._settle(run, ended)

    def settle(self, run: Run, ended: RunEnd) -> None:
        """Frees the slot and passes the end of the run on. Does nothing if the run is settled already."""
        self._settle(run, ended)
        self._freed()

    def _settle(self, run: Run, ended: RunEnd) -> None:
        if run.settled:
            return
        ctx, self._has_freed = run.settle(), True
        del self._runs[run.key]
        if self._counts:
            self.per_task[run.job.task] -= 1
            self.per_queue[run.job.queue] -= 1
        if run.task is not None:
            self._abandoned.add(run.task)
        elif run.has_child:
            self._give_back_child(run)
        self._on_end(run, ctx, ended)

    def _give_back_child(self, run: Run) -> None:
        if (following := self._children.give_back(run)) is not None:
            self._make_ready(following)

    def _freed(self) -> None:
        if not self._has_freed:
            return
        self._has_freed = False
        self._on_freed()
        self._changed.ring()

    async def wait_idle(self, timeout: Callable[[], float] | None = None) -> None:
        """Returns when nothing runs, or `timeout()` seconds after the call; wake() makes it call `timeout` again."""
        began = self._clock.monotonic()
        while self._runs:
            left = None if timeout is None else began + timeout() - self._clock.monotonic()
            if left is not None and left <= 0:
                return
            await self._changed.wait(left)

    async def wait_change(self) -> None:
        """Returns when a run has ended or wake() was called."""
        await self._changed.wait(None)

    def wake(self) -> None:
        self._changed.ring()

    async def drain(self, grace: Callable[[], float]) -> None:
        """Waits `grace()` seconds for runs to end, then releases them. Nothing runs when it returns."""
        self._release_waiting()
        await self.wait_idle(grace)
        for run in self:
            run.end(Released())
        self._settle_waiting()
        await self.wait_idle(lambda: DRAIN_GRACE_SECONDS)
        for run in self:
            # It ignores its cancellation: the job is released all the same, and its result will be discarded.
            self.settle(run, Released())

    def lose_leases(self) -> None:
        """Ends all runs and discards their outcomes, because their leases are gone."""
        for run in self:
            run.lose()
        self._settle_waiting()

    # runs that wait for a child process

    def _release_later(self, seconds: float) -> None:
        # In an empty context, since the timer belongs to no run: a test clock uses the context to find the run.
        self._release_timer = ContextVars().run(self._clock.call_later, seconds, self._release_late)

    def _release_late(self) -> None:
        """Releases the runs that have waited too long for a child, so that other workers may take their jobs."""
        self._release_timer = None
        self._release_waiting(self._clock.monotonic() - MAX_WAIT_SECONDS + 1e-6)
        if (oldest := self._children.oldest) is not None:
            self._release_later(oldest + MAX_WAIT_SECONDS - self._clock.monotonic())

    def _release_waiting(self, until: float | None = None) -> None:
        for run in self._children.waiting(until):
            run.end(Released())
        self._settle_waiting()

    def _settle_waiting(self) -> None:
        """Settles the runs that were ended while they waited for a child."""
        if ended := self._children.remove_ended():
            for run in ended:
                self._settle(run, run.end_reason or Released())
            self._freed()

    def close(self) -> None:
        """Closes abandoned coroutines: an event loop waits for all of its tasks before it closes."""
        self._release_waiting()
        if self._release_timer is not None:
            self._release_timer.cancel()
        self._release_ready()
        for task in list(self._abandoned):
            with suppress(RuntimeError):  # it ignores even GeneratorExit
                coroutine: Any = task.get_coro()
                coroutine.close()
            task.cancel()

    def _watch(self, ctx: Context) -> None:
        run = self._runs.get((ctx.job.id, ctx.lease))
        if run is not None:
            self._clock.call_later(INTERRUPT_GRACE_SECONDS, lambda: self._leak(run))

    def _leak(self, run: Run) -> None:
        """Settles a coroutine that has swallowed its cancellation, and counts its slot as leaked."""
        if run.key not in self._runs or run.coroutine is None:
            return
        self._leaks.add(run.key)
        stack = _stack(run.coroutine)
        self.settle(run, run.end_reason or JobTimeout("ran on after its timeout, and ignored every interruption"))
        self._on_leak(run.job, stack)

    def _thread_leaked(self, ctx: Context, stack: str) -> None:
        self._leaks.add((ctx.job.id, ctx.lease))
        self._on_leak(ctx.job, stack)

    def _thread_returned(self, ctx: Context) -> None:
        self._leaks.discard((ctx.job.id, ctx.lease))

    def apply_beat(self, beat: BeatReply, sent: set[RunKey]) -> None:
        """Ends runs that are cancelled, and runs in `sent` whose lease is another worker's now."""
        for run in self:
            commitment = None if run.ctx is None else run.ctx.commitment
            if commitment is not None and commitment.irrevocable:
                continue  # its transaction decides how it ends, and the store may know that before the worker does
            id, lease = run.key
            if beat.holds.get(id) != lease:
                if run.key in sent:
                    run.lose()
            elif id in beat.cancels:
                run.end(Stopped(beat.cancels[id] or "cancelled"))
        self._settle_waiting()


def _stack(waiting: Any) -> str:
    """The stack of a suspended coroutine down to what it awaits; Task.get_stack() returns only the first frame."""
    lines: list[str] = []
    while (frame := getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)) is not None:
        lines += traceback.format_stack(frame, limit=1)
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)
    return "".join(lines)
