"""What a verb does to flows, noted while it writes jobs, and applied at its end by settle_flows()."""

from __future__ import annotations

from copy import deepcopy
from datetime import datetime

from ...ids import JobId
from ...records.flow import AwaitedSignal, CloseBatch, GivenSignal, StepEnd
from ...records.job import Job, State
from ...records.outcome import StepEnding
from ...records.plan import Plan
from ...records.step import MAX_INDEX, StepRef

# States of a step's job in which a retry of the flow puts it back to work.
RETRIED_STATES = frozenset({State.DEAD, State.EXPIRED, State.CANCELLED})
_END_STATES = {State.COMPLETED: "completed", State.DEAD: "dead", State.EXPIRED: "dead", State.CANCELLED: "cancelled"}


class FlowChange:
    """What a verb has done to one flow and to the jobs of its steps."""

    __slots__ = (
        "at",
        "awaits",
        "cancelled",
        "closed",
        "completed",
        "deleted",
        "ended",
        "ends",
        "given",
        "late",
        "made",
        "plan",
        "queue",
        "retried",
        "revived",
        "skipped",
        "suspended",
        "timed_out",
    )

    def __init__(self, at: datetime) -> None:
        self.at = at
        self.plan: Plan | None = None
        """The plan of a flow that begins."""
        self.queue = "default"
        self.suspended = False
        """The flow's own job waits now."""
        self.made: dict[int, int] = {}
        """New items by step."""
        self.ends: list[StepEnd] = []
        self.completed: dict[int, int] = {}
        """Items that have completed, by the position of their map."""
        self.revived: dict[int, bool] = {}
        """Positions of jobs that were put back to work, each with whether the job had been cancelled."""
        self.skipped: dict[int, str] = {}
        """Steps that an operator skips, and the reasons."""
        self.timed_out = False
        """Its deadline has come."""
        self.given: dict[str, GivenSignal] = {}
        self.late: list[JobId] = []
        """The jobs of deadlines of signals that have come."""
        self.awaits: tuple[AwaitedSignal, ...] = ()
        """The signals that its own job, without a plan, waits for now."""
        self.ended = False
        """Its own job, without a plan, has ended while it waited."""
        self.closed: CloseBatch | None = None
        """It is a batch, and is closed."""
        self.cancelled = self.retried = self.deleted = False
        """An operator has cancelled, retried or deleted the flow's own job."""


class FlowChanges:
    """The changes of a verb, by flow."""

    def __init__(self) -> None:
        self.noted: dict[JobId, FlowChange] = {}
        self._saved: dict[JobId, FlowChange] = {}
        self.due: list[JobId] | None = None
        """The jobs of steps and flows that have become due, if the verb may start them."""

    def of(self, id: JobId, at: datetime) -> FlowChange:
        """The change of this flow, to which the caller adds."""
        if (change := self.noted.get(id)) is None:
            change = self.noted[id] = FlowChange(at)
        change.at = max(change.at, at)
        return change

    def watch_due(self) -> None:
        """Notes from now on which jobs become due."""
        self.due = []

    def note_due(self, id: JobId) -> None:
        if self.due is not None:
            self.due.append(id)

    def take_due(self) -> list[JobId]:
        """The jobs that have become due; none is noted any longer."""
        due, self.due = self.due or [], None
        return due

    def take(self) -> dict[JobId, FlowChange]:
        """All changes so far; they are noted no longer."""
        taken, self.noted = self.noted, {}
        return taken

    def savepoint(self) -> None:
        """Remembers the changes so far, for roll_back()."""
        self._saved = deepcopy(self.noted)

    def roll_back(self) -> None:
        self.noted = self._saved

    def note_suspension(
        self, id: JobId, at: datetime, plan: Plan | None, queue: str, awaits: tuple[AwaitedSignal, ...] = ()
    ) -> None:
        """The flow's own job waits for its steps now: those of the plan, or of the one that is stored; or, without a
        plan, for signals."""
        change = self.of(id, at)
        change.suspended, change.plan, change.queue, change.awaits = True, plan, queue, awaits

    def note_signal(self, id: JobId, at: datetime, queue: str, name: str, given: GivenSignal) -> None:
        change = self.of(id, at)
        change.queue, change.given[name] = queue, given

    # jobs of steps

    def note_end(self, ref: StepRef, job: Job, ending: StepEnding | None = None) -> None:
        """The job of a step has become final."""
        self.note_end_of(ref, job.state, job.finished_at or job.run_at, job.result, ending)

    def note_end_of(
        self, ref: StepRef, state: State, at: datetime, result: str | None = None, ending: StepEnding | None = None
    ) -> None:
        change = self.of(ref.flow, at)
        if state is State.COMPLETED and ending is None and (index := ref.position & MAX_INDEX):
            position = ref.position - index
            change.completed[position] = change.completed.get(position, 0) + 1
            return
        end = StepEnd(
            position=ref.position,
            state=_END_STATES[state],  # type: ignore[arg-type]
            result=result,
            skipped=ending == "skipped",
            finish=ending == "finish",
        )
        change.ends.append(end)

    def note_revival(self, ref: StepRef, state: State, at: datetime) -> None:
        """A job of a step, which was final in this state, was put back to work."""
        self.of(ref.flow, at).revived[ref.position] = state is State.CANCELLED

    def note_made_item(self, ref: StepRef, at: datetime, count: int = 1) -> None:
        made = self.of(ref.flow, at).made
        made[ref.number] = made.get(ref.number, 0) + count
