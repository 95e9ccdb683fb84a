"""The flow log: what happens to the jobs of flows, and whether each flow does as its ideal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from msgspec import Struct, field, json

from flow_ideal import Ending, EndState, Ideal
from mainspring.ids import JobId
from mainspring.records.flow import FAN_OUT, Flow, ItemCounts
from mainspring.records.job import Job, State
from mainspring.records.plan import Plan
from mainspring.records.step import StepRef

_ENDED: Mapping[State, EndState] = {
    State.COMPLETED: "completed", State.DEAD: "dead", State.EXPIRED: "dead", State.CANCELLED: "cancelled",
}  # fmt: skip
Fail = Callable[[str, JobId | None, str], None]
Note = Callable[[str, JobId, str], None]


class Event(NamedTuple):
    """What one write of a job means for a flow."""

    flow: JobId
    what: str
    """begun, made, ended, revived, cancelled, retried, given or late."""
    ref: StepRef | None = None
    job: Job | None = None
    ending: Ending | None = None
    plan: Plan | None = None
    signal: tuple[str, Any] = ("", None)
    """The name of a signal, and its value."""

    def __str__(self) -> str:
        if self.signal[0]:
            return f"signal {self.signal[0]}: {self.what}"
        of = "" if self.ref is None else f" step {self.ref.number}, index {self.ref.index}, life {self.ref.life}"
        return f"{self.what}{of}" + ("" if self.ending is None else f": {self.ending.state}")


class WatchedFlow(Struct):
    """A flow, its ideal, and the jobs that were made for it."""

    id: JobId
    ideal: Ideal
    made: dict[int, Job] = field(default_factory=dict)
    """By position, as they were made."""
    broken: bool = False
    """It has broken a rule: what follows from that is not reported."""


class FlowLog:
    """Collects the events of a verb, and checks the flows when the verb has ended."""

    def __init__(self, fail: Fail, note: Note) -> None:
        self._fail, self._note = fail, note
        self.flows: dict[JobId, WatchedFlow] = {}
        self.rows: dict[JobId, Flow] = {}
        self.own: dict[JobId, Job] = {}
        """The jobs of flows, as they are now."""
        self.late_cancels: set[JobId] = set()
        """Flows whose own job was cancelled after their steps had ended."""
        self._unfinished: dict[JobId, set[int]] = {}
        self._by_job: dict[JobId, set[tuple[int, int]]] = {}
        self._early: dict[JobId, dict[str, Any]] = {}
        """Signals that were given before the flow had a plan."""
        self._events: list[Event] = []
        self._changed: set[JobId] = set()

    # writes

    def begun(self, id: JobId, plan: Plan) -> None:
        self._events.append(Event(id, "begun", plan=plan))

    def row_written(self, row: Flow) -> None:
        before = self.rows.get(row.id)
        for name in row.inbox.keys() - (set() if before is None else before.inbox.keys()):
            self._events.append(Event(row.id, "given", signal=(name, json.decode(row.inbox[name].value))))
        for name in sorted(set(row.late).difference(() if before is None else before.late)):
            self._events.append(Event(row.id, "late", signal=(name, None)))
        self.rows[row.id] = row
        self._changed.add(row.id)

    def job_written(self, old: Job | None, job: Job, step_end: str | None) -> None:
        """`step_end` is that of the outcome, if it is one that ends the job."""
        if job.id in self.own or job.state is State.WAITING:
            self._own_written(old, job)
        if (ref := job.step) is None:
            return
        if old is None and not job.state.final:
            self._events.append(Event(ref.flow, "made", ref, job))
            if job.task == FAN_OUT:
                self._by_job.setdefault(ref.flow, set()).add((ref.life, ref.number))
        elif old is not None and old.state.final != job.state.final:
            what = "ended" if job.state.final else "revived"
            self._events.append(Event(ref.flow, what, ref, job, _ending(job, step_end) if job.state.final else None))

    def _own_written(self, old: Job | None, job: Job) -> None:
        self.own[job.id] = job
        self._changed.add(job.id)
        if job.id not in self.flows or old is None:
            return
        stops = old.state in (State.WAITING, State.RUNNING) and job.cancel_reason is not None
        if stops and job.state is State.WAITING:
            self._events.append(Event(job.id, "cancelled"))
        elif old.state in (State.PENDING, State.RUNNING) and job.state is State.CANCELLED:
            self.late_cancels.add(job.id)
        elif old.state.final and job.state is State.WAITING:
            self.late_cancels.discard(job.id)
            if not any(event.flow == job.id and event.what == "revived" for event in self._events):
                self._events.append(Event(job.id, "retried"))

    # checks

    def verb_ended(self) -> None:
        """Applies the events of the verb to the ideals, and compares them with the rows."""
        events, self._events = self._events, []
        changed, self._changed = self._changed, set()
        for event in events:
            if event.plan is not None:
                ideal = Ideal(event.plan, self._by_job.setdefault(event.flow, set()))
                self.flows[event.flow] = WatchedFlow(event.flow, ideal)
                for name, given in self._early.pop(event.flow, {}).items():
                    ideal.give(name, given)
        revived = set[JobId]()
        for event in events:
            flow = self.flows.get(event.flow)
            if flow is None and event.what == "given":
                self._early.setdefault(event.flow, {}).update((event.signal,))
            if flow is None or flow.broken:
                continue
            changed.add(event.flow)
            self._note("flow", event.flow, str(event))
            if event.what not in ("revived", "retried"):
                self._apply(flow, event)
            elif event.flow not in revived:
                revived.add(event.flow)
                self._revive(flow, [one for one in events if one.flow == event.flow])
        for id in sorted(changed & self.flows.keys()):
            self._note("flow", id, f"is {self.rows[id].statuses}, {self.rows[id].state}")
            if not self.flows[id].broken:
                self._check(self.flows[id])

    def _apply(self, flow: WatchedFlow, event: Event) -> None:
        if event.what == "cancelled":
            flow.ideal.cancel()
            return
        if event.what == "given":
            flow.ideal.give(*event.signal)
        elif event.what == "late":
            flow.ideal.time_out(event.signal[0])
        if event.ref is None or event.job is None:
            return
        ref, unfinished = event.ref, self._unfinished.setdefault(flow.id, set())
        n, is_current = ref.number, ref.life == flow.ideal.lives[ref.number]
        if event.what == "made":
            if ref.position in flow.made:
                self._break("L2", flow, f"step {n} has two jobs at index {ref.index} of life {ref.life}")
            flow.made[ref.position] = event.job
            unfinished.add(ref.position)
            step = flow.ideal.steps.get(n)
            if step is not None and is_current:
                if step.made is not None and ref.index:
                    flow.ideal.make_item(n)
                self._check_payload(flow, ref, event.job)
        elif event.ending is not None:
            unfinished.discard(ref.position)
            step = flow.ideal.steps.get(n) if is_current else None
            if step is not None and ref.index not in step.endings:
                flow.ideal.end(n, ref.index, event.ending)

    def _revive(self, flow: WatchedFlow, events: list[Event]) -> None:
        ideal = flow.ideal
        if (own := self.own.get(flow.id)) is not None and own.state is State.COMPLETED:
            return
        refs = [event.ref for event in events if event.what == "revived" and event.ref is not None]
        self._unfinished.setdefault(flow.id, set()).update(ref.position for ref in refs)
        jobs = [(ref.number, ref.index) for ref in refs if ref.life == ideal.lives[ref.number]]
        steps = list[int]()
        if any(event.what == "retried" for event in events):
            with_job = {n for n, _ in jobs}
            steps = [n for n, status in enumerate(ideal.statuses) if status in "dx" and n not in with_job]
        if jobs or steps:
            ideal.revive(jobs, steps)

    def _check(self, flow: WatchedFlow) -> None:
        ideal, row, by_job = flow.ideal, self.rows[flow.id], self._by_job[flow.id]
        refs = [StepRef(flow.id, position, "") for position in flow.made]
        made = {(ref.life, ref.number, ref.index) for ref in refs if ref.life == ideal.lives[ref.number]}
        made -= {place for place in made if place[:2] in by_job and place[2]}
        is_now, has_to_be = f"{row.statuses}, {row.state}", f"{_text(ideal)}, {ideal.state}"
        own = self.own.get(flow.id)
        if extra := sorted(made - ideal.jobs):
            rule = "L1" if ideal.state in ("open", "failing") else "L7"
            self._break(rule, flow, f"released {extra} too early or for nothing: {is_now}, and not {has_to_be}")
        elif missing := sorted(ideal.jobs - made):
            self._break("L3", flow, f"has not released {missing}: {is_now}, and not {has_to_be}")
        elif row.statuses != _text(ideal) or (row.state == "over") is not ideal.over:
            goes_on = ideal.cancelled and any(
                has == "x" != one for has, one in zip(ideal.statuses, row.statuses, strict=True)
            )
            self._break("L7" if goes_on else "L3", flow, f"is {is_now}, and not {has_to_be}")
        elif wrong := [n for n, counts in ideal.counts.items() if counts != _counts(row, n)]:
            self._break("L3", flow, f"has {row.counts[wrong[0]]} of step {wrong[0]}, and not {ideal.counts[wrong[0]]}")
        elif row.waits.keys() != ideal.asked:
            self._break("L4", flow, f"waits for the signals {sorted(row.waits)}, and not for {sorted(ideal.asked)}")
        elif own is not None and own.state is State.WAITING and not self._unfinished.get(flow.id) and not ideal.asked:
            self._break("L4", flow, f"waits for nothing: {is_now}")

    def _check_payload(self, flow: WatchedFlow, ref: StepRef, job: Job) -> None:
        if job.task == FAN_OUT or job.refs:
            return
        have, want = json.decode(job.payload), flow.ideal.arguments(ref.number, ref.index)
        if have != want:
            self._break("L2", flow, f"passes {have} to step {ref.number}, index {ref.index}, and not {want}")

    def started(self, job: Job, arguments: Mapping[str, Any]) -> None:
        """A run has got these arguments, with the values of other steps."""
        flow = None if job.step is None else self.flows.get(job.step.flow)
        if flow is None or flow.broken or job.step is None or job.step.life != flow.ideal.lives[job.step.number]:
            return
        n, index, refs = job.step.number, job.step.index, flow.made[job.step.position].refs
        for wanted in (flow.ideal.arguments(n, index), flow.ideal.arguments(n, index, as_of_now=bool(refs))):
            if all(arguments[name] == value for name, value in wanted.items()):
                return
        self._break("L2", flow, f"passed {arguments} to step {n}, index {index}, and not {wanted}")

    def check_end(self, jobs: Mapping[JobId, Job]) -> None:
        """The audit at the end, when every job has ended."""
        for flow in self.flows.values():
            own, ideal = jobs.get(flow.id), flow.ideal
            if flow.broken or own is None:
                continue
            if not own.state.final or not ideal.over:
                rule = "L7" if ideal.cancelled else "L5"
                self._break(rule, flow, f"has not ended: {own.state}, {_text(ideal)}")
                continue
            state, value = ideal.verdict()
            crashed = own.failure is not None and own.failure.type == "PoisonPill"
            if (own.state is State.CANCELLED and flow.id in self.late_cancels) or crashed:
                continue
            if own.state != state or (state == "completed" and json.decode(own.result or "null") != value):
                self._break("L3", flow, f"ended as {own.state} with {own.result}, and not as {state} with {value}")

    def _break(self, rule: str, flow: WatchedFlow, what: str) -> None:
        flow.broken = True
        self._fail(rule, flow.id, what)


def _text(ideal: Ideal) -> str:
    return "".join(ideal.statuses)


def _counts(row: Flow, n: int) -> tuple[int, int, int]:
    counts = row.counts.get(n, ItemCounts())
    return counts.made, counts.ended, counts.dead


def _ending(job: Job, step_end: str | None) -> Ending:
    return Ending(_ENDED[job.state], json.decode(job.result or "null"), step_end == "skipped", step_end == "finish")
