"""The rules of flows: what happens to the jobs of steps changes their flow in the same transaction.

A rule notes what it does to jobs (FlowChange), and settle_flows() applies that at the end of the verb. It yields the
names of what it has to read next, so that a store reads them in any way it likes. All flows of a batch are settled side
by side: what they read next is read at once, and a job that was read before a `yield` may have changed after it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from ...flow import moves
from ...flow.batch_items import closing_job_id
from ...flow.graph import Graph
from ...flow.growth import with_steps
from ...flow.job_template import step_job_id
from ...flow.signals import row_without_plan, stop_waiting, take_signals
from ...flow.yielding import takes_items
from ...ids import JobId
from ...records.flow import CANCEL_STEPS, FLOW_STOPPED, MAX_CANCELLED_JOBS, Flow, FlowDeadline, Move, StepStatus
from ...records.job import MAX_PRIORITY, Action, Job, NewJob, State
from ...records.query import Updates
from ...records.step import StepRef, position_of
from .actions import apply_action
from .conflict import to_job
from .flow_changes import RETRIED_STATES, FlowChange
from .job_ends import delete_job, write_job
from .read_sets import Name, may_have_steps
from .tables import Tables

_FLOW_DELETED = "its flow was deleted"


def settle_flows(tables: Tables) -> Iterator[list[Name]]:
    """Applies the changes that were noted. Yields names that have to be read before it goes on."""
    while changes := tables.flow_changes.take():
        yield from _read(tables, [Name("flow", id) for id in changes])
        yield from _together([_settle(tables, id, change) for id, change in changes.items()])


def _together(parts: Sequence[Iterator[list[Name]]]) -> Iterator[list[Name]]:
    """Runs these side by side, and yields together what they read next."""
    while parts:
        read = [(part, names) for part in parts if (names := next(part, None)) is not None]
        if read:
            yield list(dict.fromkeys(name for _, names in read for name in names))
        parts = [part for part, _ in read]


def _read(tables: Tables, names: Sequence[Name]) -> Iterator[list[Name]]:
    if missing := [name for name in names if not tables.is_read(name)]:
        yield missing


def _settle(tables: Tables, id: JobId, change: FlowChange) -> Iterator[list[Name]]:
    before = tables.flow(id)
    steps = tables.graph(id).open_steps if before is not None and before.counts else ()
    yield from _settle_flow(tables, id, change)
    for n in steps:
        if before is not None and not before.counts[n].closed:
            yield from _end_closing(tables, before, n)


def _end_closing(tables: Tables, before: Flow, n: int) -> Iterator[list[Name]]:
    """Deletes the job that would close a batch which is closed now, or gone. One that runs finds nothing to do."""
    flow, counts = tables.flow(before.id), before.counts[n]
    if (flow is None or flow.counts[n].closed) and counts.released_at is not None:
        yield from _drop_jobs(tables, [closing_job_id(before.id, counts.released_at)])


def _settle_flow(tables: Tables, id: JobId, change: FlowChange) -> Iterator[list[Name]]:
    if change.deleted:
        yield from _delete(tables, id, change.at)
        return
    flow = tables.flow(id)
    if change.plan is not None and (flow is None or not flow.planned):
        tables.add_plan(id, change.plan)
        move = moves.start(tables.graph(id), id, change.queue, change.at, flow)
        yield from _apply(tables, move, change.at)
        flow = move.flow
    elif flow is not None and change.plan is not None and change.plan.grows and tables.graph(id).plan.grows:
        tables.add_plan(id, with_steps(tables.graph(id).plan, change.plan))
        move = moves.grow(tables.graph(id), flow, change.at)
        yield from _apply(tables, move, change.at)
        flow = move.flow
    if flow is None or not flow.planned:
        yield from _settle_without_plan(tables, id, flow, change)
        return
    graph = tables.graph(id)
    revived = _current_refs(flow, change.revived) if change.revived else []
    if revived and (yield from _has_completed(tables, id)):
        revived = []  # its job runs again by itself
    for move in _moves(graph, flow, change, revived):
        _put(tables, move, change.at)
        if move.cancel or move.wake or move.drop:
            yield from _follow(tables, move, change.at)
        flow = move.flow
    if change.retried:
        yield from _retry(tables, graph, flow, change.at)
    elif revived:
        yield from _reopen(tables, id, change.at)
    if change.timed_out and flow.state != "over":
        yield from _apply(tables, moves.time_out(graph, flow, change.at), change.at)
    if change.closed is not None:
        abandoned = change.closed.abandoned_at is not None
        yield from _apply(tables, moves.close(graph, flow, change.at, abandoned=abandoned), change.at)
    for step, reason in change.skipped.items():
        yield from _skip(tables, graph, id, step, reason, change.at)
    if change.ended or (change.cancelled and graph.plan.grows):
        yield from _apply(tables, stop_waiting(flow, change.at), change.at)
    if change.suspended and flow.state == "over" and not (change.awaits and graph.plan.grows):
        yield from _wake(tables, id, change.at)


def _settle_without_plan(tables: Tables, id: JobId, flow: Flow | None, change: FlowChange) -> Iterator[list[Name]]:
    """Changes the signals of a job that has no plan. One that waits for nothing is due."""
    if flow is None and (change.given or change.awaits):
        flow = row_without_plan(id, change.queue, change.at)
    if flow is not None and change.ended:
        yield from _apply(tables, stop_waiting(flow, change.at), change.at)
    elif flow is not None and (change.given or change.late or change.awaits):
        yield from _apply(tables, take_signals(flow, change.given, change.late, change.awaits, change.at), change.at)
    if change.suspended and not change.awaits:
        yield from _wake(tables, id, change.at)


def _current_refs(flow: Flow, positions: Iterable[int]) -> list[StepRef]:
    """Those of the positions that belong to the present life of their step. An earlier job that goes on, because a step
    of its own flow was retried, no longer counts."""
    refs = [StepRef(flow.id, position, flow.queue) for position in positions]
    return [ref for ref in refs if ref.life == flow.lives.get(ref.number, 0)]


def _has_completed(tables: Tables, id: JobId) -> Generator[list[Name], None, bool]:
    """Whether the flow's own job has completed. What has completed stays so."""
    yield from _read(tables, [Name("job", id)])
    job = tables.job(id)
    return job is not None and job.state is State.COMPLETED


