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
from ..records.job import BRIEF_CHARACTERS, LEFT_OUT, UNREADABLE, Job, NewJob, Shown, State
from ..records.query import End, Filter
from ..records.run import Ending, Execution, Failure, Progress, RunNotes
from ..records.unreadable import readable, unreadable_record
from ..retry import Backoff

COLUMNS = (
    "id, queue, task, rank, state, run_at, created_at, expires_at, attempt, crashes, runs, lease, worker, "
    "started_at, finished_at, cancel_reason, unique_key, idempotency_key, options, failure, payload, result, progress"
)
# Whether a column is left out of a brief job, or cut.
IS_LONG = f"length({{0}}) > {BRIEF_CHARACTERS}"
NEW_COLUMNS = (
    "id, queue, task, rank, state, run_at, created_at, expires_at, unique_key, idempotency_key, options, payload"
)
Row = Sequence[Any]


def brief_columns(options: str, is_long: str = IS_LONG) -> str:
    """COLUMNS of a brief job. `options` is SQL for long ones: tags, schedule and tick, and that they were cut;
    `is_long` is SQL for whether the column {0} has more than BRIEF_CHARACTERS."""
    instead = {"payload": "''", "result": "''", "options": options}
    brief = {name: f"CASE WHEN {is_long.format(name)} THEN {text} ELSE {name} END" for name, text in instead.items()}
    return ", ".join(f"{brief[name]} AS {name}" if name in brief else name for name in COLUMNS.split(", "))


# Said in every statement that is to use the index on what is held, by a worker or by hand.
HELD = "state IN ('running', 'paused', 'waiting')"

_encode = msgspec.json.Encoder().encode
_RUNNING = State.RUNNING
_STATES: dict[str, State] = {state.value: state for state in State}


class StoredOptions(Struct, omit_defaults=True, frozen=True):
    """What a claim never looks at, in one column."""

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
    cut: bool = False
    """Never stored: only tags, schedule and tick were read, since all of it is long."""


_PLAIN = StoredOptions()
_options = msgspec.json.Decoder(StoredOptions).decode
# Nearly all jobs have no options but the fingerprint of their task: these are encoded and decoded once.
MAX_REMEMBERED = 10_000
_remembered_texts: dict[str | None, str] = {None: "{}"}
_remembered_options: dict[str, StoredOptions] = {"{}": _PLAIN}
_failure = msgspec.json.Decoder(Failure).decode
_progress = msgspec.json.Decoder(Progress).decode
_NO_ACCOUNT = RunNotes()
_account = msgspec.json.Decoder(RunNotes).decode


def options_of(job: NewJob | Job) -> str:
    if (
        job.timeout is UNSET
        and job.max_retries is None
        and not (job.backoff or job.tags or job.metadata or job.schedule or job.enqueued_by)
    ):
        return _remembered_texts.get(job.fingerprint) or _fingerprint_text(job.fingerprint)
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
    )
    return _encode(options).decode()


def _fingerprint_text(fingerprint: str | None) -> str:
    text = _encode(StoredOptions(fingerprint=fingerprint)).decode()
    if len(_remembered_texts) < MAX_REMEMBERED:
        _remembered_texts[fingerprint] = text
    return text


remembered_options = _remembered_options.get
"""The options of this text, if they are no more than a fingerprint, and were read before."""


def read_options(text: str) -> StoredOptions:
    return _remembered_options.get(text) or _decoded_options(text)


def _check_parts(text: str) -> None:
    """Raises for options of a release that had no bound of metadata: to decode them would hold the event loop."""
    if len(text) > MAX_METADATA_BYTES and has_too_many_parts(text):
        raise ValueError(f"its metadata have more than {MAX_CONTAINERS:,} lists and objects, or {MAX_TEXTS:,} texts")


def _decoded_options(text: str) -> StoredOptions:
    _check_parts(text)
    options = _options(text)
    if options == StoredOptions(fingerprint=options.fingerprint) and len(_remembered_options) < MAX_REMEMBERED:
        _remembered_options[text] = options
    return options


class _FewOptions(Struct, omit_defaults=True, frozen=True):
    """Decoded without a look at the values of the others, whatever they are."""

    tags: tuple[str, ...] = ()
    schedule: str | None = None
    scheduled_at: datetime | None = None
    cut: bool = False


_few_options = msgspec.json.Decoder(_FewOptions).decode


def brief_options(text: str) -> str:
    """Options as a brief job has them."""
    if len(text) <= BRIEF_CHARACTERS:
        return text
    _check_parts(text)
    few = _few_options(text)
    return _encode(_FewOptions(few.tags, few.schedule, few.scheduled_at, cut=True)).decode()


def new_row(job: NewJob | Job, now: int) -> Row:
    """A job that has never run, created `now`."""
    return (
        job.id, job.queue, job.task, -job.priority, "pending", now if job.run_at is None else micros(job.run_at), now,
        None if job.expires_at is None else micros(job.expires_at), job.unique_key, job.idempotency_key,
        options_of(job), job.payload,
    )  # fmt: skip


