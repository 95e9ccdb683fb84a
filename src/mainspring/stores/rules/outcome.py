"""A job after the outcome of a run, and the run's history row. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from ...records.job import UNREADABLE, Job, State
from ...records.outcome import Outcome
from ...records.run import Ending, Execution, Progress, RunNotes

# Looking up an enum's member by name is slow on the hot path.
_COMPLETED = State.COMPLETED


def apply_outcome(job: Job, outcome: Outcome) -> Job:
    """The job after a run ended with this (accepted) outcome."""
    if job.unreadable:
        return set_aside(job)
    state = outcome.state
    if state in (State.PENDING, State.WAITING) and job.cancel_reason is not None:
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
        # One that is suspended has begun in time.
        expires_at=None if state is State.WAITING or outcome.ending is Ending.SUSPENDED else job.expires_at,
        finished_at=outcome.finished_at if state.final else None,
        attempt=(1 if outcome.reset_attempts else job.attempt) - outcome.refund,
        crashes=(0 if outcome.reset_attempts else job.crashes) + outcome.crash,
    )


def set_aside(job: Job) -> Job:
    """Pauses a job whose record cannot be decoded, so that no claim finds it; the record itself is not changed."""
    return replace(job, state=State.PAUSED, lease=UNREADABLE, worker=None)


def is_plain_completion(outcome: Outcome) -> bool:
    """Whether the outcome completes the job and carries nothing but a result and notes, as nearly all do."""
    plain = outcome.state is _COMPLETED and outcome.failure is None and not outcome.silent
    return plain and outcome.concludes is None


def is_plain_conclusion(outcome: Outcome) -> bool:
    """Whether the outcome would be a plain completion, if the flow that it concludes has not changed meanwhile."""
    return outcome.concludes is not None and is_plain_completion(replace(outcome, concludes=None))


def is_plain_suspension(outcome: Outcome) -> bool:
    """Whether the outcome only lets the job of a flow wait for its steps."""
    plain = outcome.failure is None and not outcome.silent and outcome.account is None and not outcome.then
    plain = plain and not outcome.reset_attempts
    return plain and outcome.ending is Ending.SUSPENDED and outcome.state is State.WAITING and outcome.refund


def is_last_crash(outcome: Outcome) -> bool:
    """Whether the job has crashed as often as it may. If it concludes a flow, that may go on meanwhile."""
    return outcome.ending is Ending.CRASHED and outcome.state is State.DEAD


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
