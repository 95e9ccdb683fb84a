"""Jobs and executions as rows of an SQL store, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from ..bounds import MAX_CONTAINERS, MAX_METADATA_BYTES, MAX_TEXTS, has_too_many_parts
from ..clock import EPOCH, instant, micros
from ..ids import Lease, WorkerId
from ..records.job import BRIEF_CHARACTERS, LEFT_OUT, UNREADABLE, Collecting, Job, NewJob, Shown, State
from ..records.query import End, Filter
from ..records.run import Ending, Execution, Failure, OutputChunk, Progress, RunNotes, RunReport
from ..records.step import StepRef, StepValue
from ..records.unreadable import readable, unreadable_record
from ..retry import Backoff
from .ranks import priority_of

COLUMNS = (
    "id, queue, task, rank, state, run_at, created_at, expires_at, attempt, crashes, runs, lease, worker, "
    "started_at, finished_at, cancel_reason, unique_key, idempotency_key, options, failure, payload, result, progress"
)
# SQL: whether a brief job leaves the column {0} out, or shortens it.
IS_LONG = f"length({{0}}) > {BRIEF_CHARACTERS}"
NEW_COLUMNS = (
    "id, queue, task, rank, state, run_at, created_at, expires_at, unique_key, idempotency_key, options, payload"
)
# The output of a job is kept in the table of log lines, under a run that no log line has: reads of log lines pass it
# over, also those of earlier releases. `level` is the run that wrote the chunk; negative: it was resumed.
OUTPUT_RUN_FLAG = -1
Row = Sequence[Any]


def brief_columns(options: str, is_long: str = IS_LONG) -> str:
    """COLUMNS of a brief job, as SQL. `options` is SQL for shortened options: tags, schedule, tick and the mark `cut`;
    `is_long` is SQL for whether the column {0} has more than BRIEF_CHARACTERS."""
    instead = {"payload": "''", "result": "''", "options": options}
    brief = {name: f"CASE WHEN {is_long.format(name)} THEN {text} ELSE {name} END" for name, text in instead.items()}
    return ", ".join(f"{brief[name]} AS {name}" if name in brief else name for name in COLUMNS.split(", "))


# Condition of the partial index mainspring_jobs_held; a statement has to contain it literally to use the index.
HELD_INDEX_SQL = "state IN ('running', 'paused', 'waiting')"

_encode = msgspec.json.Encoder().encode
_RUNNING = State.RUNNING
_STATES: dict[str, State] = {state.value: state for state in State}


class StoredOptions(Struct, omit_defaults=True, frozen=True):
    """The options of a job that no claim needs, as JSON in one column."""

    timeout: float | UnsetType | None = UNSET
    max_retries: int | None = None
    backoff: Backoff | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}
    schedule: str | None = None
    scheduled_at: datetime | None = None
    beside: bool = False
    fingerprint: str | None = field(default=None, name="fp")
    enqueued_by: str | None = field(default=None, name="by")
    step: StepRef | None = None
    refs: Mapping[str, StepValue] = {}
    collect: Collecting | None = None
    limit_key: str | None = None
    cut: bool = False
    """Never stored. True if only tags, schedule and tick were read, because the options are long."""


_NO_OPTIONS = StoredOptions()
_decode_options = msgspec.json.Decoder(StoredOptions).decode
# Nearly all jobs have no options but the fingerprint of their task: these texts are encoded and decoded once.
MAX_CACHED_OPTIONS = 10_000
_cached_texts: dict[str | None, str] = {None: "{}"}
_cached_options: dict[str, StoredOptions] = {"{}": _NO_OPTIONS}
_decode_failure = msgspec.json.Decoder(Failure).decode
_decode_progress = msgspec.json.Decoder(Progress).decode
_NO_NOTES = RunNotes()
_decode_notes = msgspec.json.Decoder(RunNotes).decode


def options_of(job: NewJob | Job, *, with_step: bool = True) -> str:
    """The options as JSON. Without the step they are the same for most jobs of a task, as those of other jobs are."""
    step = job.step if with_step else None
    if (
        job.timeout is UNSET
        and job.max_retries is None
        and not (job.backoff or job.tags or job.metadata or job.schedule or job.enqueued_by or step or job.refs)
        and job.collect is None
        and job.limit_key is None
    ):
        return _cached_texts.get(job.fingerprint) or _fingerprint_text(job.fingerprint)
    options = StoredOptions(
        job.timeout,
        job.max_retries,
        job.backoff,
        tuple(job.tags),
        job.metadata,
        job.schedule,
        job.scheduled_at,
        job.detached,
        job.fingerprint,
        job.enqueued_by,
        step,
        job.refs,
        job.collect,
        job.limit_key,
    )
    return _encode(options).decode()


def _fingerprint_text(fingerprint: str | None) -> str:
    text = _encode(StoredOptions(fingerprint=fingerprint)).decode()
    if len(_cached_texts) < MAX_CACHED_OPTIONS:
        _cached_texts[fingerprint] = text
    return text


cached_options = _cached_options.get
"""Returns the options of a text that has only a fingerprint and was decoded before; else None."""


def read_options(text: str) -> StoredOptions:
    return _cached_options.get(text) or _decode_checked_options(text)


def _check_parts(text: str) -> None:
    """Raises ValueError for metadata of an earlier release without limits: decoding them would block the event loop."""
    if len(text) > MAX_METADATA_BYTES and has_too_many_parts(text):
        raise ValueError(f"its metadata have more than {MAX_CONTAINERS:,} lists and objects, or {MAX_TEXTS:,} texts")


def _decode_checked_options(text: str) -> StoredOptions:
    _check_parts(text)
    options = _decode_options(text)
    if options.step is not None:  # hot: they differ from those of every other job
        return options
    if options == StoredOptions(fingerprint=options.fingerprint) and len(_cached_options) < MAX_CACHED_OPTIONS:
        _cached_options[text] = options
    return options


class _BriefOptions(Struct, omit_defaults=True, frozen=True):
    """The options of a brief job; decoding it skips the values of all other fields."""

    tags: tuple[str, ...] = ()
    schedule: str | None = None
    scheduled_at: datetime | None = None
    step: StepRef | None = None
    cut: bool = False


_decode_brief_options = msgspec.json.Decoder(_BriefOptions).decode


def brief_options(text: str) -> str:
    """The options as a brief job has them: shortened if they are long."""
    if len(text) <= BRIEF_CHARACTERS:
        return text
    _check_parts(text)
    few = _decode_brief_options(text)
    return _encode(_BriefOptions(few.tags, few.schedule, few.scheduled_at, few.step, cut=True)).decode()


def new_row(job: NewJob | Job, now: int) -> Row:
    """The NEW_COLUMNS of a job that has never run and is created `now`."""
    return (
        job.id, job.queue, job.task, -job.priority, "pending", now if job.run_at is None else micros(job.run_at), now,
        None if job.expires_at is None else micros(job.expires_at), job.unique_key, job.idempotency_key,
        options_of(job), job.payload,
    )  # fmt: skip


# The columns of a job that is stored as its first run begins.
STARTED_COLUMNS = f"{NEW_COLUMNS}, lease, worker, started_at, attempt, runs"


def started_row(job: Job) -> Row:
    row = new_row(job, micros(job.created_at))
    return (*row[:4], job.state.value, *row[5:], job.lease, job.worker, _us(job.started_at), job.attempt, job.runs)


def row_of(job: Job) -> Row:
    return (
        job.id, job.queue, job.task, -job.priority, job.state.value, micros(job.run_at), micros(job.created_at),
        _us(job.expires_at), job.attempt, job.crashes, job.runs, job.lease, job.worker, _us(job.started_at),
        _us(job.finished_at), job.cancel_reason, job.unique_key, job.idempotency_key, options_of(job),
        failure_text(job.failure), job.payload, job.result, json_of(job.progress),
    )  # fmt: skip


def job_of(row: Row) -> Job:
    """The job of a row. If the row cannot be decoded: its readable columns, with an Unreadable failure."""
    try:
        return strict_job_of(row)
    except Exception as error:
        return unreadable_job(row, error)


def strict_job_of(row: Row) -> Job:
    """Like job_of, but raises if the row cannot be decoded."""
    (id, queue, task, rank, state, run_at, created_at, expires_at, attempt, crashes, runs, lease, worker, started_at,
     finished_at, cancel_reason, unique_key, idempotency_key, options, failure, payload, result,
     progress) = row  # fmt: skip
    extra = read_options(options)
    due = instant(run_at)
    return Job(
        id=id, queue=queue, task=task, priority=priority_of(rank), state=_STATES[state], run_at=due,
        created_at=due if created_at == run_at else instant(created_at), expires_at=_at(expires_at),
        attempt=attempt, crashes=crashes, runs=runs,
        lease=lease if state == "running" else None, worker=worker if state == "running" else None,
        started_at=_at(started_at), finished_at=_at(finished_at),
        cancel_reason=cancel_reason, unique_key=unique_key, idempotency_key=idempotency_key,
        timeout=extra.timeout, max_retries=extra.max_retries, backoff=extra.backoff, tags=extra.tags,
        metadata=LEFT_OUT if extra.cut else extra.metadata, schedule=extra.schedule, scheduled_at=extra.scheduled_at,
        detached=extra.beside, fingerprint=extra.fingerprint, enqueued_by=extra.enqueued_by, step=extra.step,
        refs=extra.refs, collect=extra.collect, limit_key=extra.limit_key, payload=payload,
        failure=None if failure is None else _decode_failure(failure), result=result, progress=progress_of(progress),
    )  # fmt: skip


_NAMES: Sequence[str] = COLUMNS.split(", ")


def unreadable_job(row: Row, error: Exception) -> Job:
    """The readable columns of a row that cannot be decoded or has too few columns."""
    columns: dict[str, Any] = dict(zip(_NAMES, row, strict=False))
    record = unreadable_record("job", str(columns["id"]), _non_text_columns(columns) or error)
    state = _STATES.get(columns.get("state") or "", State.PAUSED)
    running = state is _RUNNING

    def text(name: str) -> str | None:
        return value if isinstance(value := columns.get(name), str) else None

    def number(name: str) -> int:
        return value if isinstance(value := columns.get(name), int) else 0

    at = {name: _instant_or_none(columns.get(name)) for name in _NAMES if name.endswith("_at")}
    return Job(
        id=record.name, queue=text("queue") or "", task=text("task") or "", priority=priority_of(number("rank")),
        state=state, run_at=at["run_at"] or EPOCH, created_at=at["created_at"] or EPOCH, expires_at=at["expires_at"],
        attempt=number("attempt"), crashes=number("crashes"), runs=number("runs"),
        lease=text("lease") if running else None, worker=text("worker") if running else None,
        started_at=at["started_at"],
        finished_at=at["finished_at"] or (EPOCH if state.final else None),
        cancel_reason=text("cancel_reason"), unique_key=text("unique_key"), idempotency_key=text("idempotency_key"),
        schedule=_schedule_of_key(text("idempotency_key")), payload=text("payload") or "null", result=text("result"),
        failure=Failure(UNREADABLE, f"its record cannot be decoded: {record.error}"),
    )  # fmt: skip


def _non_text_columns(columns: Mapping[str, Any]) -> str:
    """Names the columns that should be text and are bytes; empty if there are none."""
    return ", ".join(f"{name} is no text" for name, value in columns.items() if isinstance(value, bytes))


def _instant_or_none(us: Any) -> datetime | None:
    try:
        return _at(us)
    except (TypeError, ValueError, OverflowError):
        return None


def _schedule_of_key(key: str | None) -> str | None:
    """The schedule that created the job, parsed from the key of its tick (schedule.key_of)."""
    parts = (key or "").split(":", 1)
    name, _, tick = parts[-1].rpartition(":")
    return name if parts[0] == "schedule" and name and tick.isdecimal() else None


# The columns that a claim reads. It knows state, lease, worker and start itself, and a pending job has no result.
CLAIMED_COLUMNS = (
    "id, queue, task, rank, run_at, created_at, expires_at, attempt, crashes, runs, cancel_reason, unique_key, "
    "idempotency_key, options, failure, payload, progress"
)


def claimed_job_of(row: Row, lease: Lease, worker: WorkerId, now: datetime) -> Job:
    """The claimed job of a row that begins with CLAIMED_COLUMNS: a third faster than job_of on all columns."""
    (id, queue, task, rank, run_at, created_at, expires_at, attempt, crashes, runs, cancel_reason, unique_key,
     idempotency_key, options, failure, payload, progress, *_) = row  # fmt: skip
    due = instant(run_at)
    if failure is None and progress is None and (plain := cached_options(options)) is not None:
        return Job(
            id=id, queue=queue, task=task, priority=-rank, state=_RUNNING, run_at=due,
            created_at=due if created_at == run_at else instant(created_at), expires_at=_at(expires_at),
            attempt=attempt, crashes=crashes, runs=runs, lease=lease, worker=worker, started_at=now,
            cancel_reason=cancel_reason, unique_key=unique_key, idempotency_key=idempotency_key,
            fingerprint=plain.fingerprint, payload=payload,
        )  # fmt: skip
    extra = read_options(options)
    return Job(
        id=id, queue=queue, task=task, priority=priority_of(rank), state=_RUNNING, run_at=due,
        created_at=due if created_at == run_at else instant(created_at), expires_at=_at(expires_at),
        attempt=attempt, crashes=crashes, runs=runs, lease=lease, worker=worker, started_at=now,
        cancel_reason=cancel_reason, unique_key=unique_key, idempotency_key=idempotency_key,
        timeout=extra.timeout, max_retries=extra.max_retries, backoff=extra.backoff, tags=extra.tags,
        metadata=extra.metadata, schedule=extra.schedule, scheduled_at=extra.scheduled_at, detached=extra.beside,
        fingerprint=extra.fingerprint, enqueued_by=extra.enqueued_by, step=extra.step, refs=extra.refs,
        collect=extra.collect, limit_key=extra.limit_key,
        failure=None if failure is None else _decode_failure(failure), payload=payload, progress=progress_of(progress),
    )  # fmt: skip


def report_rows(report: RunReport) -> list[Row]:
    """The rows of its log lines and of its output in the table of log lines."""
    rows: list[Row] = [(report.id, one.run, one.n, micros(one.at), one.level, one.text) for one in report.lines]
    for chunk in report.chunks:
        run = -chunk.run if chunk.resumed else chunk.run
        rows.append((report.id, OUTPUT_RUN_FLAG, chunk.n, micros(chunk.at), run, chunk.text))
    return rows


def output_of(rows: Iterable[Row]) -> list[OutputChunk]:
    """The chunks of these rows (n, run, at, text), in order of n."""
    chunks = [OutputChunk(n, abs(run), instant(at), text, run < 0) for n, run, at, text in rows]
    return sorted(chunks, key=lambda chunk: chunk.n)


def executions_of(rows: Iterable[Row]) -> list[Execution]:
    """The executions of the rows that can be decoded."""
    return readable("run of job", [(f"{row[0]} {row[1]}", row) for row in rows], execution_of)


def execution_of(row: Row) -> Execution:
    job_id, number, attempt, ending, worker, lease, started_at, finished_at, result_size, failure, text = row
    notes = _NO_NOTES if text is None else _decode_notes(text)
    return Execution(
        job_id=job_id, number=number, attempt=attempt, ending=Ending(ending), worker=worker, lease=lease,
        started_at=instant(started_at), finished_at=instant(finished_at), result_size=result_size,
        failure=None if failure is None else _decode_failure(failure), items=notes.items, usage=notes.usage,
        metadata=notes.metadata,
    )  # fmt: skip


def execution_row(run: Execution) -> Row:
    return (
        run.job_id, run.number, run.attempt, run.ending.value, run.worker, run.lease, micros(run.started_at),
        micros(run.finished_at), run.result_size, failure_text(run.failure),
        notes_text(RunNotes(run.items, run.usage, run.metadata)),
    )  # fmt: skip


def notes_text(notes: RunNotes | None) -> str | None:
    """The stored form of a run's notes; None if there are none."""
    return None if notes is None or notes == _NO_NOTES else _encode(notes).decode()