def row_of(job: Job) -> Row:
    return (
        job.id, job.queue, job.task, -job.priority, job.state.value, micros(job.run_at), micros(job.created_at),
        _us(job.expires_at), job.attempt, job.crashes, job.runs, job.lease, job.worker, _us(job.started_at),
        _us(job.finished_at), job.cancel_reason, job.unique_key, job.idempotency_key, options_of(job),
        failure_text(job.failure), job.payload, job.result, text_of(job.progress),
    )  # fmt: skip


def job_of(row: Row) -> Job:
    """The job of a row; of one that cannot be decoded, what can be read of it, with an Unreadable failure."""
    try:
        return strict_job_of(row)
    except Exception as error:
        return unreadable_job(row, error)


def strict_job_of(row: Row) -> Job:
    """As job_of, but raises if the row cannot be decoded."""
    (id, queue, task, rank, state, run_at, created_at, expires_at, attempt, crashes, runs, lease, worker, started_at,
     finished_at, cancel_reason, unique_key, idempotency_key, options, failure, payload, result,
     progress) = row  # fmt: skip
    extra = read_options(options)
    due = instant(run_at)
    return Job(
        id=id, queue=queue, task=task, priority=-rank, state=_STATES[state], run_at=due,
        created_at=due if created_at == run_at else instant(created_at), expires_at=_at(expires_at),
        attempt=attempt, crashes=crashes, runs=runs,
        lease=lease if state == "running" else None, worker=worker if state == "running" else None,
        started_at=_at(started_at), finished_at=_at(finished_at),
        cancel_reason=cancel_reason, unique_key=unique_key, idempotency_key=idempotency_key,
        timeout=extra.timeout, max_retries=extra.max_retries, backoff=extra.backoff, tags=extra.tags,
        metadata=LEFT_OUT if extra.cut else extra.metadata, schedule=extra.schedule, scheduled_at=extra.scheduled_at,
        detached=extra.beside, fingerprint=extra.fingerprint, enqueued_by=extra.enqueued_by, payload=payload,
        failure=None if failure is None else _failure(failure), result=result, progress=progress_of(progress),
    )  # fmt: skip


_NAMES: Sequence[str] = COLUMNS.split(", ")


def unreadable_job(row: Row, error: Exception) -> Job:
    """What can be read of a row that cannot be decoded, or has too few columns."""
    kept: dict[str, Any] = dict(zip(_NAMES, row, strict=False))
    said = unreadable_record("job", str(kept["id"]), _undecoded(kept) or error)
    state = _STATES.get(kept.get("state") or "", State.PAUSED)
    running = state is _RUNNING

    def text(name: str) -> str | None:
        return value if isinstance(value := kept.get(name), str) else None

    def number(name: str) -> int:
        return value if isinstance(value := kept.get(name), int) else 0

    at = {name: _or_none(kept.get(name)) for name in _NAMES if name.endswith("_at")}
    return Job(
        id=said.name, queue=text("queue") or "", task=text("task") or "", priority=-number("rank"),
        state=state, run_at=at["run_at"] or EPOCH, created_at=at["created_at"] or EPOCH, expires_at=at["expires_at"],
        attempt=number("attempt"), crashes=number("crashes"), runs=number("runs"),
        lease=text("lease") if running else None, worker=text("worker") if running else None,
        started_at=at["started_at"],
        finished_at=at["finished_at"] or (EPOCH if state.final else None),
        cancel_reason=text("cancel_reason"), unique_key=text("unique_key"), idempotency_key=text("idempotency_key"),
        schedule=_scheduled_by(text("idempotency_key")), payload=text("payload") or "null", result=text("result"),
        failure=Failure(UNREADABLE, f"its record cannot be decoded: {said.error}"),
    )  # fmt: skip


def _undecoded(kept: Mapping[str, Any]) -> str:
    """The columns that should be text and are not."""
    return ", ".join(f"{name} is no text" for name, value in kept.items() if isinstance(value, bytes))


def _or_none(us: Any) -> datetime | None:
    try:
        return _at(us)
    except (TypeError, ValueError, OverflowError):
        return None


def _scheduled_by(key: str | None) -> str | None:
    """The schedule that made the job, as the key of its tick tells (schedule.key_of)."""
    parts = (key or "").split(":", 1)
    name, _, tick = parts[-1].rpartition(":")
    return name if parts[0] == "schedule" and name and tick.isdecimal() else None


# What a claim does not know already of the jobs it takes; no others have an end or a result.
CLAIMED = (
    "id, queue, task, rank, run_at, created_at, expires_at, attempt, crashes, runs, cancel_reason, unique_key, "
    "idempotency_key, options, failure, payload, progress"
)


