"""The picture of a flow: its steps with their statuses, jobs and counts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from msgspec import Struct

from ..flow.graph import Graph
from ..flow.kept_steps import is_kept
from ..ids import JobId
from ..records.flow import REPLAY_OF, SKIP_REASONS, SKIPPED, Flow, ItemCounts, StepStatus
from ..records.job import Job, Shown, State
from ..records.plan import On, SignalStep
from ..records.run import Failure
from ..records.step import position_of

StepState = Literal[
    "waiting", "pending", "scheduled", "retrying", "running", "paused",
    "completed", "dead", "not_run", "cancelled", "skipped",
]  # fmt: skip
"""waiting: for other steps. not_run: something that it needs has failed. running: also a map, and a flow in a step."""
STEP_STATES: Mapping[str, StepState] = {
    StepStatus.WAITING: "waiting",
    StepStatus.COMPLETED: "completed",
    StepStatus.DEAD: "dead",
    StepStatus.UPSTREAM_FAILED: "not_run",
    StepStatus.CANCELLED: "cancelled",
    **dict.fromkeys(SKIPPED, "skipped"),
}
# Statuses in which an operator skips a step, or has skipped it.
_SKIPS = frozenset({StepStatus.RELEASED, StepStatus.SKIPPED_BY_OPERATOR})
# The note of a step that was taken over.
KEPT = "it ended so in the flow that this one replays"
_OF_JOBS: Mapping[Shown, StepState] = {
    "pending": "pending",
    "scheduled": "scheduled",
    "retrying": "retrying",
    "paused": "paused",
}


class SignalView(Struct, frozen=True, kw_only=True):
    """A signal, as it is now."""

    waits: bool = False
    """All that it needs has ended, and it was not given."""
    deadline: datetime | None = None
    """When it is late, if it waits and has a timeout."""
    has_default: bool = False
    """Whether it has a value after its timeout."""
    given_at: datetime | None = None
    late: bool = False


class StepView(Struct, frozen=True, kw_only=True):
    """One step of a flow, as it is now."""

    name: str
    task: str
    """Empty if it is a signal."""
    state: StepState
    needs: tuple[str, ...] = ()
    """The names of the steps that it waits for, or waited for."""
    on: On = "success"
    optional: bool = False
    job_id: JobId | None = None
    """None before it is released, and for a map."""
    items: ItemCounts | None = None
    """The items of a map, counted."""
    skipped_because: str | None = None
    """when, absent, all-skipped, said, not-needed or operator."""
    note: str | None = None
    """Why a step has no job although it has ended, or the reason of an operator who skips it."""
    failure: Failure | None = None
    """Why its job is dead, or has to be retried."""
    attempts: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    signal: SignalView | None = None
    """None if it is no signal."""


class FlowView(Struct, frozen=True, kw_only=True):
    """A flow, as it is now."""

    id: JobId
    task: str
    state: Shown
    """Of the flow's own job: running while it plans and concludes, waiting while its steps run."""
    cancel_reason: str | None = None
    steps: tuple[StepView, ...] = ()
    began_at: datetime
    """When it was planned."""
    ended_at: datetime | None = None
    """When its last step ended."""
    deadline: datetime | None = None
    """When it is stopped, if it has a timeout and goes on."""
    replay_of: JobId | None = None
    """The flow that it replays."""

    def step(self, name: str) -> StepView:
        """Raises KeyError if it has no step of that name."""
        return next((step for step in self.steps if step.name == name), None) or _unknown(name)


def _unknown(name: str) -> StepView:
    raise KeyError(name)


class FlowItemCounts(Struct, frozen=True):
    made: int
    ended: int


class FlowCounts(Struct, frozen=True, kw_only=True):
    """How far a flow is, in steps."""

    steps: int
    done: int
    """Steps that have ended, in whatever way."""
    dead: int
    running: int
    """Steps that were released and have not ended."""
    items: FlowItemCounts | None
    """Of all maps together; null if none has begun."""


