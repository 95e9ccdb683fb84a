"""Which jobs a call is about, in which order, what it changes, and what came of that."""

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


class Refusal(Struct, frozen=True):
    """Why an action left a job alone: its state, who holds its key, or what is wrong with its new arguments."""

    state: State
    key: str | None = None
    holder: JobId | None = None
    error: str | None = None


class Changed(Struct, frozen=True):
    """What an operator's action did, job by job."""

    done: list[JobId]
    refused: dict[JobId, Refusal]
    next: JobId | None = None
    """Give it as `after` to go on; None: there is no more."""


class Update(Struct, frozen=True, kw_only=True):
    """New values for a job that waits. UNSET: as it is."""

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
    """Of the new payload; without it, a new payload's is not known."""


Updates = Update | Mapping[JobId, Update]
"""The same new values for each job, or its own for each that is named."""


class End(Struct, frozen=True):
    """One end of a job: a job that was put back to work and has ended again has another."""

    finished_at: datetime | None
    runs: int


class Filter(Struct, metaclass=SuggestingStructMeta, frozen=True, kw_only=True):
    """Which jobs: closed and conjunctive. None means any."""

    ids: tuple[JobId, ...] | None = None
    states: tuple[Shown, ...] | None = None
    queues: tuple[str, ...] | None = None
    tasks: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    """All of them must be on the job."""
    workers: tuple[WorkerId, ...] | None = None
    """Who runs it now."""
    errors: tuple[str, ...] | None = None
    """What it failed with last: Failure.kind."""
    schedules: tuple[str, ...] | None = None
    """Which made it."""
    key_prefix: str | None = None
    """How its unique or idempotency key begins."""
    created_after: datetime | None = None
    created_before: datetime | None = None
    """Those two: the instant itself is within."""
    ends: Mapping[JobId, End] | None = None
    """These jobs, while this is their newest end."""
    outcome: Literal["partial"] | None = None
    """Completed jobs some of whose items failed. app.jobs turns it into `errors`: no store sees it."""

    def by_error(self) -> Filter:
        """The same jobs, without an `outcome`."""
        if self.outcome is None:
            return self
        errors = (PARTIAL_KIND,) if self.errors is None or PARTIAL_KIND in self.errors else ()
        states = ("completed",) if self.states is None or "completed" in self.states else ()
        return replace(self, outcome=None, errors=errors, states=cast(tuple[Shown, ...], states))


Sort = Literal["created", "due", "finished"]
SORTS: tuple[Sort, ...] = ("created", "due", "finished")


class Cursor(Struct, frozen=True):
    """Where a page ended: the last job's instant (none when sorted by creation) and id."""

    id: JobId
    at: datetime | None = None
