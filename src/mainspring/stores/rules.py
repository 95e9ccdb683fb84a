"""Rules of the Store contract that more than one store applies: conflicts, outcomes, circuits, actions. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from datetime import datetime, timedelta
from typing import Literal

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict, replace

from ..ids import JobId
from ..records.audit import AuditEntry, AuditFilter
from ..records.circuit import Circuit
from ..records.job import ALLOWED, BRIEF_CHARACTERS, LEFT_OUT, UNREADABLE, Action, Job, NewJob, State, is_internal
from ..records.outcome import Outcome
from ..records.query import End, Filter, Refusal, Update, Updates
from ..records.run import WENT_WELL, WENT_WRONG, Ending, Execution, Failure, Progress, RunNotes
from ..records.worker import WorkerCommands
from ..schedule.record import Firing, LeaderTerm
from .rows import options_of

# A worker that has been silent for longer is forgotten: the next beat of any worker deletes its row.
SILENT_WORKER_RETENTION = timedelta(days=1)
# A job with a key can be replaced or debounced only in these states.
REPLACEABLE_STATES = (State.PENDING, State.PAUSED)


def to_job(new: NewJob, now: datetime) -> Job:
    """The job that a request becomes when it is enqueued."""
    return Job(
        id=new.id,
        task=new.task,
        payload=new.payload,
        queue=new.queue,
        priority=new.priority,
        state=State.PENDING,
        run_at=now if new.run_at is None else new.run_at,
        created_at=now,
        expires_at=new.expires_at,
        timeout=new.timeout,
        max_retries=new.max_retries,
        backoff=new.backoff,
        tags=new.tags,
        metadata=deepcopy(new.metadata) if new.metadata else {},
        unique_key=new.unique_key,
        idempotency_key=new.idempotency_key,
        schedule=new.schedule,
        scheduled_at=new.scheduled_at,
        detached=new.detached,
        fingerprint=new.fingerprint,
        enqueued_by=new.enqueued_by,
    )


def size_of(job: Job) -> int:
    """The bytes of payload and metadata, which count towards CLAIM_BYTES."""
    payload = job.payload
    size = len(payload) if payload.isascii() else len(payload.encode())
    return size + len(msgspec.json.encode(job.metadata)) if job.metadata else size


def resolve_conflict(
    holder: Job, new: NewJob, now: datetime
) -> tuple[Job, Literal["duplicate", "replaced", "debounced"]]:
    """The holder of a key after another job asks for the same key, and the status to report."""
    changes = new.on_conflict in ("replace", "debounce") and not is_internal(holder.task)
    if not changes or holder.state not in REPLACEABLE_STATES or holder.unreadable:
        return holder, "duplicate"
    changed = replace(
        holder,
        payload=new.payload,
        priority=new.priority,
        expires_at=new.expires_at,
        timeout=new.timeout,
        max_retries=new.max_retries,
        backoff=new.backoff,
        tags=new.tags,
        metadata=deepcopy(new.metadata) if new.metadata else {},
        fingerprint=new.fingerprint,
        enqueued_by=new.enqueued_by,
        failure=without_since(holder.failure),
    )
    if new.on_conflict == "replace":
        return changed, "replaced"
    run_at = now if new.run_at is None else new.run_at
    if new.debounce_limit is not None:
        run_at = min(run_at, holder.created_at + timedelta(seconds=new.debounce_limit))
    return replace(changed, run_at=run_at), "debounced"


def apply_outcome(job: Job, outcome: Outcome) -> Job:
    """The job after a run ended with this (accepted) outcome."""
    if job.unreadable:
        return set_aside(job)
    state = outcome.state
    if state is State.PENDING and job.cancel_reason is not None:
        state = State.CANCELLED
    failure = outcome.failure
    if failure is None and state is not State.COMPLETED:
        failure = job.failure
    return replace(
        job,
        state=state,
        lease=None,
        worker=None,
        result=outcome.result,
        failure=failure,
        run_at=outcome.run_at or job.run_at,
        finished_at=outcome.finished_at if state.final else None,
        attempt=job.attempt - outcome.refund,
        crashes=job.crashes + outcome.crash,
    )


def set_aside(job: Job) -> Job:
    """Pauses a job whose record cannot be decoded, so that no claim finds it; the record itself is not changed."""
    return replace(job, state=State.PAUSED, lease=UNREADABLE, worker=None)


def refusal_of(action: Action, job: Job) -> Refusal | None:
    """Why the job's state, or a record that cannot be decoded, does not allow the action; None if it is allowed."""
    if job.failure is not None and job.unreadable and (action is not Action.DELETE or not job.queue):
        remedy = "repair the record, or delete the job" if job.queue else "its queue is unknown; delete the job"
        return Refusal(job.state, error=f"{job.failure.message}: {remedy}")
    return None if job.state in ALLOWED[action] else Refusal(job.state)