def _moves(graph: Graph, flow: Flow, change: FlowChange, revived: Sequence[StepRef]) -> Iterator[Move]:
    """What the changes make of the flow, in order. The next one is made of the one before."""
    if change.made:
        move = moves.count_made(graph, flow, change.made, change.at)
        flow = move.flow
        yield move
    if change.ends or change.completed:
        move = moves.end_steps(graph, flow, change.ends, change.at, change.completed)
        flow = move.flow
        yield move
    if revived:
        single = [ref.number for ref in revived if not ref.index]
        items = [(ref.number, change.revived[ref.position]) for ref in revived if ref.index]
        move = moves.revive(graph, flow, single, items, [], change.at)
        flow = move.flow
        yield move
    if graph.plan.grows and (change.given or change.late or change.awaits):
        move = take_signals(flow, change.given, change.late, change.awaits, change.at)
        flow = move.flow
        yield move
    elif change.given or change.late:
        move = moves.take_signals(graph, flow, change.given, change.late, change.at)
        flow = move.flow
        yield move
    if change.cancelled and flow.state != "over":
        yield moves.cancel(graph, flow, change.at)


def _apply(tables: Tables, move: Move, at: datetime) -> Iterator[list[Name]]:
    _put(tables, move, at)
    yield from _follow(tables, move, at)


def _put(tables: Tables, move: Move, at: datetime) -> None:
    tables.put_flow(move.flow)
    for new in move.jobs:
        tables.put_job(to_job(new, at))
        if new.plan is not None:
            tables.flow_changes.of(new.id, at).plan = new.plan
        else:
            tables.flow_changes.note_due(new.id)


def _follow(tables: Tables, move: Move, at: datetime) -> Iterator[list[Name]]:
    """Cancels what the move stops, deletes the jobs of deadlines, and wakes the flow's own job."""
    if move.cancel:
        yield from _cancel_steps(tables, move.flow, move.cancel, at)
    if move.drop:
        yield from _drop_jobs(tables, move.drop)
    if move.wake:
        yield from _wake(tables, move.flow.id, at)
        if move.flow.deadline is not None:
            yield from _end_deadline(tables, move.flow, move.flow.deadline)


def _end_deadline(tables: Tables, flow: Flow, deadline: FlowDeadline) -> Iterator[list[Name]]:
    """Takes the deadline from a flow that is over or gone, with its job. One that runs finds nothing to do."""
    if tables.flow(flow.id) is not None:
        tables.put_flow(replace(flow, deadline=None))
    yield from _drop_jobs(tables, [deadline.job_id])


def _drop_jobs(tables: Tables, ids: Sequence[JobId]) -> Iterator[list[Name]]:
    """Deletes the jobs of deadlines. One that runs finds nothing to do."""
    yield from _read(tables, [Name("job", id) for id in ids])
    for id in ids:
        job = tables.job(id)
        if job is not None and not job.state.final and job.state is not State.RUNNING:
            tables.drop_job(job)