def progress_of(text: str | None) -> Progress | None:
    return None if text is None else _decode_progress(text)


def progress_or_none(id: str, text: str | None) -> Progress | None:
    """Like progress_of, but None if the text cannot be decoded, so that a newer progress replaces it."""
    try:
        return progress_of(text)
    except Exception as error:
        unreadable_record("job", id, error)
        return None


def failure_text(failure: Failure | None) -> str | None:
    return None if failure is None else _encode(failure).decode()


def counted_schedule_of(id: str, options: bytes, key: str | None) -> str | None:
    """The schedule that counts the job with these options and idempotency key as its run; None if there is none."""
    if b'"schedule"' not in options:
        return None
    try:
        extra = _decode_options(options)
    except Exception as error:
        unreadable_record("job", id, error)
        return _schedule_of_key(key)
    return None if extra.beside else extra.schedule


def step_of(id: str, options: bytes) -> StepRef | None:
    """The step of a flow that the job with these options belongs to."""
    if b'"step"' not in options:
        return None
    try:
        return _decode_options(options).step
    except Exception as error:
        unreadable_record("job", id, error)
        return None


def decode_failure_kind(text: str) -> str:
    """The kind of a stored failure; a migration of SQLite calls this function."""
    return _decode_failure(text).kind


def json_of(record: Struct | None) -> str | None:
    return None if record is None else _encode(record).decode()


