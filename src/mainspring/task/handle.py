"""The handle of a job: enqueue returns it; it reads the job and waits for its result."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..codec import ResultCodec
from ..errors import FlowFailed, JobCancelled, JobDead, JobExpired, JobNotFound, JobUnfinished, ResultTimeout
from ..ids import JobId
from ..records.job import Enqueued, Job
from ..span import Span, seconds

if TYPE_CHECKING:
    from ..engine import Engine
    from ..sync import SyncHandle

R = TypeVar("R")
# The wait for a result without a timeout is repeated after this time.
MAX_WAIT_SECONDS = 3600.0
# Of a task whose code is elsewhere.
UNKNOWN_RESULTS = ResultCodec(None, "")


class Handle(Generic[R]):
    """A job, for the caller that wants its result."""

    __slots__ = ("_engine", "_results", "id", "status")

    def __init__(self, engine: Engine, enqueued: Enqueued, results: ResultCodec = UNKNOWN_RESULTS) -> None:
        self._engine = engine
        self._results = results
        self.id: JobId = enqueued.id
        self.status = enqueued.status
        """new, duplicate, replaced, debounced or collected."""

    def __repr__(self) -> str:
        return f"<Handle {self.id} {self.status}>"

    @property
    def duplicate(self) -> bool:
        """Whether another job held the key, and this is the handle of that job."""
        return self.status not in ("new", "collected")

    async def job(self) -> Job:
        """The job as it is stored now."""
        return await self._engine.jobs.get(self.id)

    async def result(self, timeout: Span | None = None) -> R:
        """Waits for the job, and returns the task's result.

        Raises JobDead, JobCancelled, JobExpired, JobNotFound or, after `timeout` (seconds, or "5m"), ResultTimeout.
        """
        clock = self._engine.clock
        limit = None if timeout is None else seconds(timeout, "result(timeout=…)")
        end = None if limit is None else clock.now() + timedelta(seconds=limit)
        while True:
            left = MAX_WAIT_SECONDS if end is None else max(0.0, (end - clock.now()).total_seconds())
            job = await self._engine.jobs.wait(self.id, left)
            shown = job.shown(clock.now())
            if shown == "completed":
                value: R = self._results.decode(job.result)
                return value
            if shown in _ENDS:
                raise _error_of(job, shown)(_why(job, shown))
            if end is not None and clock.now() >= end:
                raise ResultTimeout(f"job {self.id} ({job.task}) is {shown} after {limit:g} s")

    async def signal(self, name: str, value: Any = None, *, delivery: str | None = None) -> None:
        """Gives a signal of this flow, or of this job, its value: see app.flows.signal()."""
        await self._engine.flows.signal(self.id, name, value, delivery=delivery)

    @property
    def sync(self) -> SyncHandle[R]:
        """The same names for code that does not await."""
        from ..sync import SyncHandle

        return SyncHandle(self)


# Failure.type of flows that are dead: of steps, or because of their timeout.
_OF_FLOWS = ("FlowFailed", "FlowTimeout")
_ENDS: dict[str, type[JobUnfinished]] = {"dead": JobDead, "cancelled": JobCancelled, "expired": JobExpired}


def _error_of(job: Job, shown: str) -> type[JobUnfinished]:
    if shown == "dead" and job.failure is not None and job.failure.type in _OF_FLOWS:
        return FlowFailed
    return _ENDS[shown]


def _why(job: Job, shown: str) -> str:
    if shown == "expired":
        return f"job {job.id} ({job.task}) was not started before {job.expires_at}"
    failure = f"{job.failure.type}: {job.failure.message}" if job.failure else ""
    reason = job.cancel_reason or failure or "no reason given"
    return f"job {job.id} ({job.task}) is {shown}: {reason}"


def job_not_found(id: Any) -> JobNotFound:
    return JobNotFound(f"there is no job {id!r} in the store (never enqueued, or deleted)")
