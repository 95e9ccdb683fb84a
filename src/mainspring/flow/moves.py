"""What becomes of a flow when something happens to it: its steps end, it is cancelled, or steps are put back to work.

Pure: a store locks the flow's row, calls one of these, and writes the move in the same transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from ..ids import JobId
from ..records.flow import OPEN, Flow, FlowDeadline, GivenSignal, ItemCounts, Move, StepEnd, StepStatus
from ..records.step import MAX_LIVES, MAX_POSITION
from .batch_items import NEVER_CLOSED, close_batch, has_told, reopen_batch
from .graph import Graph, behind
from .job_template import step_job_id
from .kept_steps import with_kept_steps
from .row_edit import RowEdit
from .signals import deadline_job
from .yielding import stop_making_items

_NO_ITEMS: Mapping[int, int] = {}


def start(graph: Graph, id: JobId, queue: str, now: datetime, before: Flow | None = None) -> Move:
    """A new flow: the steps that need nothing are released. One that takes steps over from another flow begins behind
    these. `before` is its row without a plan, if signals were given already."""
    statuses = StepStatus.WAITING * len(graph.steps)
    flow = Flow(id=id, queue=queue, revision=0, statuses=statuses, began_at=now)
    if before is not None:
        flow = replace(flow, queue=before.queue, revision=before.revision, inbox=before.inbox)
        if graph.plan.grows:
            flow = replace(flow, waits=before.waits, late=before.late)
    if not graph.plan.kept:
        edit = RowEdit(graph, flow, now)
        edit.look_at(n for n, needs in enumerate(graph.needs) if not needs)
        return _with_deadline(graph, edit.move(), now)
    edit = RowEdit(graph, with_kept_steps(graph, flow), now)
    for n, kept in graph.plan.kept.items():
        if kept.value is not None and graph.steps[n].signal is None:
            edit.keep_value(n, kept.value)
    edit.look_at(range(len(graph.steps)))
    return _with_deadline(graph, edit.move(), now)


def grow(graph: Graph, flow: Flow, now: datetime) -> Move:
    """The flow after steps were added to its plan, which need nothing: they are released. It is over again if there
    are none, and all before them have ended."""
    first = len(flow.statuses)
    statuses = flow.statuses + StepStatus.WAITING * (len(graph.steps) - first)
    if flow.state == "over":
        flow = replace(flow, state="open", cancelled=False, ended_at=None)
    edit = RowEdit(graph, replace(flow, statuses=statuses), now)
    edit.look_at(range(first, len(statuses)))
    return edit.move()


def end_steps(
    graph: Graph, flow: Flow, ends: Iterable[StepEnd], now: datetime, completed: Mapping[int, int] = _NO_ITEMS
) -> Move:
    """The flow after jobs of its steps have become final, in order, and then this many items of the maps at these
    positions have completed."""
    edit = RowEdit(graph, flow, now)
    for end in ends:
        edit.end(end)
        edit.decide_all()
    for position, count in completed.items():
        edit.complete_items(position, count)
        edit.decide_all()
    return edit.move()


def add_items(
    graph: Graph, flow: Flow, step: int, first: int, items: Iterable[str], now: datetime, *, last: bool
) -> Move:
    """The flow after a page of a map's items, from index `first` on. A repeated page changes nothing."""
    edit = RowEdit(graph, flow, now)
    edit.add_items(step, first, items, last=last)
    return edit.move()


def count_made(graph: Graph, flow: Flow, made: Mapping[int, int], now: datetime) -> Move:
    """The flow after jobs were stored as items of maps, counted by step."""
    edit = RowEdit(graph, flow, now)
    for n, count in made.items():
        counts = edit.counts.get(n, ItemCounts(closed=False))
        edit.counts[n] = replace(counts, made=counts.made + count)
    return edit.move()


def cancel(graph: Graph, flow: Flow, now: datetime) -> Move:
    """The flow after a cancel: only steps with on="end" still run. A second cancel ends those, too."""
    edit = RowEdit(graph, flow, now)
    if flow.state != "over":
        edit.stop("aborting" if flow.state in ("cancelling", "aborting") else "cancelling")
    return edit.move()