def _cancel_steps(tables: Tables, flow: Flow, steps: Sequence[int], at: datetime) -> Iterator[list[Name]]:
    names = [f"{flow.id} {position_of(n, 0, flow.lives.get(n, 0))}" for n in steps]
    yield from _read(tables, [Name("unfinished_steps", name) for name in names])
    found = [job for name in names for job in tables.step_jobs(Name("unfinished_steps", name))]
    yield from _read_flows_of(tables, found)
    found = [job for name in names for job in tables.step_jobs(Name("unfinished_steps", name))]
    for job in found[:MAX_CANCELLED_JOBS]:
        cancel_job(tables, job, at, FLOW_STOPPED)
    if len(found) > MAX_CANCELLED_JOBS:
        _add_cancel_job(tables, flow, steps, at)


def _add_cancel_job(tables: Tables, flow: Flow, steps: Sequence[int], at: datetime) -> None:
    """Stores the job that cancels the steps' other jobs, or deletes them if the flow is gone. Without its priority it
    would run after them."""
    id = step_job_id(flow.id, -flow.revision, at)
    payload = msgspec.json.encode({"flow": flow.id, "steps": list(steps)}).decode()
    new = NewJob(id=id, task=CANCEL_STEPS, payload=payload, queue=flow.queue, priority=MAX_PRIORITY)
    tables.put_job(to_job(new, at))


def _read_flows_of(tables: Tables, jobs: Sequence[Job]) -> Iterator[list[Name]]:
    """Reads the flows that cancel_job() reads."""
    yield from _read(tables, [Name("flow", job.id) for job in jobs if may_have_steps(job)])


def cancel_job(tables: Tables, job: Job, at: datetime, reason: str) -> None:
    """Cancels a job that is not final. One that has a flow waits until its steps have stopped."""
    if waits_for_steps(tables, job):
        tables.put_job(stop_flow(tables, job, at, reason))
    elif not job.state.final:
        note_end_of_wait(tables, job, at)
        write_job(tables, job, apply_action(Action.CANCEL, job, at, reason))


def has_plan(tables: Tables, id: JobId) -> bool:
    """Whether the job has a flow with steps, and not only signals."""
    flow = tables.flow(id)
    return flow is not None and flow.planned


def waits_for_steps(tables: Tables, job: Job) -> bool:
    """Whether the job waits for the steps of its flow, and not only for signals."""
    if job.state is not State.WAITING or (flow := tables.flow(job.id)) is None or not flow.planned:
        return False
    return flow.state != "over" or not tables.graph(job.id).plan.grows


def note_end_of_wait(tables: Tables, job: Job, at: datetime) -> None:
    """The job is cancelled: if it waits for signals, it waits no more; steps that it does not wait for are stopped."""
    if job.state is State.WAITING:
        tables.flow_changes.of(job.id, at).ended = True
    elif may_have_steps(job) and has_plan(tables, job.id) and tables.graph(job.id).plan.grows:
        tables.flow_changes.of(job.id, at).cancelled = True


def stop_flow(tables: Tables, job: Job, at: datetime, reason: str) -> Job:
    """The waiting job of a flow that is cancelled: it ends once its steps have stopped."""
    tables.flow_changes.of(job.id, at).cancelled = True
    return job if job.cancel_reason is not None else replace(job, cancel_reason=reason)


def _wake(tables: Tables, id: JobId, at: datetime) -> Iterator[list[Name]]:
    """Lets the flow's own job conclude, if it waits."""
    if tables.wake_unread(id, at):
        return
    yield from _read(tables, [Name("job", id)])
    job = tables.job(id)
    if job is not None and job.state is State.WAITING:
        tables.put_job(replace(job, state=State.PENDING, run_at=at))
        tables.flow_changes.note_due(id)


def is_replaced(tables: Tables, job: Job) -> bool:
    """Whether the job's step has been decided again since, and has or may get another job."""
    flow = None if job.step is None else tables.flow(job.step.flow)
    return flow is not None and not _is_current(flow, job)


def is_worn_out(tables: Tables, job: Job) -> bool:
    """Whether the job's flow, or the flow it is a step of, has no lives left for its steps."""
    ids = (job.id,) if job.step is None else (job.id, job.step.flow)
    return any((flow := tables.flow(id)) is not None and moves.is_exhausted(flow) for id in ids)


def retried_job(tables: Tables, job: Job, at: datetime, update: Updates | None = None) -> Job:
    """The job put back to work. One that has a flow waits, and its flow's steps are put back to work."""
    retried = apply_action(Action.RETRY, job, at, "", update)
    if not has_plan(tables, job.id):
        return retried
    tables.flow_changes.of(job.id, at).retried = True
    return replace(retried, state=State.WAITING)