def _us(at: datetime | None) -> int | None:
    return None if at is None else micros(at)


def _at(us: int | None) -> datetime | None:
    return None if us is None else instant(us)


# A shown state as SQL over one row; :now is microseconds.
SHOWN_SQL = """CASE WHEN state <> 'pending' THEN state
    WHEN expires_at <= :now THEN 'expired'
    WHEN attempt > 0 THEN 'retrying'
    WHEN run_at > :now THEN 'scheduled'
    ELSE 'pending' END"""
# The stored states behind a shown state: with them an index on `state` narrows the search first.
_STORED_STATES: Mapping[Shown, tuple[str, ...]] = {
    "scheduled": ("pending",),
    "retrying": ("pending",),
    "expired": ("expired", "pending"),
}


def stored_states(which: Filter) -> set[str]:
    """The stored states that a matching job may be in."""
    if which.states is None:
        return {state.value for state in State}
    return {state for shown in which.states for state in _STORED_STATES.get(shown, (shown,))}


# A job's end as one text, for a lookup in a list of ends.
END_SQL = "id || ' ' || coalesce(finished_at, -1) || ' ' || runs"


def end_texts(ends: Mapping[str, End]) -> list[str]:
    """The ends in the form of END_SQL."""
    return [f"{id} {-1 if end.finished_at is None else micros(end.finished_at)} {end.runs}" for id, end in ends.items()]


def prefix_end(prefix: str) -> str | None:
    """The first text after all texts with that prefix, in code point order (as SQLite sorts); None if there is none."""
    stem = prefix.rstrip(chr(0x10FFFF))
    if not stem:
        return None
    after = ord(stem[-1]) + 1
    return stem[:-1] + chr(0xE000 if after == 0xD800 else after)  # skips the surrogates, which are no text
