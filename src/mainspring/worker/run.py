"""Run: one job in a slot of a worker, from its claim to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import datetime
from typing import Any

from ..ids import JobId, Lease
from ..records.job import Job
from ..records.outcome import Outcome, Released, RunEnd, Stopped
from ..task.context import Context
from .batch_size import bytes_of

RunKey = tuple[JobId, Lease]


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
        "suspended",
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
        self.suspended = False
        """Whether it has waited after it began, and so takes a slot until it is settled."""
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

    def suspend(self) -> None:
        self.suspended = True

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
