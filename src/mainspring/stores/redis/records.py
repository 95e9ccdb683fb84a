"""The stored form of a job: its record, and next to it what a claim and a plain end wrote about it.

The hashes are `job` (the record), `run` (the claim of a running job) and `end` (the end that finish.lua wrote).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from struct import Struct as Layout
from typing import Any

import msgspec
from msgspec.structs import replace

from ...clock import EPOCH, instant, micros
from ...ids import JobId, Lease, WorkerId
from ...records.circuit import Circuit
from ...records.job import UNREADABLE, Job, NewJob, State
from ...records.run import Ending, Execution
from ...records.step import StepRef
from ...records.unreadable import readable
from ...schedule.record import Schedule
from ..rows import (
    COLUMNS,
    brief_options,
    cached_options,
    claimed_job_of,
    new_row,
    options_of,
    row_of,
    strict_job_of,
    unreadable_job,
)
from ..rules import set_aside

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode
_circuit = msgspec.json.Decoder(Circuit).decode
_schedule = msgspec.json.Decoder(Schedule).decode
_CLAIM_KEY_LAYOUT = Layout(">HQ")
_NOT_UUID = b"\xff\xff"
_OPTIONS = COLUMNS.split(", ").index("options")

# What the scripts have to know about a job: bits of a letter, the first byte of a record and a part of a claim.
NO_FLAGS = 64
FLAG_KEYED = 1
FLAG_SCHEDULED = 2  # also of the job of a step: its end changes more than the job
FLAG_EXPIRES = 4
FLAG_RETRIED = 8
FLAG_STEP = 16
_NO_FLAGS_LETTER = bytes((NO_FLAGS,))

# Number of fields in a record: a plain new job, any other new job, the new job of a step, any other job of a step. Any
# other job has 22: a release without flows cannot decode the job of a step, and so does not take it for another one.
PLAIN_VALUES = 5
NEW_VALUES = 11
NEW_STEP_VALUES = 12
STEP_VALUES = 23

_STATES = frozenset(state.value for state in State)

# Parts of a claim, separated by zero bytes: lease, worker, instant, flags, queue, task; with a limit the limit_key too.
CLAIM_PARTS = (6, 7)

Raw = tuple[bytes | None, bytes | None, bytes | None]
"""The fields of a job in the hashes `job`, `run` and `end`."""


def packed(id: JobId) -> bytes:
    """A UUID in sixteen bytes, which sort as the text does; any other id as its text, which sorts after all UUIDs."""
    digits = id.replace("-", "")
    if len(id) == 36 and len(digits) == 32:
        try:
            short = bytes.fromhex(digits)
        except ValueError:
            return _NOT_UUID + id.encode()
        if short.hex() == digits:
            return short
    return _NOT_UUID + id.encode()


def unpacked(short: bytes) -> JobId:
    """The id of packed()."""
    if short.startswith(_NOT_UUID):
        return short[2:].decode(errors="backslashreplace")
    digits = short.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def claim_key(priority: int, run_at: int, id: bytes) -> bytes:
    """The sort key of a job in the order of claims: priority, highest first, then run_at, then id.

    A run_at before 1970 sorts as 1970.
    """
    return _CLAIM_KEY_LAYOUT.pack(32767 - priority, max(run_at, 0)) + id


def flags(job: NewJob | Job, attempt: int = 0) -> bytes:
    """The letter with the flags of a job."""
    bits = NO_FLAGS
    if job.unique_key is not None or job.idempotency_key is not None:
        bits |= FLAG_KEYED
    if job.schedule is not None or job.step is not None:
        bits |= FLAG_SCHEDULED
    if job.step is not None:
        bits |= FLAG_STEP
    if job.expires_at is not None:
        bits |= FLAG_EXPIRES
    if attempt or (isinstance(job, Job) and job.failure is not None):
        bits |= FLAG_RETRIED
    return bytes((bits,))


def new_record(job: NewJob, now: int) -> bytes:
    """The record of a job that was never claimed: a short form, since most waiting jobs are plain."""
    plain = job.unique_key is None and job.idempotency_key is None and job.schedule is None and job.expires_at is None
    if plain and job.step is None:
        return _NO_FLAGS_LETTER + _pack(_plain_row(job, now))  # twice as fast
    if job.step is not None and _has_only_a_step(job):
        return flags(job) + _pack(_step_row(job, job.step, now))
    values = new_row(job, now)[1:]
    return flags(job) + _pack(values if job.step is None else (*_row([*values]), None))


def _has_only_a_step(job: NewJob | Job) -> bool:
    return job.unique_key is None and job.idempotency_key is None and job.schedule is None


def _step_row(job: NewJob | Job, step: StepRef, created_at: int) -> tuple[Any, ...]:
    """The record of a step's job that was never claimed, and has no keys and no schedule. The step is not in its
    options, so that most of them have the same."""
    return (
        job.queue,
        job.task,
        -job.priority,
        created_at if job.run_at is None else micros(job.run_at),
        created_at,
        None if job.expires_at is None else micros(job.expires_at),
        options_of(job, with_step=False),
        job.payload,
        step.flow,
        step.position,
        step.queue,
        step.needed,
    )


def _plain_row(job: NewJob, now: int) -> tuple[Any, ...]:
    """The record of a new job without keys, schedule and expiry."""
    run_at, options = now if job.run_at is None else micros(job.run_at), options_of(job)
    if run_at == now and options == "{}":
        return job.queue, job.task, -job.priority, run_at, job.payload
    return job.queue, job.task, -job.priority, "pending", run_at, now, None, None, None, options, job.payload


def record_of(job: Job) -> bytes:
    """The record of any job."""
    if job.step is not None and was_never_claimed(job) and _has_only_a_step(job):
        return flags(job) + _pack(_step_row(job, job.step, micros(job.created_at)))
    if job.collect is not None and job.step is None and was_never_claimed(job):  # as collect.lua reads it
        return flags(job) + _pack(new_row(job, micros(job.created_at))[1:])
    values = row_of(job)[1:]
    return flags(job, job.attempt) + _pack(values if job.step is None else (*values, None))


def was_never_claimed(job: Job) -> bool:
    """Whether the job has nothing that a new one has not. One that was set back to work by an operator may have."""
    counted = job.attempt or job.crashes or job.runs
    told = job.failure is not None or job.progress is not None or job.cancel_reason is not None
    return job.state is State.PENDING and not counted and not told and job.result is None


def job_from(id: JobId, raw: Raw, brief: bool = False) -> Job | None:
    """The job, None if there is no record. One that cannot be decoded has the fields that can, and a failure."""
    if raw[0] is None:
        return None
    try:
        return _job_from(id, raw[0], raw[1], raw[2], brief)
    except Exception as error:
        return _unreadable(id, raw, error)


def _job_from(id: JobId, text: bytes, claimed: bytes | None, ended: bytes | None, brief: bool) -> Job:
    values = _unpack(text[1:])
    if len(values) == NEW_STEP_VALUES and ended is not None and (job := _completed_step(id, values, ended)) is not None:
        return job
    job = _recorded(id, values, brief)
    if ended is not None:
        finished_at, _, result = ended.split(b"\0", 3)[3].partition(b"\0")
        job = _claimed(job, ended)
        return replace(
            job,
            state=State.COMPLETED,
            lease=None,
            worker=None,
            failure=None,
            finished_at=instant(int(finished_at)),
            result=result[1:].decode() if result[:1] == b"1" else None,
        )
    return job if claimed is None else _claimed(job, claimed)


def may_be(
    raw: Raw, states: Collection[str] | None, queues: Collection[str] | None, tasks: Collection[str] | None, now: int
) -> bool:
    """Whether a job may have one of these shown states, queues and tasks, told without decoding the job. True if that
    cannot be told."""
    text, claimed, ended = raw
    if text is None or (ended is not None and states is not None and "completed" not in states):
        return False
    try:
        queue, task, _, state, run_at, _, expires_at, attempt, *_ = _row(_unpack(text[1:]))
        if (queues is not None and queue not in queues) or (tasks is not None and task not in tasks):
            return False
        if states is None or claimed is not None or ended is not None:
            return True
        if state == "pending":
            state = "retrying" if attempt else "scheduled" if run_at > now else "pending"
            return state in states or (expires_at is not None and "expired" in states)
        return state in states or state not in _STATES
    except Exception:  # job_from() tells what is wrong with the record
        return True


def _unreadable(id: JobId, raw: Raw, error: Exception) -> Job:
    """A job whose record cannot be decoded. Its claim, if it has one, tells its queue, which decides its shard."""
    try:
        values = _row(_unpack((raw[0] or b"")[1:]))
    except Exception:
        values = []
    job = unreadable_job([id, *values], error)
    if raw[2] is not None:
        return replace(job, state=State.COMPLETED, lease=None, worker=None, finished_at=job.finished_at or EPOCH)
    claim = (raw[1] or b"").decode(errors="backslashreplace").split("\0")
    if len(claim) not in CLAIM_PARTS:
        return job
    lease, worker, _, _, queue, task, *limit_key = claim
    job = replace(job, queue=queue, task=task, limit_key=limit_key[0] if limit_key else None)
    return set_aside(job) if lease == UNREADABLE else replace(job, state=State.RUNNING, lease=lease, worker=worker)


def aside_claim(queue: str, task: str, now: int) -> bytes:
    """The value in place of a claim for a job that was set aside: jobs with a claim are not claimed."""
    return f"{UNREADABLE}\0\0{now}\0{chr(NO_FLAGS)}\0{queue}\0{task}".encode()


def _recorded(id: JobId, values: list[Any], brief: bool) -> Job:
    row = [id, *_row(values)]
    if brief:
        row[_OPTIONS] = brief_options(row[_OPTIONS])
    job = strict_job_of(row)
    return replace(job, step=StepRef(*values[8:])) if len(values) == NEW_STEP_VALUES else job


def _completed_step(id: JobId, values: list[Any], ended: bytes) -> Job | None:
    """The job of a step that finish.lua has ended, in one go, since a map has many; None if it has further options."""
    queue, task, rank, run_at, created_at, expires_at, options, payload, *step = values
    if expires_at is not None or (plain := cached_options(options)) is None:
        return None
    _, _, started_at, finished_at, result = ended.split(b"\0", 4)
    due = instant(run_at)
    return Job(
        id=id,
        queue=queue,
        task=task,
        priority=-rank,
        state=State.COMPLETED,
        run_at=due,
        created_at=due if created_at == run_at else instant(created_at),
        payload=payload,
        attempt=1,
        runs=1,
        started_at=instant(int(started_at)),
        finished_at=instant(int(finished_at)),
        result=result[1:].decode() if result[:1] == b"1" else None,
        fingerprint=plain.fingerprint,
        step=StepRef(*step),
    )


def _row(row: list[Any]) -> list[Any]:
    """All fields of a job, from a record in any of its forms."""
    if len(row) == PLAIN_VALUES:
        queue, task, rank, run_at, payload = row
        row = [queue, task, rank, "pending", run_at, run_at, None, None, None, "{}", payload]
    if len(row) == NEW_VALUES:
        queue, task, rank, state, run_at, created_at, expires_at, unique, idempotent, options, payload = row
        row = [queue, task, rank, state, run_at, created_at, expires_at, 0, 0, 0, None, None, None, None, None, unique,
               idempotent, options, None, payload, None, None]  # fmt: skip
    if len(row) == NEW_STEP_VALUES:
        queue, task, rank, run_at, created_at, expires_at, options, payload, *_ = row
        instants = (run_at, created_at, expires_at)
        row = [queue, task, rank, "pending", *instants, 0, 0, 0, *[None] * 7, options, None, payload, None, None]
    return row[:-1] if len(row) == STEP_VALUES else row


def claimed_job(short: bytes, text: bytes, lease: Lease, worker: WorkerId, now: datetime) -> Job:
    """A job that claim.lua has just claimed, decoded from its record."""
    values, fingerprint, step = _unpack(text[1:]), None, None
    if len(values) == PLAIN_VALUES:
        queue, task, rank, run_at, payload = values
        created_at = run_at
    elif len(values) == NEW_VALUES:
        queue, task, rank, _, run_at, created_at, expires_at, unique, idempotent, options, payload = values
        plain = cached_options(options)
        if plain is None or unique is not None or idempotent is not None or expires_at is not None:
            row = (unpacked(short), queue, task, rank, run_at, created_at, expires_at, 1, 0, 1,
                   None, unique, idempotent, options, None, payload, None)  # fmt: skip
            return claimed_job_of(row, lease, worker, now)
        fingerprint = plain.fingerprint
    elif len(values) == NEW_STEP_VALUES:
        queue, task, rank, run_at, created_at, expires_at, options, payload, *place = values
        step, plain = StepRef(*place), cached_options(options)
        if plain is None or expires_at is not None:
            instants = (run_at, created_at, expires_at)
            row = (
                unpacked(short),
                queue,
                task,
                rank,
                *instants,
                1,
                0,
                1,
                None,
                None,
                None,
                options,
                None,
                payload,
                None,
            )
            return replace(claimed_job_of(row, lease, worker, now), step=step)
        fingerprint = plain.fingerprint
    else:
        (queue, task, rank, _, run_at, created_at, expires_at, attempt, crashes, runs, _, _, _, _, cancel_reason,
         unique, idempotent, options, failure, payload, _, progress, *_) = values  # fmt: skip
        row = (unpacked(short), queue, task, rank, run_at, created_at, expires_at, attempt + 1, crashes, runs + 1,
               cancel_reason, unique, idempotent, options, failure, payload, progress)  # fmt: skip
        return claimed_job_of(row, lease, worker, now)
    due = instant(run_at)
    return Job(
        id=unpacked(short),
        queue=queue,
        task=task,
        priority=-rank,
        state=State.RUNNING,
        run_at=due,
        created_at=due if created_at == run_at else instant(created_at),
        payload=payload,
        attempt=1,
        runs=1,
        lease=lease,
        worker=worker,
        started_at=now,
        fingerprint=fingerprint,
        step=step,
    )


def _claimed(job: Job, claim: bytes) -> Job:
    """The job with the lease of its claim; unchanged if the record was written after the claim."""
    if job.state is not State.PENDING:
        return job
    lease, worker, started_at, _ = claim.split(b"\0", 3)
    if lease.decode() == UNREADABLE:  # it was set aside, but can be decoded now
        return replace(job, state=State.PAUSED)
    return replace(
        job,
        state=State.RUNNING,
        lease=lease.decode(),
        worker=worker.decode(),
        started_at=instant(int(started_at)),
        attempt=job.attempt + 1,
        runs=job.runs + 1,
    )


def claim_of(job: Job, started_at: int) -> bytes:
    """The claim of a running job, as claim.lua writes it."""
    letter = flags(job, job.attempt - 1)
    claim = f"{job.lease}\0{job.worker}\0{started_at}\0".encode()
    limit_key = "" if job.limit_key is None else f"\0{job.limit_key}"
    return claim + letter + f"\0{job.queue}\0{job.task}{limit_key}".encode()


def schedule_of(name: str, text: bytes | None) -> Schedule | None:
    """The schedule; None if there is none, or it cannot be decoded."""
    return None if text is None else next(iter(readable("schedule", [(name, text)], _schedule)), None)


def circuits_of(texts: Mapping[str, bytes]) -> dict[str, Circuit]:
    """Circuits by task. One that cannot be decoded is left out, and so holds back no job."""
    return {circuit.task: circuit for circuit in readable("circuit", texts.items(), _circuit)}


def last_run(id: JobId, raw: Raw) -> Execution | None:
    """The run that finish.lua ended, None if there is none: it has no record of its own."""
    _, _, ended = raw
    job = job_from(id, raw)
    if ended is None or job is None or job.finished_at is None or job.unreadable:
        return None
    lease, worker, started_at, _ = ended.split(b"\0", 3)
    return Execution(
        job_id=id,
        number=job.runs,
        attempt=job.attempt,
        ending=Ending.COMPLETED,
        worker=worker.decode(),
        lease=lease.decode(),
        started_at=instant(int(started_at)),
        finished_at=job.finished_at,
        result_size=len((job.result or "").encode()),
    )
