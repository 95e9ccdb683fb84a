"""Queues and jobs as operators see them: an overview, and dead jobs grouped by their error."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ..ids import JobId
from .circuit import Circuit
from .job import Shown


class DeadGroup(Struct, frozen=True, kw_only=True):
    """Dead jobs of one task that failed in the same way."""

    task: str
    error: str
    count: int
    newest: JobId
    last_at: datetime


class Queue(Struct, frozen=True, kw_only=True):
    """A queue as operators see it. The counts include unfinished jobs only."""

    name: str
    paused: bool = False
    pending: int = 0
    scheduled: int = 0
    retrying: int = 0
    running: int = 0
    paused_at: datetime | None = None
    """None if the queue is not paused, or if an earlier release paused it."""
    paused_by: str | None = None
    note: str = ""
    """The reason for the pause."""


class Overview(Struct, frozen=True):
    """Jobs by shown state, queues, and circuits at one time."""

    states: dict[Shown, int]
    """The number of jobs in each shown state, without states that have none."""
    queues: list[Queue]
    """Those that have unfinished jobs or are paused, in order of name."""
    circuits: list[Circuit]
    """Those of tasks with a breaker that have failed since their last success, by task."""
