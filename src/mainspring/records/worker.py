"""A worker as the store has it, what it is told at a beat, and what it gets from a claim."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct

from ..ids import JobId, Lease, WorkerId
from .job import Job, UnreadableRecord


class Claim(Struct, frozen=True):
    """Jobs taken under a fresh lease, and when asking again can help."""

    jobs: list[Job]
    next_at: datetime | None = None
    """None: nothing is waiting for these queues and tasks."""
    expired: list[JobId] = []
    """Jobs this call ended because their expires_at had passed."""
    unreadable: list[UnreadableRecord] = []
    """Jobs this call set aside because their records cannot be decoded."""


class WorkerInfo(Struct, frozen=True, kw_only=True):
    """One worker process, as its beat describes it."""

    id: WorkerId
    host: str
    pid: int
    queues: tuple[str, ...] | None
    """None: all of them."""
    tasks: tuple[str, ...]
    concurrency: int
    started_at: datetime
    running: int = 0
    limits: Mapping[str, int] = {}
    """Tasks of which only so many may run here at once."""
    queue_limits: Mapping[str, int] = {}
    finished: int = 0
    """Runs that have ended since it started."""
    leaked: int = 0
    """Slots held by runs that ignore their interruption."""
    memory: int = 0
    """Bytes resident."""
    drained: bool = False
    """It takes no more jobs until it is told to resume."""
    stopping: bool = False
    """It takes no more jobs, and ends when those that run have ended or its grace is over."""
    deaf: bool = False
    """It listens for news in vain, and looks for jobs at its poll interval."""
    lease: float = 0.0
    """Seconds from a beat to the end of its lease; 0: not said."""
    grace: float | None = None
    """Seconds that running jobs have to end when it is stopped; None: of a release that cannot be told to."""
    beats: int = 0
    """Which of its beats says so, counted from 1: one that was given up may come after later ones."""
    schema: int = 0
    """The newest schema of the store that its release knows; 0: not said."""
    fingerprints: tuple[str, ...] = ()
    """Arguments.fingerprint of each of its tasks, in their order; none: of a release that does not know."""


class WorkerCommands(Struct, frozen=True, omit_defaults=True):
    """What an operator wants of a worker; it hears them at its next beat."""

    concurrency: int | None = None
    """None: as it was started."""
    drained: bool = False
    stopped: bool = False
    """It is to end; there is no way back."""


WorkerState = Literal["open", "draining", "drained", "resuming", "stopping"]
WorkerCommand = Literal["resize", "drain", "resume", "stop"]


class WorkerRow(Struct, frozen=True):
    """A worker's row in the store."""

    info: WorkerInfo
    until: datetime
    orders: WorkerCommands = WorkerCommands()

    @property
    def state(self) -> WorkerState:
        """What people see: orders it has not heard yet are on their way."""
        if self.orders.stopped or self.info.stopping:
            return "stopping"
        if self.orders.drained:
            return "drained" if self.info.drained and not self.info.running else "draining"
        return "resuming" if self.info.drained else "open"

    @property
    def running(self) -> int:
        """Jobs it ran at its last beat; `app.workers.running(id)` has the jobs themselves."""
        return self.info.running

    @property
    def beat_at(self) -> datetime | None:
        """When it beat last; None if it has not said how long its lease is."""
        return self.until - timedelta(seconds=self.info.lease) if self.info.lease else None


class BeatReply(Struct, frozen=True):
    """What a worker hears when it says that it lives."""

    holds: dict[JobId, Lease]
    """The runs the store believes this worker has."""
    cancels: dict[JobId, str]
    """Those of them somebody asked to cancel, with the reason."""
    orders: WorkerCommands = WorkerCommands()
    lost: bool = True
    """False: no silent worker holds runs, and a sweep would find nothing."""
    watched_until: datetime | None = None
    """Until when somebody wants, or wanted, news of what happens here."""