def is_plain_completion(outcome: Outcome) -> bool:
    """Whether the outcome completes the job and carries nothing but a result, as nearly all do."""
    well = outcome.state is State.COMPLETED and outcome.failure is None
    return well and outcome.account is None and not outcome.silent


def new_execution(job: Job, outcome: Outcome) -> Execution:
    """The history row of the run that this accepted outcome ends."""
    notes = outcome.account or RunNotes()
    return Execution(
        job_id=job.id,
        number=job.runs,
        attempt=job.attempt,
        ending=outcome.ending,
        worker=job.worker or "",
        lease=outcome.lease,
        started_at=job.started_at or outcome.finished_at,
        finished_at=outcome.finished_at,
        result_size=len((outcome.result or "").encode()),
        failure=outcome.failure,
        items=notes.items,
        usage=notes.usage,
        metadata=notes.metadata,
    )


def is_newer_progress(reported: Progress | None, stored: Progress | None) -> bool:
    """Whether to store the reported progress: a report that is repeated may arrive after a later one."""
    return reported is not None and (stored is None or (reported.run, reported.at) >= (stored.run, stored.at))


# A discarded run had bad input; that is no fault of the task.
_TRIPPING_ENDINGS = WENT_WRONG - {Ending.DISCARDED}


def next_circuit(circuit: Circuit | None, outcome: Outcome) -> Circuit | None:
    """A task's circuit after an accepted outcome; None if it is closed with no failures to count."""
    probing = circuit is not None and circuit.probe == outcome.id
    if outcome.task and outcome.ending in WENT_WELL:
        return None
    breaker = outcome.breaker
    if breaker is None or not outcome.task or outcome.ending not in _TRIPPING_ENDINGS:
        return replace(circuit, probe=None) if circuit is not None and probing else circuit
    failures = 1 + (circuit.failures if circuit else 0)
    until = circuit.open_until if circuit else None
    if probing or (until is None and failures >= breaker.failures):
        until = outcome.finished_at + timedelta(seconds=breaker.cooldown)
    probe = None if circuit is None or probing else circuit.probe
    return Circuit(outcome.task, failures, until, probe)


# The cancel reason of a run that makes room for the next run of its schedule.
CANCELLED_BY_SCHEDULE = "schedule {!r} has come to its next tick"


def firing_is_current(firing: Firing, revision: Callable[[str], int]) -> bool:
    """Whether the schedules still have the revisions the firing was planned with; a missing schedule has revision 0."""
    seen = ((firing.schedule.name, firing.schedule.revision - 1), *firing.reads)
    return all(revision(name) == expected for name, expected in seen)


def held_keys(
    jobs: Sequence[NewJob], holder: Callable[[NewJob], tuple[str | None, Job | None]], now: datetime
) -> tuple[str, ...]:
    """The keys of these jobs that another job holds, in the store or earlier in the list."""
    keys: list[str] = []
    own: set[tuple[str, str]] = set()
    for job in jobs:
        pairs = (("unique", job.unique_key), ("idempotent", job.idempotency_key))
        mine = {(kind, key) for kind, key in pairs if key is not None}
        key, held = holder(job)
        if key is not None and held is not None and held.shown(now) != "expired":
            keys.append(key)
        else:
            keys += sorted(key for _, key in mine & own)
        own |= mine
    return tuple(keys)


def next_term(known: LeaderTerm | None, name: str, holder: str, until: datetime, now: datetime) -> LeaderTerm:
    """The leader's term after `holder` asks to lead until `until`; an `until` in the past resigns."""
    live = known is not None and known.holder is not None and known.until > now
    if known is not None and live:
        if known.holder != holder:
            return known
        return replace(known, until=until) if until > now else LeaderTerm(name, None, known.term, now)
    term = 0 if known is None else known.term
    return LeaderTerm(name, holder, term + 1, until) if until > now else LeaderTerm(name, None, term, now)


def next_commands(known: WorkerCommands, orders: WorkerCommands, seen: WorkerCommands | None) -> WorkerCommands | None:
    """A worker's commands after new ones. None if its commands are no longer those in `seen`: nothing changes then."""
    if seen is not None and known != seen:
        return None
    return replace(orders, stopped=known.stopped or orders.stopped)


