"""A run of a job: its ending, failure, items, resource usage, log lines, output, progress and checkpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ..ids import JobId, Lease, WorkerId


class Ending(StrEnum):
    """How a run ended, as its execution row records it."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    SNOOZED = "snoozed"
    RELEASED = "released"
    DISCARDED = "discarded"
    CANCELLED = "cancelled"
    CRASHED = "crashed"
    SUSPENDED = "suspended"
    """The job waits for something, and runs again when that has happened."""


# Endings that count as success and as failure of the task. The other endings count as neither.
WENT_WELL = frozenset({Ending.COMPLETED})
WENT_WRONG = frozenset({Ending.FAILED, Ending.TIMEOUT, Ending.DISCARDED, Ending.CRASHED})

# The outcome of a run that completed although some of its items failed, within its task's failed_ratio.
PARTIAL = "partial"
# The run then has a failure of this type and kind, so that a filter by error finds its job. Earlier releases show that
# failure as a note.
PARTIAL_TYPE = "Partial"
PARTIAL_KIND = "Partial: … of … items failed"

# The parts in which two messages of the same error differ: numbers, ids, addresses, quoted values.
# A quote after a letter is an apostrophe ("can't"), except in b'…'.
_VARYING = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|(?<!\w)b?'[^']*'|(?<!\w)b?\"[^\"]*\"|\d+", re.IGNORECASE)
MAX_KIND_CHARACTERS = 120
MAX_LINE_CHARACTERS = 240


class Failure(Struct, frozen=True, omit_defaults=True):
    """An exception as text. No exception is rebuilt from it."""

    type: str
    message: str
    stack: str = ""
    since: datetime | None = None
    """When the first of several runs in a row failed in this way; only recorded for version skew."""

    @property
    def kind(self) -> str:
        """The type and the first line of the message, without numbers, ids and values: equal for the same error."""
        first = self.message.partition("\n")[0][: 4 * MAX_KIND_CHARACTERS]
        return f"{self.type}: {_VARYING.sub('…', first)}"[:MAX_KIND_CHARACTERS]

    @property
    def line(self) -> str:
        """The type and the first line of the message, unchanged, for people."""
        first = self.message.partition("\n")[0].rstrip()
        return (f"{self.type}: {first}" if first else self.type)[:MAX_LINE_CHARACTERS]


class Items(Struct, frozen=True, omit_defaults=True):
    """The items that a run has processed, counted by result."""

    success: int = 0
    failed: int = 0
    skipped: int = 0

    @property
    def total(self) -> int:
        return self.success + self.failed + self.skipped

    def verdict(self, ratio: float = 0.5) -> Literal["success", "partial", "failed"]:
        """The result as a whole: failed if more than `ratio` of the items failed. No items are a success."""
        if not self.failed:
            return "success"
        return "failed" if self.failed > ratio * self.total else "partial"


class Usage(Struct, frozen=True):
    """Resources that a run in its own process has used."""

    cpu: float
    """Seconds, user and system time together."""
    memory: int
    """Peak bytes of the whole process. An upper bound if the process died: it then includes its worker's memory."""


class RunNotes(Struct, frozen=True, omit_defaults=True):
    """What is recorded of a run besides its result: items, resource usage, and the metadata of ctx.note()."""

    items: Items | None = None
    usage: Usage | None = None
    metadata: Mapping[str, Any] = {}


class Progress(Struct, frozen=True, omit_defaults=True):
    """The progress of a run."""

    run: int
    at: datetime
    done: float
    total: float | None = None
    note: str = ""


class LogLine(Struct, frozen=True):
    """A line that a task has logged. `n` counts from 1 in each run."""

    run: int
    n: int
    at: datetime
    level: int
    text: str


class OutputChunk(Struct, frozen=True):
    """A chunk of a job's output. `n` counts from 1 through all runs of the job."""

    n: int
    run: int
    """The run that wrote it. Each run begins a new output, unless `resumed`."""
    at: datetime
    text: str
    """JSON. Empty in the last chunk of an output that was full: what the run wrote after that is not kept."""
    resumed: bool = False
    """Whether its run had gone on behind durable steps, whose chunks of earlier runs it does not write again."""

    @property
    def full(self) -> bool:
        """Whether this marks the end of an output that was full. It has no value."""
        return not self.text

    @property
    def value(self) -> Any:
        """What the task wrote."""
        return msgspec.json.decode(self.text) if self.text else None


class Checkpoint(Struct, frozen=True):
    """The stored value of one durable step of a job. `n` counts from 1 in the job's whole life."""

    n: int
    name: str
    at: datetime
    value: str
    """JSON."""


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
        """The ending, or "partial" if the run completed although some of its items failed."""
        return outcome_of(self.ending, self.failure)


def outcome_of(ending: Ending, failure: Failure | None) -> str:
    """The name of a run's end for people and statistics: its ending, or "partial"."""
    partial = failure is not None and failure.type == PARTIAL_TYPE and ending is Ending.COMPLETED
    return PARTIAL if partial else ending.value


OUTCOMES = (*(ending.value for ending in Ending), PARTIAL)


class RunReport(Struct, frozen=True, kw_only=True):
    """New log lines, output, progress and checkpoints of a run under way. The lease identifies the run."""

    id: JobId
    lease: Lease
    lines: tuple[LogLine, ...] = ()
    progress: Progress | None = None
    chunks: tuple[OutputChunk, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