def _reopen(tables: Tables, id: JobId, at: datetime) -> Iterator[list[Name]]:
    """Lets the flow's own job wait again, after one of its steps was put back to work. A cancel is withdrawn."""
    yield from _read(tables, [Name("job", id)])
    job = tables.job(id)
    if job is None or job.state in (State.WAITING, State.RUNNING, State.PAUSED):
        if job is not None and job.cancel_reason is not None:
            tables.put_job(replace(job, cancel_reason=None))
        return
    if job.state.final:
        if job.counted_schedule is not None:
            yield from _read(tables, [Name("schedule", job.counted_schedule)])
        write_job(tables, job, replace(apply_action(Action.RETRY, job, at, ""), state=State.WAITING))
    else:
        tables.put_job(replace(job, state=State.WAITING, cancel_reason=None))


def _skip(tables: Tables, graph: Graph, id: JobId, step: int, reason: str, at: datetime) -> Iterator[list[Name]]:
    flow = tables.flow(id)
    if flow is None or not moves.may_skip(flow, step):
        return
    if flow.state == "over":
        yield from _reopen(tables, id, at)
    yield from _apply(tables, moves.skip(graph, flow, step, reason, at), at)


def _retry(tables: Tables, graph: Graph, flow: Flow, at: datetime) -> Iterator[list[Name]]:
    """Puts the dead and cancelled steps back to work. If there are none, and none was put back to work by itself, the
    flow's own job is due at once."""
    yield from _read(tables, [Name("failed_steps", flow.id)])
    found = tables.step_jobs(Name("failed_steps", flow.id))
    yield from _read(tables, [Name("flow", job.id) for job in found])
    found = tables.step_jobs(Name("failed_steps", flow.id))
    failed = [job for job in found if job.state in RETRIED_STATES and _is_retried(flow, job)]
    with_job = {job.step.number for job in failed if job.step is not None}
    own = [n for n in graph.open_steps if n in flow.notes]  # why it is dead or stopped, whatever its jobs are
    stopped = [n for n, status in enumerate(flow.statuses) if status in _STOPPED and (n not in with_job or n in own)]
    if not failed and not stopped:
        if flow.timed_out:
            tables.put_flow(replace(flow, revision=flow.revision + 1, timed_out=False, cancelled=False))
        if flow.state == "over":
            yield from _wake(tables, flow.id, at)
        return
    for job in failed:
        tables.put_job(retried_job(tables, job, at))
    refs = [(job.step, job.state is State.CANCELLED) for job in failed if job.step is not None]
    single = [ref.number for ref, _ in refs if not ref.index]
    items = [(ref.number, was_cancelled) for ref, was_cancelled in refs if ref.index]
    yield from _apply(tables, moves.revive(graph, flow, single, items, stopped, at), at)


_STOPPED = (StepStatus.DEAD, StepStatus.CANCELLED)


def _is_retried(flow: Flow, job: Job) -> bool:
    """Whether a retry of the flow puts this job back to work: not that of a step that an operator has skipped."""
    return _is_current(flow, job) and job.step is not None and job.step.number not in flow.skipped


def _is_current(flow: Flow, job: Job) -> bool:
    """Whether the job is that of the step's present life, and no other job has taken its place."""
    return job.step is not None and job.step.life == flow.lives.get(job.step.number, 0)


def _delete(tables: Tables, id: JobId, at: datetime) -> Iterator[list[Name]]:
    """Deletes the flow and the jobs of its steps. Running ones are cancelled."""
    flow = tables.flow(id)
    if flow is None:
        return
    yield from _read(tables, [Name("all_steps", id)])
    running = [job for job in tables.step_jobs(Name("all_steps", id)) if job.state is State.RUNNING]
    yield from _read_flows_of(tables, running[:MAX_CANCELLED_JOBS])
    found = tables.step_jobs(Name("all_steps", id))
    for job in found[:MAX_CANCELLED_JOBS]:
        if job.state is State.RUNNING:
            cancel_job(tables, job, at, _FLOW_DELETED)
        else:
            delete_job(tables, job, at)
    tables.drop_flow(id)
    if flow.deadline is not None:
        yield from _end_deadline(tables, flow, flow.deadline)
    if deadlines := [deadline.job_id for deadline in flow.waits.values() if deadline is not None]:
        yield from _drop_jobs(tables, deadlines)
    if len(found) > MAX_CANCELLED_JOBS:
        _add_cancel_job(tables, flow, [], at)


def may_add_item(tables: Tables, ref: StepRef) -> bool:
    """Whether the flow still makes items of that step."""
    flow = tables.flow(ref.flow)
    if flow is None or ref.life != flow.lives.get(ref.number, 0):
        return False
    graph = tables.graph(ref.flow)
    return (not ref.is_unnumbered or ref.number in graph.open_steps) and takes_items(graph, flow, ref.number)
