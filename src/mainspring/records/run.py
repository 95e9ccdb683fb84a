"""A run of a job: how it ended, what it counted, used, logged and reported."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal

from msgspec import Struct

from ..ids import JobId, Lease, WorkerId


class Ending(StrEnum):
    """How one run ended, as its execution row tells."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    SNOOZED = "snoozed"
    RELEASED = "released"
    DISCARDED = "discarded"
    CANCELLED = "cancelled"
    CRASHED = "crashed"


# Runs that did their work, and runs that should have. The other endings say nothing about the task.
WENT_WELL = frozenset({Ending.COMPLETED})
WENT_WRONG = frozenset({Ending.FAILED, Ending.TIMEOUT, Ending.DISCARDED, Ending.CRASHED})

# A completed run some of whose items failed, no more than its task's failed_ratio allows. It has a failure of the type
# PARTIAL_TYPE, so that a filter by the error PARTIAL_KIND finds its job; an earlier release shows that as a note.
PARTIAL, PARTIAL_TYPE, PARTIAL_KIND = "partial", "Partial", "Partial: … of … items failed"

# What differs between two messages of the same error: numbers, ids, addresses, quoted values.
# A quote after a letter is an apostrophe: "can't", but not b'…'.
_VARYING = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|(?<!\w)b?'[^']*'|(?<!\w)b?\"[^\"]*\"|\d+", re.IGNORECASE)
MAX_KIND_CHARACTERS = 120
MAX_LINE_CHARACTERS = 240


class Failure(Struct, frozen=True, omit_defaults=True):
    """An exception as text: nothing is ever rebuilt from it."""

    type: str
    message: str
    stack: str = ""
    since: datetime | None = None
    """When the first of several runs in a row failed in this way; only version skew keeps it."""

    @property
    def kind(self) -> str:
        """Type and first line without what varies from one time to the next: equal for the same trouble."""
        first = self.message.partition("\n")[0][: 4 * MAX_KIND_CHARACTERS]
        return f"{self.type}: {_VARYING.sub('…', first)}"[:MAX_KIND_CHARACTERS]

    @property
    def line(self) -> str:
        """Type and first line as they are: what people know the trouble by."""
        first = self.message.partition("\n")[0].rstrip()
        return (f"{self.type}: {first}" if first else self.type)[:MAX_LINE_CHARACTERS]


class Items(Struct, frozen=True, omit_defaults=True):
    """How the items went that one run worked through."""

    success: int = 0
    failed: int = 0
    skipped: int = 0

    @property
    def total(self) -> int:
        return self.success + self.failed + self.skipped

    def verdict(self, ratio: float = 0.5) -> Literal["success", "partial", "failed"]:
        """Failed if more than `ratio` of the items did; no items are a success."""
        if not self.failed:
            return "success"
        return "failed" if self.failed > ratio * self.total else "partial"


class Usage(Struct, frozen=True):
    """What a run in a process of its own has used."""

    cpu: float
    """Seconds, of user and system together."""
    memory: int
    """Bytes, at the peak of the whole process. If it died: at most this, since what its worker held counts in."""


class RunNotes(Struct, frozen=True, omit_defaults=True):
    """What a run has to say for itself beside its value."""

    items: Items | None = None
    usage: Usage | None = None
    metadata: Mapping[str, Any] = {}


class Progress(Struct, frozen=True, omit_defaults=True):
    """How far a run has come."""

    run: int
    at: datetime
    done: float
    total: float | None = None
    note: str = ""


class LogLine(Struct, frozen=True):
    """A line a task has logged; `n` counts from 1 in each run."""

    run: int
    n: int
    at: datetime
    level: int
    text: str


class Execution(Struct, frozen=True, kw_only=True):
    """The history row of one run."""

    job_id: JobId
    number: int
    attempt: int
    ending: Ending
    worker: WorkerId
    lease: Lease
    started_at: datetime
    finished_at: datetime
    result_size: int = 0
    failure: Failure | None = None
    items: Items | None = None
    usage: Usage | None = None
    metadata: Mapping[str, Any] = {}

    @property
    def duration(self) -> timedelta:
        return self.finished_at - self.started_at

    @property
    def outcome(self) -> str:
        """Its ending; but "partial" where it completed and some of its items failed."""
        return outcome_of(self.ending, self.failure)


def outcome_of(ending: Ending, failure: Failure | None) -> str:
    """What people and statistics call the end of a run."""
    partial = failure is not None and failure.type == PARTIAL_TYPE and ending is Ending.COMPLETED
    return PARTIAL if partial else ending.value


OUTCOMES = (*(ending.value for ending in Ending), PARTIAL)


class RunReport(Struct, frozen=True, kw_only=True):
    """What a run says while it goes on. The lease says which run."""

    id: JobId
    lease: Lease
    lines: tuple[LogLine, ...] = ()
    progress: Progress | None = None
