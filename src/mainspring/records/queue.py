"""A queue as operators see it, and dead jobs grouped by their error."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ..ids import JobId


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