def claimed_of(row: Row, lease: Lease, worker: WorkerId, now: datetime) -> Job:
    """A row that begins with CLAIMED as the job it is: a third faster than reading all of it."""
    (id, queue, task, rank, run_at, created_at, expires_at, attempt, crashes, runs, cancel_reason, unique_key,
     idempotency_key, options, failure, payload, progress, *_) = row  # fmt: skip
    due = instant(run_at)
    if failure is None and progress is None and (plain := remembered_options(options)) is not None:
        return Job(
            id=id, queue=queue, task=task, priority=-rank, state=_RUNNING, run_at=due,
            created_at=due if created_at == run_at else instant(created_at), expires_at=_at(expires_at),
            attempt=attempt, crashes=crashes, runs=runs, lease=lease, worker=worker, started_at=now,
            cancel_reason=cancel_reason, unique_key=unique_key, idempotency_key=idempotency_key,
            fingerprint=plain.fingerprint, payload=payload,
        )  # fmt: skip
    extra = read_options(options)
    return Job(
        id=id, queue=queue, task=task, priority=-rank, state=_RUNNING, run_at=due,
        created_at=due if created_at == run_at else instant(created_at), expires_at=_at(expires_at),
        attempt=attempt, crashes=crashes, runs=runs, lease=lease, worker=worker, started_at=now,
        cancel_reason=cancel_reason, unique_key=unique_key, idempotency_key=idempotency_key,
        timeout=extra.timeout, max_retries=extra.max_retries, backoff=extra.backoff, tags=extra.tags,
        metadata=extra.metadata, schedule=extra.schedule, scheduled_at=extra.scheduled_at, detached=extra.beside,
        fingerprint=extra.fingerprint, enqueued_by=extra.enqueued_by,
        failure=None if failure is None else _failure(failure), payload=payload, progress=progress_of(progress),
    )  # fmt: skip


def executions_of(rows: Iterable[Row]) -> list[Execution]:
    """Those that can be decoded."""
    return readable("run of job", [(f"{row[0]} {row[1]}", row) for row in rows], execution_of)


def execution_of(row: Row) -> Execution:
    job_id, number, attempt, ending, worker, lease, started_at, finished_at, result_size, failure, text = row
    account = _NO_ACCOUNT if text is None else _account(text)
    return Execution(
        job_id=job_id, number=number, attempt=attempt, ending=Ending(ending), worker=worker, lease=lease,
        started_at=instant(started_at), finished_at=instant(finished_at), result_size=result_size,
        failure=None if failure is None else _failure(failure), items=account.items, usage=account.usage,
        metadata=account.metadata,
    )  # fmt: skip


def progress_of(text: str | None) -> Progress | None:
    return None if text is None else _progress(text)


def progress_or_none(id: str, text: str | None) -> Progress | None:
    """As progress_of; None if it cannot be decoded, so that a newer one takes its place."""
    try:
        return progress_of(text)
    except Exception as error:
        unreadable_record("job", id, error)
        return None


def failure_text(failure: Failure | None) -> str | None:
    return None if failure is None else _encode(failure).decode()


def series_of(id: str, options: bytes, key: str | None) -> str | None:
    """The schedule of whose series the job of these options and idempotency key is a run."""
    if b'"schedule"' not in options:
        return None
    try:
        extra = _options(options)
    except Exception as error:
        unreadable_record("job", id, error)
        return _scheduled_by(key)
    return None if extra.beside else extra.schedule


def kind_of(text: str) -> str:
    """The kind of a failure as it is kept; a step of the schema calls it."""
    return _failure(text).kind


def text_of(record: Struct | None) -> str | None:
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
# What the store keeps for each shown state: lets an index on `state` narrow the search first.
_STORED: Mapping[Shown, tuple[str, ...]] = {
    "scheduled": ("pending",),
    "retrying": ("pending",),
    "expired": ("expired", "pending"),
}


def stored(which: Filter) -> set[str]:
    """The states, as they are kept, that a matching job may be in."""
    if which.states is None:
        return {state.value for state in State}
    return {kept for shown in which.states for kept in _STORED.get(shown, (shown,))}


# A job's end as one text, which can be looked up among others.
END_SQL = "id || ' ' || coalesce(finished_at, -1) || ' ' || runs"


def end_texts(ends: Mapping[str, End]) -> list[str]:
    """As END_SQL has them."""
    return [f"{id} {-1 if end.finished_at is None else micros(end.finished_at)} {end.runs}" for id, end in ends.items()]


def beyond(prefix: str) -> str | None:
    """The first text after all that begin so, in the order of code points, which SQLite's is; None: there is none."""
    kept = prefix.rstrip(chr(0x10FFFF))
    if not kept:
        return None
    after = ord(kept[-1]) + 1
    return kept[:-1] + chr(0xE000 if after == 0xD800 else after)  # between the two are surrogates, no text
