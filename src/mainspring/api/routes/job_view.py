"""Jobs and their runs as the API shows them: the records themselves, with what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace

from ...records.job import BRIEF_CHARACTERS, Action, Job, Shown, State
from ...records.query import Update
from ...records.run import Execution, LogLine, Progress
from ..access.redaction import (
    shown_data,
    shown_error,
    shown_failure,
    shown_key,
    shown_line,
    shown_mapping,
    shown_message,
    shown_text,
)

# Characters of arguments that a list shows, and of those it looks at.
BRIEF, LONG = 160, BRIEF_CHARACTERS


class JobView(Job, frozen=True, kw_only=True):
    """A job, with what follows from it. `timeout` is missing where the task's own counts."""

    payload: Any
    """Its arguments by name, as data. A payload that no program can read is text."""
    result: Any = None
    shown: Shown  # type: ignore[assignment]
    """Its state as people see it: a pending job may be scheduled or retrying."""
    outcome: str | None  # type: ignore[assignment]
    """How it ended: its state, but `partial` where it completed and some items of its last run failed; null: it has
    not ended."""
    since: datetime | None
    """When it came into that state, where that is kept."""
    next_retry_at: datetime | None
    can: tuple[Action, ...]
    """What may be done to it now."""


class JobItem(Struct, frozen=True, kw_only=True):
    """A job in a list; all of it stands under its id."""

    id: str
    task: str
    queue: str
    priority: int
    state: State
    shown: Shown
    outcome: str | None
    """How it ended: `shown`, but `partial` where it completed and some items of its last run failed; null: it has not
    ended."""
    run_at: datetime
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime | None
    attempt: int
    runs: int
    worker: str | None
    schedule: str | None
    scheduled_at: datetime | None
    tags: tuple[str, ...]
    unique_key: str | None
    idempotency_key: str | None
    cancel_reason: str | None
    error: str | None
    """What it failed with last, in one line: that which `error` filters by."""
    message: str | None
    """The same as it was said, with all that `error` leaves out."""
    progress: Progress | None
    can: tuple[Action, ...]
    """What may be done to it now."""
    arguments: str | UnsetType = UNSET
    """With `arguments`: how they begin, on one line."""
    job: JobView | UnsetType = UNSET
    """With `full`: all of it."""


class JobPage(Struct, frozen=True):
    items: list[JobItem]
    next: str | None
    """Give it as `after` for the next page; null: there is none."""


class ExecutionView(Execution, frozen=True, kw_only=True):
    """One run that has ended."""

    id: str
    """The job's id and the run's number, with a dot between them."""
    seconds: float
    """How long it took."""
    outcome: str  # pyright: ignore[reportIncompatibleMethodOverride]  # stored, where an Execution computes it
    """Its `ending`, but `partial` where it completed and some of its items failed."""


class ExecutionPage(Struct, frozen=True):
    items: list[ExecutionView]
    next: int | None
    """Give it as `after` for the next page; null: there is none."""


class LogPage(Struct, frozen=True):
    items: list[LogLine]
    next: str | None
    """Run and line of the last one, to give as `after`; null: there are no more now."""


def job_view(job: Job, now: datetime) -> JobView:
    shown = job.shown(now)
    known = asdict(job) | {
        "payload": shown_data(job.payload),
        "result": None if job.result is None else shown_data(job.result),
        "metadata": shown_mapping(job.metadata),
        "failure": shown_failure(job.failure),
        "cancel_reason": shown_text(job.cancel_reason),
        "progress": _shown_progress(job.progress),
        **_shown_keys(job),
    }
    waits = job.run_at if shown == "retrying" else None
    return JobView(
        **known, shown=shown, outcome=job.outcome(now), since=job.state_since(now), next_retry_at=waits,
        can=job.actions(now),
    )  # fmt: skip


_COMMON = tuple(name for name in JobItem.__struct_fields__ if name in Job.__struct_fields__)


def job_item(job: Job, now: datetime, *, arguments: bool = False, full: bool = False) -> JobItem:
    known = {name: getattr(job, name) for name in _COMMON} | {
        "cancel_reason": shown_text(job.cancel_reason),
        "progress": _shown_progress(job.progress),
        **_shown_keys(job),
    }
    error = None if job.failure is None else shown_error(job.failure.kind)
    message = None if job.failure is None else shown_message(job.failure.line)
    return JobItem(
        **known, shown=job.shown(now), outcome=job.outcome(now), error=error, message=message, can=job.actions(now),
        arguments=_beginning(job.payload) if arguments else UNSET, job=job_view(job, now) if full else UNSET,
    )  # fmt: skip


def _beginning(payload: str) -> str:
    """Secrets are masked in the whole before it is cut, so a list does not look into what is long."""
    if not payload or len(payload) > LONG:  # a brief job has no longer one
        return "…"
    text = bytes(shown_data(payload)).decode()
    return text if len(text) <= BRIEF else f"{text[: BRIEF - 1]}…"


def execution_view(run: Execution) -> ExecutionView:
    known = asdict(run) | {"failure": shown_failure(run.failure), "metadata": shown_mapping(run.metadata)}
    return ExecutionView(
        **known, id=f"{run.job_id}.{run.number}", seconds=run.duration.total_seconds(), outcome=run.outcome
    )


def log_line(line: LogLine) -> LogLine:
    return replace(line, text=shown_line(line.text))


def _shown_progress(progress: Progress | None) -> Progress | None:
    return progress and replace(progress, note=shown_line(progress.note))


def _shown_keys(job: Job) -> dict[str, str | None]:
    return {"unique_key": shown_key(job.unique_key), "idempotency_key": shown_key(job.idempotency_key)}


_EDITABLE = Update.__struct_fields__


def editable(job: Job) -> bytes:
    """What can be edited: a run that comes and goes in between is no change of that, unless it moves run_at."""
    edited: Mapping[str, Any] = {name: getattr(job, name) for name in _EDITABLE}
    return msgspec.json.encode({name: value for name, value in edited.items() if value is not msgspec.UNSET})
