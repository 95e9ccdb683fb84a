"""The slots of a worker: the runs in progress, and how each of them is ended."""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import Context as ContextVars
from contextvars import copy_context
from itertools import islice
from typing import Any

from ..clock import Alarm, Clock, Timer
from ..errors import JobTimeout
from ..records.job import Job
from ..records.outcome import Done, Released, RunEnd, Stopped
from ..records.worker import BeatReply
from ..task.context import Context
from . import claim_ahead
from .child_slots import MAX_WAIT_SECONDS
from .claim_ahead import ClaimAhead
from .own_context import run_on
from .run import Run, RunKey
from .runner import Runner

# How long a run may continue after it was interrupted before its slot counts as leaked.
INTERRUPT_GRACE_SECONDS = 5.0
# How long runs are started one after the other before other work of the event loop has its turn.
START_SECONDS = 0.01
# How long runs may take to end after a drain has cancelled them.
DRAIN_GRACE_SECONDS = 3.0


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
        self._suspended = 0
        """Number of runs that wait for anything but a slot or a child process."""
        self._ahead = ClaimAhead(clock)
        self._claims_ahead = 1 < size < claim_ahead.ENOUGH_SLOTS
        self._slot_timer: Timer | None = None
        self._waits_for_slot: Run | None = None
        """The run that was the last in `_ready` when that timer was set."""
        self._was_full = False
        """Whether runs have waited for a slot since the last one began."""
        self._overlaps = False
        self._has_freed = False
        """Whether slots became free since `on_freed` was called."""
        self._changed = Alarm(clock)
        self._leaks: set[RunKey] = set()
        self._abandoned: set[asyncio.Task[None]] = set()
        runner.threads.watch_leaks(self._thread_leaked, self._thread_returned)
        self.size = size
        self.reserved = 0
        """Number of slots that are kept free."""
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
        self.size, self._claims_ahead = size, 1 < size < claim_ahead.ENOUGH_SLOTS
        self._begin_ready()

    def overlap_with_store(self) -> None:
        """Lets the loop send the next claim and finish when half of a claim's runs have started, so that the store
        works on them while Python starts the rest."""
        self._overlaps = True

    @property
    def leaks(self) -> int:
        """Slots held by runs that were settled but have not ended."""
        return len(self._leaks)

    def reserve(self, slots: int) -> None:
        """Changes the number of slots that are kept free by this one."""
        self.reserved += slots

    @property
    def capacity(self) -> int:
        """The slots, and how many jobs to claim ahead of them."""
        return self.size + self._ahead.jobs(self.size) if self._claims_ahead else self.size

    @property
    def free(self) -> int:
        """How many more jobs to claim."""
        return self.capacity - len(self._runs) - len(self._leaks) - self.reserved

    @property
    def taken(self) -> int:
        """Number of runs without those that were claimed ahead."""
        return len(self._runs) - min(len(self._ready), self._excess)

    @property
    def _excess(self) -> int:
        return max(0, len(self._runs) + len(self._leaks) - self.size)

    @property
    def _has_slot(self) -> bool:
        return self._suspended + len(self._leaks) < self.size

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
            self._begin_ready()

    def _begin_ready(self) -> None:
        """Lets the runs begin that are ready, if there is a slot; releases them if none becomes free."""
        if self._ready and self._starter is None:
            if self._has_slot:
                self._start_soon()
            else:
                self._was_full = True
        if self._slot_timer is None and len(self._runs) > self.size and self._ready:
            self._watch_ready()

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
        since, half = self._clock.monotonic(), self.capacity // 2 if self._overlaps else -1
        at_once, began_at, self._was_full = 0, self._clock.now() if self._was_full else None, False
        ended: RunEnd
        while self._ready and self._suspended + len(self._leaks) < self.size:
            run = self._ready.popleft()
            if run.end_reason is not None:
                self._settle(run, run.end_reason)
                continue
            ctx = self._runner.context(run.job, self._watch, run.began_at or began_at)
            coroutine, variables = self._runner.run(ctx), copy_context()
            run.begin(ctx, task, coroutine)
            try:
                waits_for = variables.run(coroutine.send, None)
            except StopIteration as stop:
                ended = stop.value
            except BaseException as error:  # a cancellation; else a bug in the engine: the run is settled all the same
                ended = error
            else:
                run.suspend()
                self._suspended += 1
                self._ahead.note_wait()
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
                    self._starter, since, at_once = task, self._clock.monotonic(), 0
                self._end(run, task, ended)
                if resumes:
                    continue
                self._freed()
                return
            cancelled = task.cancelling() > 0
            self._end(run, task, asyncio.CancelledError() if cancelled else ended)
            at_once += 1
            if cancelled or len(self._runs) == half or self._clock.monotonic() - since > START_SECONDS:
                break  # to begin the others in a task that is not cancelled, or after other work of the loop
        if at_once and self._claims_ahead:
            self._ahead.note_ended(at_once, self._clock.monotonic() - since)
        self._go_on()

    def _go_on(self) -> None:
        """Passes on that slots are free, and begins the other runs in another task."""
        self._starter = None
        self._freed()

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
            self._settle(run, run.end_reason or Released())
        self._freed()

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
        if run.suspended:
            self._suspended -= 1
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
        if self._has_freed:
            self._has_freed = False
            self._on_freed()
            self._changed.ring()
        self._begin_ready()

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
        if not self._has_slot:
            self._release_ahead()
        await self.wait_idle(grace)
        for run in self:
            run.end(Released())
        self._settle_waiting()
        await self.wait_idle(lambda: DRAIN_GRACE_SECONDS)
        for run in self:
            # It ignores its cancellation: the job is released all the same, and its result will be discarded.
            self.settle(run, Released())

    def lose(self, ctx: Context) -> None:
        """Ends the run and discards its outcome, because its lease is gone."""
        if (run := self._runs.get((ctx.job.id, ctx.lease))) is not None:
            run.lose()

    def lose_leases(self) -> None:
        """Ends all runs and discards their outcomes, because their leases are gone."""
        for run in self:
            run.lose()
        self._settle_waiting()

    # runs that wait for a slot, or for a child process

    def _watch_ready(self) -> None:
        self._waits_for_slot = self._ready[-1]
        # In an empty context, since the timer belongs to no run: a test clock uses the context to find the run.
        self._slot_timer = ContextVars().run(
            self._clock.call_later, claim_ahead.MAX_WAIT_SECONDS, self._release_waiting_for_slot
        )

    def _release_waiting_for_slot(self) -> None:
        """Releases what was claimed ahead if a run has waited for a slot since the timer was set."""
        self._slot_timer = None
        if (run := self._waits_for_slot) is not None and run.ctx is None and not run.settled:
            self._release_ahead()
        self._waits_for_slot = None
        self._begin_ready()

    def _release_ahead(self) -> None:
        """Releases the runs beyond the slots that have not begun."""
        self._ahead.note_wait()
        for run in list(islice(reversed(self._ready), self._excess)):
            run.end(Released())
        self._settle_waiting()

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
        """Settles the runs that were ended while they waited for a slot or for a child."""
        ended = self._children.remove_ended()
        if any(run.end_reason is not None for run in self._ready):
            ended += [run for run in self._ready if run.end_reason is not None]
            self._ready = deque(run for run in self._ready if run.end_reason is None)
        if ended:
            for run in ended:
                self._settle(run, run.end_reason or Released())
            self._freed()

    def close(self) -> None:
        """Closes abandoned coroutines: an event loop waits for all of its tasks before it closes."""
        self._release_waiting()
        for timer in (self._release_timer, self._slot_timer):
            if timer is not None:
                timer.cancel()
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
        self._begin_ready()

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
