"""Signals: values that are given to a job from outside, and waits for them that may end by a timeout."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from ..ids import JobId
from ..records.flow import FLOW_DEADLINE, AwaitedSignal, Flow, FlowDeadline, GivenSignal, Move, StepStatus
from ..records.job import MAX_PRIORITY, NewJob
from ..records.plan import Input
from ..records.step import MAX_POSITION
from .graph import Graph
from .job_template import step_job_id

SIGNAL_LATE = "no signal was given in time"
_NULL = "null"
_REVISION_SHIFT_BITS = 32


def deadline_job(id: JobId, flow: JobId, queue: str, at: datetime) -> NewJob:
    """The job that says that the deadline of a flow, or of a signal, has come."""
    return NewJob(
        id=id,
        task=FLOW_DEADLINE,
        payload=f'{{"flow":"{flow}"}}',
        queue=queue,
        priority=MAX_PRIORITY,
        run_at=at,
    )


def signal_text(graph: Graph, flow: Flow, n: int) -> str | None:
    """The value of a signal that has completed, as JSON; None if the step is no signal."""
    signal = graph.steps[n].signal
    if signal is None:
        return None
    if (given := flow.inbox.get(graph.steps[n].name)) is not None:
        return given.value
    return graph.plan.inputs[signal.default.n] if isinstance(signal.default, Input) else _NULL


class Waits:
    """The signals of one row while it changes."""

    def __init__(self, flow: Flow, now: datetime) -> None:
        self._flow, self._now = flow, now
        self.inbox = dict(flow.inbox)
        self._waits = dict(flow.waits)
        self._late = list(flow.late)
        self._jobs: dict[JobId, NewJob] = {}
        self._made = 0
        self._gone: list[JobId] = []

    @property
    def names(self) -> list[str]:
        """The signals that are waited for."""
        return list(self._waits)

    def take(self, given: Mapping[str, GivenSignal], late: Collection[JobId]) -> list[str]:
        """Takes what was given, and ends the waits whose deadlines these jobs are; returns the names of both."""
        self.inbox.update(given)
        waits = self._waits.items()
        over = [name for name, deadline in waits if deadline is not None and deadline.job_id in late]
        self._late += over
        return [*given, *over]

    def is_decided(self, name: str) -> bool:
        """Whether the signal was given, or its time is over."""
        return name in self.inbox or name in self._late

    def begin_wait(self, name: str, deadline: datetime | None) -> None:
        """Waits for a signal. One that is waited for already keeps its deadline."""
        if name in self._waits:
            return
        if deadline is None:
            self._waits[name] = None
            return
        flow, self._made = self._flow, self._made + 1
        # No other deadline of the row has this id: it differs by the revision, and within it by the number.
        id = step_job_id(flow.id, MAX_POSITION - (flow.revision << _REVISION_SHIFT_BITS | self._made), self._now)
        self._waits[name] = FlowDeadline(deadline, id)
        self._jobs[id] = deadline_job(id, flow.id, flow.queue, deadline)

    def stop(self, name: str) -> None:
        deadline = self._waits.pop(name, None)
        if deadline is not None and self._jobs.pop(deadline.job_id, None) is None:
            self._gone.append(deadline.job_id)

    def written_to(self, move: Move) -> Move:
        """The move with the signals in its row, the jobs of new deadlines, and those that are no longer needed."""
        row = replace(move.flow, inbox=self.inbox, waits=self._waits, late=tuple(self._late))
        return replace(move, flow=row, jobs=(*move.jobs, *self._jobs.values()), drop=(*move.drop, *self._gone))


class SignalSteps(Waits):
    """The signals of a flow with a plan, while its row changes: each is a step."""

    def __init__(self, graph: Graph, flow: Flow, now: datetime) -> None:
        super().__init__(flow, now)
        self._graph = graph

    def steps(self, names: Iterable[str]) -> list[int]:
        return [self._graph.signals[name] for name in names if name in self._graph.signals]

    def decide(self, n: int) -> str | None:
        """The status of a signal when all that it needs has ended; None if it waits."""
        step = self._graph.steps[n]
        assert step.signal is not None
        if step.name in self.inbox:
            return StepStatus.COMPLETED
        if self.is_decided(step.name):
            return StepStatus.DEAD if step.signal.default is None else StepStatus.COMPLETED
        seconds = step.signal.timeout
        self.begin_wait(step.name, None if seconds is None else self._now + timedelta(seconds=seconds))
        return None

    def text(self, n: int) -> str:
        """The value of a signal that has completed."""
        return signal_text(self._graph, replace(self._flow, inbox=self.inbox), n) or _NULL

    def wait_anew(self, n: int) -> None:
        """Ends the wait for a signal when a step before it runs again. It begins when that has ended."""
        self.stop(self._graph.steps[n].name)

    def ask_again(self, n: int) -> None:
        """Forgets that the signal was late."""
        if (name := self._graph.steps[n].name) in self._late:
            self._late.remove(name)

    def written_to(self, move: Move) -> Move:
        for name in self.names:
            if move.flow.statuses[self._graph.signals[name]] != StepStatus.WAITING:
                self.stop(name)
        return super().written_to(move)


# rows without a plan


def row_without_plan(id: JobId, queue: str, now: datetime) -> Flow:
    """The row of a job that has signals, and no plan."""
    return Flow(id=id, queue=queue, revision=0, statuses="", planned=False, began_at=now)


def take_signals(
    flow: Flow,
    given: Mapping[str, GivenSignal],
    late: Collection[JobId],
    awaits: Collection[AwaitedSignal],
    now: datetime,
) -> Move:
    """A row without a plan after signals were given, deadlines have come, or its job has begun to wait. The job is due
    if one of the signals that it waits for has come, or its time is over."""
    waits = Waits(flow, now)
    waits.take(given, late)
    names = {*waits.names, *(one.name for one in awaits)}
    decided = {name for name in names if waits.is_decided(name)}
    for name in sorted(decided):
        waits.stop(name)
    for one in awaits:
        if one.name not in decided:
            waits.begin_wait(one.name, one.deadline)
    return waits.written_to(Move(replace(flow, revision=flow.revision + 1), wake=bool(decided)))


def stop_waiting(flow: Flow, now: datetime) -> Move:
    """A row without a plan whose job has ended: nothing is waited for any more."""
    waits = Waits(flow, now)
    for name in waits.names:
        waits.stop(name)
    return waits.written_to(Move(replace(flow, revision=flow.revision + 1)))