def time_out(graph: Graph, flow: Flow, now: datetime) -> Move:
    """The flow after its deadline: stopped as by a cancel, unless it is being stopped already."""
    if flow.state not in ("open", "failing"):
        return RowEdit(graph, flow, now).move()
    edit = RowEdit(graph, replace(flow, timed_out=True), now)
    edit.stop("cancelling")
    return edit.move()


def take_signals(
    graph: Graph, flow: Flow, given: Mapping[str, GivenSignal], late: Collection[JobId], now: datetime
) -> Move:
    """The flow after signals were given, and after the jobs `late` have said that signals are late."""
    edit = RowEdit(graph, flow, now)
    if edit.signals is not None:
        edit.look_at(edit.signals.steps(edit.signals.take(given, late)))
    return edit.move()


def close(graph: Graph, flow: Flow, now: datetime, *, abandoned: bool) -> Move:
    """The flow of a batch after it was closed: by its maker, or because that has gone, which leaves it dead."""
    edit = RowEdit(graph, flow, now)
    for n in graph.open_steps if flow.state != "over" else ():
        close_batch(edit, graph, n, NEVER_CLOSED if abandoned else None)
    return edit.move()


def _with_deadline(graph: Graph, move: Move, now: datetime) -> Move:
    """The move of a flow that begins, perhaps again: if it has a timeout, with a deadline and the job for it."""
    flow, seconds = move.flow, graph.plan.timeout
    if seconds is None or flow.state == "over" or flow.deadline is not None:
        return move
    id, at = step_job_id(flow.id, MAX_POSITION - flow.revision, now), now + timedelta(seconds=seconds)
    job = deadline_job(id, flow.id, flow.queue, at)
    return replace(move, flow=replace(flow, deadline=FlowDeadline(at, id)), jobs=(*move.jobs, job))


def may_skip(flow: Flow, step: int) -> bool:
    """Whether an operator may skip the step: it waits, was released, or is dead or cancelled."""
    return flow.state in ("open", "over") and flow.statuses[step] in _SKIPPABLE


def skip(graph: Graph, flow: Flow, step: int, reason: str, now: datetime) -> Move:
    """The flow after an operator has skipped a step. What a dead or cancelled one kept from running is decided again,
    with all behind it; one that was released counts as skipped as soon as its jobs, which are cancelled, have ended."""
    if flow.statuses[step] == StepStatus.RELEASED:
        edit = RowEdit(graph, flow, now)
        edit.skipped[step] = reason
        if step in graph.sources or step in graph.open_steps:
            stop_making_items(edit, step)
        return replace(edit.move(), cancel=(step,))
    kept = [n for n in graph.dependents[step] if flow.statuses[n] in _KEPT_FROM_RUNNING]
    edit = _reopened(graph, flow, [step], {*kept, *behind(graph, kept)}, now)
    edit.skipped[step] = reason
    edit.set_status(step, StepStatus.SKIPPED_BY_OPERATOR)
    return _with_deadline(graph, edit.move(), now)