def flow_counts(row: Flow) -> FlowCounts:
    items = None
    if row.counts:
        counts = row.counts.values()
        items = FlowItemCounts(sum(one.made for one in counts), sum(one.ended for one in counts))
    waiting, running = row.statuses.count(StepStatus.WAITING), row.statuses.count(StepStatus.RELEASED)
    steps = len(row.statuses)
    return FlowCounts(
        steps=steps,
        done=steps - waiting - running,
        dead=row.statuses.count(StepStatus.DEAD),
        running=running,
        items=items,
    )


def flow_view(job: Job, graph: Graph, row: Flow, jobs: Mapping[int, Job], now: datetime) -> FlowView:
    """`jobs` are the jobs of the steps that have one, by position."""
    steps = tuple(step_views(graph, row, jobs, now))
    return FlowView(
        id=job.id,
        task=job.task,
        state=job.shown(now),
        cancel_reason=job.cancel_reason,
        steps=steps,
        began_at=row.began_at,
        ended_at=row.ended_at,
        deadline=None if row.deadline is None else row.deadline.at,
        replay_of=replayed_flow(job),
    )


def replayed_flow(job: Job) -> JobId | None:
    """The flow that this flow's job replays."""
    found = job.metadata.get(REPLAY_OF)
    return found if isinstance(found, str) else None


def step_views(graph: Graph, row: Flow, jobs: Mapping[int, Job], now: datetime) -> list[StepView]:
    """All steps. `jobs` are the jobs of those that have one, by position."""
    return [_step_view(graph, row, n, jobs, now) for n in range(len(graph.steps))]


def step_view(graph: Graph, row: Flow, n: int, job: Job | None, now: datetime) -> StepView:
    """The step of this number, with its job if it has one."""
    jobs = {} if job is None else {position_of(n, 0, row.lives.get(n, 0)): job}
    return _step_view(graph, row, n, jobs, now)


def _step_view(graph: Graph, row: Flow, n: int, jobs: Mapping[int, Job], now: datetime) -> StepView:
    step, status = graph.steps[n], row.statuses[n]
    job = None if step.over is not None else jobs.get(position_of(n, 0, row.lives.get(n, 0)))
    return StepView(
        name=step.name,
        task=step.task,
        state=step_state(status, job, now),
        needs=tuple(graph.steps[m].name for m in graph.needs[n]),
        on=step.on,
        optional=step.optional,
        job_id=None if job is None else job.id,
        items=row.counts.get(n),
        skipped_because=SKIP_REASONS.get(status),
        note=_note(graph, row, n),
        failure=None if job is None else job.failure,
        attempts=0 if job is None else job.attempt,
        started_at=None if job is None else job.started_at,
        finished_at=None if job is None else job.finished_at,
        signal=signal_view(row, step.name, step.signal),
    )


def signal_view(row: Flow, name: str, signal: SignalStep | None) -> SignalView | None:
    if signal is None:
        return None
    given, deadline = row.inbox.get(name), row.waits.get(name)
    return SignalView(
        waits=name in row.waits,
        deadline=None if deadline is None else deadline.at,
        has_default=signal.default is not None,
        given_at=None if given is None else given.at,
        late=name in row.late,
    )


def _note(graph: Graph, row: Flow, n: int) -> str | None:
    note = row.skipped.get(n) if row.statuses[n] in _SKIPS else row.notes.get(n)
    return note or (KEPT if is_kept(graph, row, n) else None)


def step_state(status: str, job: Job | None, now: datetime) -> StepState:
    """The state of a step; its job says more than "released"."""
    if status != StepStatus.RELEASED:
        return STEP_STATES[status]
    if job is None or job.state in (State.WAITING, State.RUNNING):
        return "running"
    return _OF_JOBS.get(job.shown(now), "running")