def expire_if_due(job: Job, now: datetime) -> Job:
    """The job, expired if it is pending past its expires_at."""
    if job.state is State.PENDING and job.shown(now) == "expired":
        return replace(job, state=State.EXPIRED, finished_at=now)
    return job


def unique_ids(job_id: JobId | Collection[JobId]) -> list[JobId]:
    """The ids as a list without duplicates; a single id is allowed."""
    return [job_id] if isinstance(job_id, str) else list(dict.fromkeys(job_id))


def update_of(updates: Updates | None, id: JobId) -> Update | None:
    """The new values for one job: its own entry of a mapping, or the update for all."""
    return updates.get(id) if isinstance(updates, Mapping) else updates


def apply_action(action: Action, job: Job, now: datetime, reason: str, updates: Updates | None = None) -> Job:
    """The job after an action that its state allows (not for delete)."""
    update = update_of(updates, job.id)
    if action is Action.UPDATE:
        return apply_update(job, update or Update())
    if action is Action.RETRY:
        job = replace(
            job,
            state=State.PENDING,
            run_at=now,
            attempt=0,
            crashes=0,
            finished_at=None,
            expires_at=None,
            cancel_reason=None,
            result=None,
            failure=without_since(job.failure),
        )
        return job if update is None else apply_update(job, update)
    match action, job.state:
        case Action.CANCEL, State.CANCELLED:
            return job
        case Action.CANCEL, State.RUNNING:
            return job if job.cancel_reason is not None else replace(job, cancel_reason=reason)
        case Action.CANCEL, _:
            return replace(job, state=State.CANCELLED, cancel_reason=reason, finished_at=now)
        case Action.PAUSE, _:
            return replace(job, state=State.PAUSED)
        case _:
            return replace(job, state=State.PENDING)


def apply_update(job: Job, update: Update) -> Job:
    given = {name: value for name, value in asdict(update).items() if value is not UNSET}
    if "payload" in given:
        given = {"fingerprint": None, "failure": without_since(job.failure), **given}
    return replace(job, **deepcopy(given))


def without_since(failure: Failure | None) -> Failure | None:
    """The failure without `since`: a retried job may again wait for the full time."""
    return failure if failure is None or failure.since is None else replace(failure, since=None)


def brief_job(job: Job) -> Job:
    """The job without payload, result and options that are longer than BRIEF_CHARACTERS."""
    options = job.metadata is LEFT_OUT or len(options_of(job)) > BRIEF_CHARACTERS
    result = job.result is not None and len(job.result) > BRIEF_CHARACTERS
    if not options and not result and len(job.payload) <= BRIEF_CHARACTERS:
        return job
    short = replace(
        job, payload=job.payload if len(job.payload) <= BRIEF_CHARACTERS else "", result="" if result else job.result
    )
    if not options:
        return short
    return replace(
        short,
        metadata=LEFT_OUT,
        timeout=UNSET,
        max_retries=None,
        backoff=None,
        detached=False,
        fingerprint=None,
        enqueued_by=None,
    )


def matches_filter(job: Job, which: Filter, now: datetime) -> bool:
    return (
        (which.ids is None or job.id in which.ids)
        and (which.states is None or job.shown(now) in which.states)
        and (which.queues is None or job.queue in which.queues)
        and (which.tasks is None or job.task in which.tasks)
        and (which.tags is None or set(which.tags) <= set(job.tags))
        and (which.workers is None or job.worker in which.workers)
        and (which.errors is None or (job.failure is not None and job.failure.kind in which.errors))
        and (which.schedules is None or job.schedule in which.schedules)
        and (which.key_prefix is None or _has_key_prefix(job, which.key_prefix))
        and (which.created_after is None or job.created_at >= which.created_after)
        and (which.created_before is None or job.created_at <= which.created_before)
        and (which.ends is None or which.ends.get(job.id) == End(job.finished_at, job.runs))
    )


def _has_key_prefix(job: Job, prefix: str) -> bool:
    return any(key is not None and key.startswith(prefix) for key in (job.unique_key, job.idempotency_key))


def matches_audit_filter(entry: AuditEntry, which: AuditFilter) -> bool:
    named = which.action is None or entry.action == which.action or entry.action.startswith(f"{which.action}.")
    return (
        named
        and which.who in (None, entry.who)
        and which.target in (None, entry.target)
        and (which.since is None or entry.at >= which.since)
        and (which.until is None or entry.at < which.until)
    )
