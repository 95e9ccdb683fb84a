"""A worker: its row in the store, the reply to its beats, and the jobs it claims or carries on with."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct

from ..ids import JobId, Lease, WorkerId
from .job import Job, UnreadableRecord


class Claim(Struct, frozen=True):
    """Jobs claimed under a new lease, and when the next claim can find more."""

    jobs: list[Job]
    next_at: datetime | None = None
    """None if no job is waiting for these queues and tasks."""
    expired: list[JobId] = []
    """Jobs that this claim ended because their expires_at had passed."""
    unreadable: list[UnreadableRecord] = []
    """Jobs that this claim set aside because their records cannot be decoded."""


class CarryOn(Struct, frozen=True, kw_only=True, gc=False):
    """Asks `finish` to start jobs that its outcomes make due in flows, as a claim of this worker would."""

    worker: WorkerId
    queues: Collection[str] | None
    """None: all queues."""
    tasks: Collection[str]
    limit: int
    now: datetime


class Finished(set[JobId]):
    """The ids of the jobs whose outcome was accepted, and the jobs that were started with that."""

    __slots__ = ("carried_on",)

    def __init__(self, ids: Iterable[JobId] = (), carried_on: Sequence[Job] = ()) -> None:
        super().__init__(ids)
        self.carried_on = carried_on


class WorkerInfo(Struct, frozen=True, kw_only=True):
    """A worker process, as it describes itself with each beat."""

    id: WorkerId
    host: str
    pid: int
    queues: tuple[str, ...] | None
    """None: all queues."""
    tasks: tuple[str, ...]
    concurrency: int
    started_at: datetime
    running: int = 0
    limits: Mapping[str, int] = {}
    """The maximum number of runs at once on this worker, by task."""
    queue_limits: Mapping[str, int] = {}
    """The maximum number of runs at once on this worker, by queue."""
    finished: int = 0
    """Runs that have ended since the worker started."""
    leaked: int = 0
    """Slots held by runs that ignore their interruption."""
    memory: int = 0
    """Resident memory, in bytes."""
    drained: bool = False
    """The worker claims no more jobs until it is resumed."""
    stopping: bool = False
    """The worker claims no more jobs. It ends when its runs have ended or its grace period is over."""
    deaf: bool = False
    """Notifications do not reach the worker, so it looks for jobs at its poll interval."""
    lease: float = 0.0
    """Seconds from a beat to the end of the worker's lease. 0 if not known."""
    grace: float | None = None
    """Seconds that running jobs have to end when the worker is stopped. None if its release knows no such command."""
    beats: int = 0
    """The number of this beat, counted from 1: a beat that was given up may arrive after later ones."""
    schema: int = 0
    """The newest schema version of the store that the worker's release knows. 0 if not known."""
    fingerprints: tuple[str, ...] = ()
    """Arguments.fingerprint of each task, in the order of `tasks`. Empty if the worker's release sends none."""


class WorkerCommands(Struct, frozen=True, omit_defaults=True):
    """An operator's commands for a worker. The worker receives them with its next beat."""

    concurrency: int | None = None
    """None: the concurrency with which the worker was started."""
    drained: bool = False
    stopped: bool = False
    """The worker is to end. This cannot be taken back."""


WorkerState = Literal["open", "draining", "drained", "resuming", "stopping"]
WorkerCommand = Literal["resize", "drain", "resume", "stop"]


class WorkerRow(Struct, frozen=True):
    """A worker's row in the store."""

    info: WorkerInfo
    until: datetime
    orders: WorkerCommands = WorkerCommands()

    @property
    def state(self) -> WorkerState:
        """The state people see. Commands that the worker has not received yet show as draining or resuming."""
        if self.orders.stopped or self.info.stopping:
            return "stopping"
        if self.orders.drained:
            return "drained" if self.info.drained and not self.info.running else "draining"
        return "resuming" if self.info.drained else "open"

    @property
    def running(self) -> int:
        """The number of jobs it ran at its last beat; `app.workers.running(id)` returns the jobs."""
        return self.info.running

    @property
    def beat_at(self) -> datetime | None:
        """The instant of its last beat. None if the length of its lease is not known."""
        return self.until - timedelta(seconds=self.info.lease) if self.info.lease else None


class BeatReply(Struct, frozen=True):
    """The store's reply to a worker's beat."""

    holds: dict[JobId, Lease]
    """The runs that this worker holds according to the store."""
    cancels: dict[JobId, str]
    """The runs among them that are to be cancelled, with the reason."""
    orders: WorkerCommands = WorkerCommands()
    lost: bool = True
    """False if no silent worker holds runs, so that a sweep would find nothing."""
    watched_until: datetime | None = None
    """The end of the time in which the live feed is wanted. It may have passed."""
    webhooks: str | None = None
    """A text that changes whenever a webhook does. None if the store has not looked."""