def revive(
    graph: Graph,
    flow: Flow,
    jobs: Collection[int],
    items: Iterable[tuple[int, bool]],
    steps: Iterable[int],
    now: datetime,
) -> Move:
    """The flow after steps were put back to work.

    `jobs` are steps whose job is pending again. `items` are single items that are: the step, and whether the item had
    been cancelled. `steps` are steps without a job that are decided again. Everything behind them is decided again.
    """
    steps, items = set(steps), list(items)
    revived = {*jobs, *(n for n, _ in items), *steps}
    continued = _continued(graph, flow, jobs, revived)
    batches = steps.intersection(graph.open_steps)
    steps -= continued | batches
    edit = _reopened(graph, flow, revived | continued, behind(graph, revived | continued), now)
    for n in (revived | continued) - steps:
        edit.skipped.pop(n, None)
    for n, was_cancelled in items:
        counts = edit.counts[n]
        edit.counts[n] = replace(
            counts,
            ended=counts.ended - 1,
            dead=counts.dead - (not was_cancelled),
            cancelled=counts.cancelled - was_cancelled,
        )
        edit.statuses[n] = StepStatus.RELEASED
    for n in jobs:
        edit.statuses[n] = StepStatus.RELEASED
        if n in edit.counts:  # the job that makes the items of a map
            edit.counts[n] = replace(edit.counts[n], closed=False)
            edit.notes.pop(n, None)
    for n in continued:
        edit.statuses[n] = StepStatus.RELEASED
        edit.counts[n] = replace(edit.counts[n], closed=False)
        edit.notes.pop(n, None)
    for n in steps:
        _reset(edit, n)
        if edit.signals is not None:
            edit.signals.ask_again(n)
    for n in batches:
        reopen_batch(edit, n)
    edit.look_at(steps)
    return _with_deadline(graph, edit.move(), now)


def _reopened(graph: Graph, flow: Flow, steps: Collection[int], later: Collection[int], now: datetime) -> RowEdit:
    """The flow, open, with what is behind these steps waiting. A step that runs now goes on, and so does one of these
    that is behind another."""
    begins_again = flow.state == "over" or flow.timed_out
    deadline = None if begins_again else flow.deadline
    flow = replace(flow, state="open", cancelled=False, timed_out=False, deadline=deadline, ended_at=None)
    edit = RowEdit(graph, flow, now)
    edit.dead = [n for n in edit.dead if n not in steps]
    for n in sorted(later):
        if edit.statuses[n] != StepStatus.RELEASED and n not in steps and not has_told(graph, flow, n):
            _reset(edit, n)
            if edit.signals is not None:
                edit.signals.wait_anew(n)
    edit.look_at(later)
    return edit


# Statuses of a step that may have had a job. Its next one belongs to another life.
_HAD_JOB = frozenset(
    {
        StepStatus.COMPLETED,
        StepStatus.DEAD,
        StepStatus.CANCELLED,
        StepStatus.SKIPPED_BY_TASK,
    }
)
# Statuses of a step that did not run because of one before it.
_KEPT_FROM_RUNNING = (StepStatus.UPSTREAM_FAILED, StepStatus.CANCELLED)
_SKIPPABLE = frozenset({StepStatus.WAITING, StepStatus.RELEASED, StepStatus.DEAD, StepStatus.CANCELLED})


def _reset(edit: RowEdit, n: int) -> None:
    """Lets the step wait again. One that an operator has skipped stays so."""
    if edit.statuses[n] in (StepStatus.WAITING, StepStatus.SKIPPED_BY_OPERATOR):
        return
    # A map over no value has counts, if a job found that out.
    if edit.statuses[n] in _HAD_JOB or n in edit.counts:
        edit.lives[n] = edit.lives.get(n, 0) + 1
    edit.statuses[n] = StepStatus.WAITING
    edit.values.pop(n, None)
    edit.counts.pop(n, None)
    edit.notes.pop(n, None)
    edit.dead = [other for other in edit.dead if other != n]


def _continued(graph: Graph, flow: Flow, jobs: Collection[int], steps: Collection[int]) -> set[int]:
    """The maps that go on with the items that they have, since the step that yields these is put back to work."""
    yielders = (graph.yielders[n] for n in jobs if n in graph.yielders)
    found = {n for yielder in yielders for n in yielder.maps if n in flow.counts}
    return found - behind(graph, {*steps, *found}, found) if found else found


def is_exhausted(flow: Flow) -> bool:
    """Whether a step of the flow was put back to work as often as it can be."""
    return any(life >= MAX_LIVES for life in flow.lives.values())


def is_settled(flow: Flow) -> bool:
    """Whether nothing of the flow waits or runs."""
    return OPEN.isdisjoint(flow.statuses) and all(counts.done for counts in flow.counts.values())
