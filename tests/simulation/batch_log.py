"""The batch log: the jobs of batches, who closes them, and what is called back, beside a recount after every verb."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mainspring.ids import JobId
from mainspring.records.flow import CLOSE_BATCH, JOBS_STEP, Flow, StepStatus
from mainspring.records.job import Job, State
from mainspring.records.plan import Plan

Fail = Callable[[str, JobId | None, str], None]
Note = Callable[[str, JobId, str], None]


class BatchLog:
    """Receives the rows of batches, their jobs, and what clients do; checks rule L9."""

    def __init__(self, fail: Fail, note: Note) -> None:
        self._fail, self._note = fail, note
        self.plans: dict[JobId, Plan] = {}
        self._rows: dict[JobId, Flow] = {}
        self._jobs: dict[JobId, dict[JobId, State]] = {}
        self._calls: dict[JobId, dict[str, list[JobId]]] = {}
        self._has_died: set[JobId] = set()
        self._may_close: set[JobId] = set()
        self._answers: dict[JobId, JobId] = {}
        self._changed: set[JobId] = set()

    # what happens

    def begun(self, id: JobId, plan: Plan) -> bool:
        """Returns whether the plan is that of a batch."""
        if plan.steps[JOBS_STEP].open_seconds is None:
            return False
        self.plans[id], self._jobs[id], self._calls[id] = plan, {}, {}
        return True

    def row_written(self, row: Flow) -> None:
        if row.id in self.plans:
            self._rows[row.id] = row
            if JOBS_STEP in row.notes:  # it was never closed, or was stopped
                self._has_died.add(row.id)
            self._changed.add(row.id)

    def job_written(self, old: Job | None, job: Job) -> None:
        if job.task == CLOSE_BATCH and job.state is State.RUNNING:  # its maker is said to have gone
            self._may_close.update(id for id in self.plans if id in job.payload)
        if job.id in self.plans and job.cancel_reason is not None:
            self._may_close.add(job.id)
        if (ref := job.step) is None or ref.flow not in self.plans:
            return
        self._changed.add(ref.flow)
        if ref.number == JOBS_STEP:
            self._jobs[ref.flow][job.id] = job.state
            if job.state in (State.DEAD, State.EXPIRED):
                self._has_died.add(ref.flow)
        elif old is None:
            name = self.plans[ref.flow].steps[ref.number].name
            self._note("batch", ref.flow, f"calls {name}: {self._recount(ref.flow)}")
            self._calls[ref.flow].setdefault(name, []).append(job.id)

    def close_sent(self, id: JobId) -> None:
        self._may_close.add(id)

    def added(self, id: JobId, job: JobId) -> None:
        """The client has got the answer that the job is one of the batch."""
        self._answers[job] = id

    # checks

    def verb_ended(self) -> None:
        changed, self._changed = self._changed, set()
        for id in sorted(changed & self._rows.keys()):
            row, counts = self._rows[id], self._rows[id].counts[JOBS_STEP]
            if (counts.made, counts.ended, counts.dead, counts.cancelled) != self._recount(id):
                self._fail("L9", id, f"counts {counts}, and its jobs are {self._recount(id)}")
            if counts.closed and id not in self._may_close:
                self._fail("L9", id, "is closed, and nobody has said so")
            if row.statuses[JOBS_STEP] != StepStatus.RELEASED and not counts.done:
                self._fail("L9", id, f"has ended before its jobs: {counts}")
            self._check_calls(id, row)

    def _recount(self, id: JobId) -> tuple[int, int, int, int]:
        states = list(self._jobs[id].values())
        ended = [state for state in states if state.final]
        dead = sum(state in (State.DEAD, State.EXPIRED) for state in ended)
        return len(states), len(ended), dead, ended.count(State.CANCELLED)

    def _check_calls(self, id: JobId, row: Flow) -> None:
        made, ended, dead, _ = self._recount(id)
        calls = {name: len(jobs) for name, jobs in self._calls[id].items()}
        all_ended = row.counts[JOBS_STEP].closed and made == ended
        if calls.get("on_failure", 0) > 1:
            self._fail("L9", id, f"has called on_failure {calls['on_failure']} times")
        if dead and row.state in ("open", "over") and not row.cancelled and not calls.get("on_failure"):
            self._fail("L9", id, f"has {dead} dead jobs, and has not called on_failure")
        if calls.get("on_failure") and id not in self._has_died and JOBS_STEP not in row.notes:
            self._fail("L9", id, "has called on_failure, and no job is dead")
        for name in ("on_success", "on_complete"):
            at = [n for n, step in enumerate(self.plans[id].steps) if step.name == name]
            if at and row.statuses[at[0]] == StepStatus.RELEASED and not all_ended:
                self._fail("L9", id, f"calls {name} before its jobs have ended")

    def check_end(self, jobs: Mapping[JobId, Job]) -> None:
        """The audit at the end: what had to be called back was, and no acknowledged job is lost."""
        for job, id in self._answers.items():
            if job not in self._jobs[id]:
                self._fail("L9", id, f"job {job} was acknowledged, and is none of it")
        for id, row in self._rows.items():
            own = jobs.get(id)
            if own is None or not own.state.final:
                continue
            *_, dead, cancelled = self._recount(id)
            fine = not dead and not cancelled and not row.cancelled and JOBS_STEP not in row.notes
            for n, step in enumerate(self.plans[id].steps):
                due = {
                    "on_success": fine,
                    "on_complete": row.statuses[n] != StepStatus.CANCELLED,
                    "on_failure": bool(dead) and not row.cancelled,
                }
                if due.get(step.name) and not self._calls[id].get(step.name) and row.state == "over":
                    self._fail("L9", id, f"has ended as {row.statuses}, and step {n}, {step.name}, was not called")
            if (own.state is State.COMPLETED) is not fine and not self._has_died and own.failure is None:
                self._fail("L9", id, f"has ended as {own.state}: {row.counts}")
