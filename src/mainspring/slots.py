"""The slots of a worker: what runs now, and how each run is ended."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from .context import Context
from .job import Beat, Job, JobId, Lease
from .outcome import Ended, Released, Stopped
from .runner import Runner

RunKey = tuple[JobId, Lease]


class Run:
    """One job in a slot."""

    __slots__ = ("ctx", "job", "key", "lost", "task", "why")

    def __init__(self, job: Job, ctx: Context) -> None:
        self.job = job
        self.ctx = ctx
        self.key: RunKey = (job.id, job.lease or "")
        self.task: asyncio.Task[Ended] | None = None
        self.why: Released | Stopped | None = None
        """Why the worker ended the run, if it did."""
        self.lost = False
        """The lease is gone: whatever the run does counts for nothing."""

    def end(self, why: Released | Stopped) -> None:
        """Interrupts the run; the first reason counts."""
        if self.why is None and self.task is not None:
            self.why = why
            self.ctx.cancelled = True
            self.task.cancel()

    def lose(self) -> None:
        self.lost = True
        self.end(Released())


class Slots:
    """A run holds its slot until it has ended, or is given up."""

    def __init__(self, runner: Runner, size: int, ended: Callable[[Run, Ended], object]) -> None:
        self._runner = runner
        self._ended = ended
        self._runs: dict[RunKey, Run] = {}
        self.size = size
        self.per_task: Counter[str] = Counter()
        self.per_queue: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(list(self._runs.values()))

    def __contains__(self, key: RunKey) -> bool:
        return key in self._runs

    def begin(self, job: Job) -> None:
        run = Run(job, self._runner.context(job))
        self._runs[run.key] = run
        self.per_task[job.task] += 1
        self.per_queue[job.queue] += 1
        run.task = asyncio.create_task(self._runner.run(run.ctx))
        run.task.add_done_callback(partial(self._done, run))

    def _done(self, run: Run, task: asyncio.Task[Ended]) -> None:
        if task.cancelled():
            ended: Ended = run.why or asyncio.CancelledError("the task cancelled itself")
        else:
            ended = task.result()
            if run.why is not None and isinstance(ended, BaseException):
                ended = run.why  # whatever it raised on its way out, it was told to stop
        self.free(run, ended)

    def free(self, run: Run, ended: Ended) -> None:
        """Gives the slot back; a run that was given up already is not heard a second time."""
        if self._runs.get(run.key) is run:
            del self._runs[run.key]
            self.per_task[run.job.task] -= 1
            self.per_queue[run.job.queue] -= 1
            self._ended(run, ended)

    def hear(self, beat: Beat, sent: set[RunKey]) -> None:
        """Ends what the store says is cancelled, or is not ours any more, among the runs it was asked about."""
        for run in self:
            id, lease = run.key
            if beat.holds.get(id) != lease:
                if run.key in sent:
                    run.lose()
            elif id in beat.cancels:
                run.end(Stopped(beat.cancels[id] or "cancelled"))
