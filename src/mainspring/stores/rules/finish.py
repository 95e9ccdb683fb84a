"""The rules of finish and report: what the outcome of a run and its reports change.

The lease is the fence: an outcome or report is accepted only while the job is running under the lease that it names. An
outcome on behalf of a silent worker is accepted only if that worker is still silent.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from msgspec.structs import replace

from ...ids import JobId, WorkerId
from ...records.flow import OLDER_RELEASE
from ...records.job import Job, State
from ...records.outcome import NO_REVISION, Outcome
from ...records.run import Ending, Failure, RunReport
from .circuit import next_circuit
from .enqueue import enqueue
from .job_ends import JobEnd, apply_transition, write_job
from .outcome import apply_outcome, is_last_crash, is_newer_progress, new_execution
from .tables import Tables


def finish_one(tables: Tables, outcome: Outcome) -> bool:
    """Writes the outcome if the fence accepts it, and returns whether it does."""
    job = tables.job(outcome.id)
    if job is None or job.state is not State.RUNNING or job.lease != outcome.lease:
        return False
    if outcome.silent and not tables.is_silent(job.worker or "", outcome.finished_at):
        return False
    given = outcome
    if outcome.concludes is not None and _is_outdated(tables, job, outcome):
        suspended = {"state": State.WAITING, "ending": Ending.SUSPENDED, "failure": None, "result": None}
        outcome = replace(outcome, **suspended, then=(), task="")
    elif outcome.state is State.DEAD and _is_cut_short(tables, outcome):
        # Nothing is left to conclude: a step was put back to work.
        waits = {"state": State.WAITING, "ending": Ending.SUSPENDED, "crash": False, "reset_attempts": True}
        outcome = replace(outcome, **waits, then=(), task="")
    elif (outcome.plan is not None or outcome.awaits) and tables.older_workers:
        outcome = _postponed(outcome, tables.older_workers)
    tables.add_execution(new_execution(job, outcome))
    changed = apply_outcome(job, outcome)
    if outcome.state is State.WAITING and changed.state is State.CANCELLED and _goes_on(tables, job.id):
        changed = replace(changed, state=State.WAITING, finished_at=None)
        tables.flow_changes.of(job.id, outcome.finished_at).cancelled = True
    write_job(tables, job, changed, outcome.step_end)
    if changed.state is State.WAITING:
        tables.flow_changes.note_suspension(job.id, outcome.finished_at, outcome.plan, job.queue, outcome.awaits)
    _follow(tables, job.task, outcome)
    return outcome is given


# How long a flow waits for workers of releases without flows to stop, before it is tried again.
POSTPONED_SECONDS = 5.0


def older_workers_text(alive: Sequence[WorkerId]) -> str:
    shown = ", ".join(alive[:5])
    return (
        f"workers of an older release are alive, which do not know flows: {shown}; a flow begins when they have stopped"
    )


def older_workers_of_limits_text(alive: Sequence[WorkerId]) -> str:
    shown = ", ".join(alive[:5])
    return f"workers of an older release are alive, which do not know limits: {shown}; try again when they have stopped"


def _postponed(outcome: Outcome, alive: Sequence[WorkerId]) -> Outcome:
    """The outcome of a flow that cannot begin yet."""
    return replace(
        outcome,
        state=State.PENDING,
        ending=Ending.RELEASED,
        run_at=outcome.finished_at + timedelta(seconds=POSTPONED_SECONDS),
        failure=Failure(OLDER_RELEASE, older_workers_text(alive)),
        plan=None,
        awaits=(),
    )


def _is_outdated(tables: Tables, job: Job, outcome: Outcome) -> bool:
    """Whether the flow has changed since the run read it: a step was put back to work. That withdraws a cancel, too."""
    if outcome.concludes == NO_REVISION:
        return job.cancel_reason is None
    flow = tables.flow(outcome.id)
    return flow is not None and flow.revision != outcome.concludes


def _is_cut_short(tables: Tables, outcome: Outcome) -> bool:
    """Whether the job has crashed for the last time, but is a flow with steps that go on."""
    id = outcome.id
    return is_last_crash(outcome) and _goes_on(tables, id) and not tables.graph(id).plan.grows


def _goes_on(tables: Tables, id: JobId) -> bool:
    """Whether the job has a flow whose steps wait or run."""
    flow = tables.flow(id)
    return flow is not None and flow.planned and flow.state != "over"


def follow_completion(tables: Tables, outcome: Outcome) -> None:
    """What follows a plain completion whose job and run the store has written itself: schedule, circuit, `then`."""
    if outcome.schedule is not None:
        end = JobEnd(outcome.schedule, outcome.id, State.COMPLETED, outcome.finished_at, outcome.result)
        apply_transition(tables, end)
    if outcome.step is not None:
        changes = tables.flow_changes
        changes.note_end_of(outcome.step, State.COMPLETED, outcome.finished_at, outcome.result, outcome.step_end)
    _follow(tables, outcome.task, outcome)


def follow_suspension(tables: Tables, outcome: Outcome) -> None:
    """What follows the end of a run that planned a flow, whose job and run the store has written itself."""
    tables.flow_changes.note_suspension(outcome.id, outcome.finished_at, outcome.plan, outcome.queue, outcome.awaits)
    _follow(tables, outcome.task, outcome)


def _follow(tables: Tables, task: str, outcome: Outcome) -> None:
    """Changes the task's circuit, enqueues the jobs that follow, and counts the outcome."""
    known = tables.circuit(task)
    if known is not None or outcome.breaker is not None:
        circuit = next_circuit(known, outcome)
        if circuit != known:
            tables.put_circuit(task, circuit)
    if outcome.then:
        enqueue(tables, outcome.then, outcome.finished_at)
    tables.count([outcome])


def has_only_checkpoints(report: RunReport) -> bool:
    """Whether the report has nothing that changes its job or that readers follow."""
    return bool(report.checkpoints) and not (report.lines or report.chunks or report.progress)


def report_one(tables: Tables, report: RunReport) -> bool:
    """Records what the run reports if it still goes on, and returns whether it does."""
    job = tables.job(report.id)
    if job is None or job.state is not State.RUNNING or job.lease != report.lease:
        return False
    tables.add_lines(job.id, report.lines)
    tables.add_chunks(job.id, report.chunks)
    if report.checkpoints:
        tables.add_checkpoints(job.id, report.checkpoints)
    if is_newer_progress(report.progress, job.progress):
        write_job(tables, job, replace(job, progress=report.progress))
    return True
