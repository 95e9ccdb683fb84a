"""Queries for jobs: filters, sort orders and cursors; and bulk updates with their results."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, cast

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from ..ids import JobId, WorkerId
from ..suggest import SuggestingStructMeta
from .job import Shown, State
from .run import PARTIAL_KIND

SignalRefusal = Literal["twice", "late", "unknown", "full"]
"""Why a signal was not taken: another value was given, its time is over, there is no such name, or no room for it."""


class Refusal(Struct, frozen=True):
    """Why an action did not change a job: its state, the job that holds its key, or an error in its new arguments."""

    state: State
    key: str | None = None
    holder: JobId | None = None
    error: str | None = None
    signal: SignalRefusal | None = None


class Changed(Struct, frozen=True):
    """The result of an operator's action: the jobs it changed and those it refused."""

    done: list[JobId]
    refused: dict[JobId, Refusal]
    next: JobId | None = None
    """The `after` of the next call. None if there are no more jobs."""


class Update(Struct, frozen=True, kw_only=True):
    """New values for a waiting job. UNSET: no change."""

    payload: str | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    run_at: datetime | UnsetType = UNSET
    expires_at: datetime | UnsetType | None = UNSET
    timeout: float | UnsetType | None = UNSET
    max_retries: int | UnsetType | None = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    metadata: Mapping[str, Any] | UnsetType = UNSET
    fingerprint: str | UnsetType | None = UNSET
    """The fingerprint of the new payload. If it is UNSET, a new payload has none."""


Updates = Update | Mapping[JobId, Update]
"""The same new values for every job, or separate ones by job id."""


class End(Struct, frozen=True):
    """One end of a job. A job that was retried and has ended again has another end."""

    finished_at: datetime | None
    runs: int


class Filter(Struct, metaclass=SuggestingStructMeta, frozen=True, kw_only=True):
    """Selects jobs: a job must match every field that is set. None matches any job."""

    ids: tuple[JobId, ...] | None = None
    states: tuple[Shown, ...] | None = None
    queues: tuple[str, ...] | None = None
    tasks: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    """The job must have all of these tags."""
    workers: tuple[WorkerId, ...] | None = None
    """The worker that runs the job now."""
    errors: tuple[str, ...] | None = None
    """Failure.kind of the job's last failure."""
    schedules: tuple[str, ...] | None = None
    """The schedule that made the job."""
    key_prefix: str | None = None
    """The beginning of the job's unique key or idempotency key."""
    created_after: datetime | None = None
    """Inclusive, as `created_before`."""
    created_before: datetime | None = None
    ends: Mapping[JobId, End] | None = None
    """These jobs, if the given end is still their newest."""
    outcome: Literal["partial"] | None = None
    """Completed jobs with failed items. app.jobs turns it into `errors`: stores never receive it."""

    def by_error(self) -> Filter:
        """The same selection with `outcome` expressed as `errors` and `states`."""
        if self.outcome is None:
            return self
        errors = (PARTIAL_KIND,) if self.errors is None or PARTIAL_KIND in self.errors else ()
        states = ("completed",) if self.states is None or "completed" in self.states else ()
        return replace(self, outcome=None, errors=errors, states=cast(tuple[Shown, ...], states))


Sort = Literal["created", "due", "finished"]
SORTS: tuple[Sort, ...] = ("created", "due", "finished")


class Cursor(Struct, frozen=True):
    """The end of a page: the id of the last job and the instant it is sorted by. No instant if sorted by creation."""

    id: JobId
    at: datetime | None = None
