"""Jobs and their runs in responses: the records with derived fields, and user data redacted."""

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
    mask_note,
    redact_data,
    redact_error,
    redact_failure,
    redact_key,
    redact_line,
    redact_mapping,
    redact_message,
)

# Of the arguments that a list shows.
MAX_EXCERPT_CHARACTERS = 160


class JobView(Job, frozen=True, kw_only=True):
    """A job with derived fields. `timeout` is absent if the task's own applies."""

    payload: Any
    """Its arguments by parameter name. A payload that is not JSON is a string."""
    result: Any = None
    shown: Shown  # type: ignore[assignment]
    """The displayed state: a pending job may be scheduled or retrying."""
    outcome: str | None  # type: ignore[assignment]
    """The final state, or `partial` if it completed but some items of its last run failed; null while it is not
    finished."""
    since: datetime | None
    """When it entered the displayed state; null if that is not recorded."""
    next_retry_at: datetime | None
    limit_key: str | None = None
    """The name of its limit and the key of its group, with a line break between."""
    can: tuple[Action, ...]
    """The actions that its state allows now."""


class JobItem(Struct, frozen=True, kw_only=True):
    """A job in a list. GET /jobs/{id} has all of its fields."""

    id: str
    task: str
    queue: str
    priority: int
    state: State
    shown: Shown
    outcome: str | None
    """The final state, or `partial` if it completed but some items of its last run failed; null while it is not
    finished."""
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
    """The last error in one line, without numbers, ids and quoted values: the value that `error` filters by."""
    message: str | None
    """The full text of the last error in one line."""
    progress: Progress | None
    can: tuple[Action, ...]
    """The actions that its state allows now."""
    arguments: str | UnsetType = UNSET
    """With `arguments`: the beginning of its arguments, in one line."""
    job: JobView | UnsetType = UNSET
    """With `full`: all fields of the job."""


class JobPage(Struct, frozen=True):
    items: list[JobItem]
    next: str | None
    """Pass it as `after` to get the next page; null on the last page."""


class ExecutionView(Execution, frozen=True, kw_only=True):
    """A finished run."""

    id: str
    """The job's id and the run's number, separated by a dot."""
    seconds: float
    """Duration."""
    outcome: str  # pyright: ignore[reportIncompatibleMethodOverride]  # a field here, a property in Execution
    """Its `ending`, or `partial` if it completed but some of its items failed."""


class ExecutionPage(Struct, frozen=True):
    items: list[ExecutionView]
    next: int | None
    """Pass it as `after` to get the next page; null on the last page."""


class LogPage(Struct, frozen=True):
    items: list[LogLine]
    next: str | None
    """Run and number of the last line: pass it as `after` to get the next page; null if there are no more lines yet."""


def job_view(job: Job, now: datetime) -> JobView:
    shown = job.shown(now)
    fields = asdict(job) | {
        "payload": redact_data(job.payload),
        "result": None if job.result is None else redact_data(job.result),
        "metadata": redact_mapping(job.metadata),
        "failure": redact_failure(job.failure),
        "cancel_reason": mask_note(job.cancel_reason),
        "progress": _redact_progress(job.progress),
        **_redact_keys(job),
        "limit_key": redact_key(job.limit_key),
    }
    return JobView(
        **fields,
        shown=shown,
        outcome=job.outcome(now),
        since=job.state_since(now),
        next_retry_at=job.run_at if shown == "retrying" else None,
        can=job.actions(now),
    )


_SHARED_FIELDS = tuple(name for name in JobItem.__struct_fields__ if name in Job.__struct_fields__)


def job_item(job: Job, now: datetime, *, arguments: bool = False, full: bool = False) -> JobItem:
    fields = {name: getattr(job, name) for name in _SHARED_FIELDS} | {
        "cancel_reason": mask_note(job.cancel_reason),
        "progress": _redact_progress(job.progress),
        **_redact_keys(job),
    }
    error = None if job.failure is None else redact_error(job.failure.kind)
    message = None if job.failure is None else redact_message(job.failure.line)
    return JobItem(
        **fields,
        shown=job.shown(now),
        outcome=job.outcome(now),
        error=error,
        message=message,
        can=job.actions(now),
        arguments=_arguments_excerpt(job.payload) if arguments else UNSET,
        job=job_view(job, now) if full else UNSET,
    )


def _arguments_excerpt(payload: str) -> str:
    """The beginning of the arguments. "…" for a long payload: secrets have to be masked before the text is cut, which
    would take too long."""
    if not payload or len(payload) > BRIEF_CHARACTERS:  # brief jobs have no longer payloads
        return "…"
    text = bytes(redact_data(payload)).decode()
    return text if len(text) <= MAX_EXCERPT_CHARACTERS else f"{text[: MAX_EXCERPT_CHARACTERS - 1]}…"


def execution_view(run: Execution) -> ExecutionView:
    fields = asdict(run) | {"failure": redact_failure(run.failure), "metadata": redact_mapping(run.metadata)}
    return ExecutionView(
        **fields, id=f"{run.job_id}.{run.number}", seconds=run.duration.total_seconds(), outcome=run.outcome
    )


def log_line(line: LogLine) -> LogLine:
    return replace(line, text=redact_line(line.text))


def _redact_progress(progress: Progress | None) -> Progress | None:
    return progress and replace(progress, note=redact_line(progress.note))


def _redact_keys(job: Job) -> dict[str, str | None]:
    return {"unique_key": redact_key(job.unique_key), "idempotency_key": redact_key(job.idempotency_key)}


_EDITABLE = Update.__struct_fields__


def editable_fields(job: Job) -> bytes:
    """The editable fields of a job, encoded: its ETag is made from them. A run changes none but run_at."""
    fields: Mapping[str, Any] = {name: getattr(job, name) for name in _EDITABLE}
    return msgspec.json.encode({name: value for name, value in fields.items() if value is not msgspec.UNSET})
