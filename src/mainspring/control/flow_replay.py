"""A new flow that repeats one which has ended: all of it, or a step and what is behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from ..errors import BadInput
from ..flow.graph import Graph
from ..flow.kept_steps import is_kept, kept_steps, needed_values, obstacle, run_again
from ..flow.planner import MAX_INPUT_BYTES
from ..ids import JobId
from ..records.flow import BATCH, PLANNED_FLOW, REPLAY_OF, Flow, FlowWithPlan, StepStatus
from ..records.job import Job, NewJob, State
from ..records.plan import KeptStep, Plan
from ..records.query import Update
from ..records.run import Failure
from ..records.step import MAX_INDEX, position_of
from ..store import Store
from ..worker.flow_reads import index_of, result_of
from .argument_edits import with_arguments
from .computation import Computation
from .run_again import TRACE, check_finished, check_own_arguments, copy_of
from .step_jobs import flow_of, flow_store, number_of, step_pages

if TYPE_CHECKING:
    from ..engine import Engine

_STATES: Mapping[str, str] = {
    StepStatus.DEAD: "is dead",
    StepStatus.CANCELLED: "was cancelled",
    StepStatus.UPSTREAM_FAILED: "was not run",
}
# What an item costs beside its result.
_ITEM_BYTES = 10


class Replay(NamedTuple):
    """What is replayed: a flow, from a step or from its start, perhaps with other arguments."""

    job: Job
    from_: str | None
    arguments: Mapping[str, Any] | None


async def replayed_job(engine: Engine, replay: Replay, *, id: JobId | None) -> NewJob:
    """The job of the new flow. It has the options that a job has which is run again."""
    job, from_, now = replay.job, replay.from_, engine.clock.now()
    store = await engine.connect()
    store.capabilities.require_flows()
    found = await flow_of(store, job.id)
    _check_flow(engine, job, found, from_)
    check_finished(job, "replay", now)
    if found is not None and found.row.state != "over":
        raise BadInput(f"flow {job.id} ({job.task}) goes on: a step of it was put back to work")
    _check_arguments(replay)
    if replay.arguments is not None:
        job = await _edited(engine, job, replay.arguments)
    plan = None
    if from_ is not None and found is not None:
        plan = await _partial_plan(store, job, found, from_)
    elif job.task == PLANNED_FLOW and found is not None:
        plan = replace(found.plan, kept={})
    new = copy_of(job, engine.tasks, id=id, now=now)
    return replace(
        new, metadata={**new.metadata, REPLAY_OF: replay.job.id}, plan=None if plan is None else _without_trace(plan)
    )


def _check_flow(engine: Engine, job: Job, found: FlowWithPlan | None, from_: str | None) -> None:
    """Raises BadInput if the job is no flow, or has no plan where one is needed."""
    if job.task == BATCH:
        raise BadInput(f"batch {job.id} cannot be replayed: its jobs came from outside; add them to another batch")
    if found is not None:
        return
    task = engine.tasks.get(job.task)
    if task is None or not task.is_flow or job.task == PLANNED_FLOW:
        raise BadInput(f"job {job.id} ({job.task}) has no steps: it is no flow, or has no plan")
    if from_ is not None:
        raise BadInput(f"flow {job.id} ({job.task}) was not planned yet: replay it from the start")


def _check_arguments(replay: Replay) -> None:
    job, arguments = replay.job, replay.arguments
    check_own_arguments(job)
    if arguments is None:
        return
    if replay.from_ is not None:
        raise BadInput(
            f"a replay from step {replay.from_!r:.80} keeps what other arguments have led to: "
            "give arguments= without from_="
        )
    if job.task == PLANNED_FLOW:
        raise BadInput(f"flow {job.id} was made from a plan, and has no arguments")
    if not isinstance(arguments, Mapping) or not all(isinstance(name, str) for name in arguments):
        raise BadInput(f"arguments are given as a mapping by name, got {arguments!r:.80}")


async def _edited(engine: Engine, job: Job, arguments: Mapping[str, Any]) -> Job:
    """The job with these arguments in place of its own, computed in a thread because payloads may be large."""
    task, limit = engine.tasks.get(job.task), engine.settings.payload_limit
    computation = Computation(engine.clock, "the check of these arguments")
    update = await computation.run(lambda: with_arguments(job, Update(), arguments, task, limit))
    return job if update.payload is UNSET else replace(job, payload=update.payload)


def _without_trace(plan: Plan) -> Plan:
    if TRACE.isdisjoint(plan.metadata):
        return plan
    return replace(plan, metadata={name: value for name, value in plan.metadata.items() if name not in TRACE})


# from a step


async def _partial_plan(store: Store, job: Job, found: FlowWithPlan, from_: str) -> Plan:
    """The plan of a flow that begins with a step, and takes over those that are not behind it."""
    graph, row = Graph(found.plan), found.row
    again = run_again(graph, number_of(graph, from_))
    if (blocked := obstacle(graph, row, again)) is not None:
        step, need = graph.steps[blocked.step].name, graph.steps[blocked.need].name
        raise BadInput(
            f"flow {job.id} cannot be replayed from step {from_!r}: {step!r} needs {need!r}, which "
            f"{_STATES[row.statuses[blocked.need]]} and would be kept: replay from {need!r} or from a step before it"
        )
    values, left = dict[int, KeptStep](), MAX_INPUT_BYTES
    for n in needed_values(graph, row, again):
        values[n], left = await _kept_value(store, graph, row, n, left)
    return replace(found.plan, kept=kept_steps(graph, row, again, values))


async def _kept_value(store: Store, graph: Graph, row: Flow, n: int, left: int) -> tuple[KeptStep, int]:
    """The step with its value, and how many bytes may be taken over after it."""
    if graph.steps[n].signal is not None:  # without a value its time was over
        given = row.inbox.get(graph.steps[n].name)
        kept = KeptStep(StepStatus.COMPLETED, None if given is None else given.value)
        left -= len((kept.value or "").encode())
        _check_size(graph, n, left)
        return kept, left
    if is_kept(graph, row, n):
        kept = graph.plan.kept[n]
    elif graph.steps[n].over is not None:
        kept = KeptStep(StepStatus.COMPLETED, items=await _items(store, graph, row, n, left))
    else:
        kept = KeptStep(StepStatus.COMPLETED, await _value(store, row, n))
    if kept.value is None and kept.items is None:
        raise BadInput(f"the result of step {graph.steps[n].name!r} is gone: replay from that step, or from the start")
    left -= len((kept.value or "").encode()) + sum(_size(result) for _, result in kept.items or ())
    _check_size(graph, n, left)
    return kept, left


async def _value(store: Store, row: Flow, n: int) -> str | None:
    """The result as JSON; None if its job is gone, or was put back to work."""
    if n in row.values:
        return row.values[n]
    position = position_of(n, 0, row.lives.get(n, 0))
    jobs = await flow_store(store).step_jobs(row.id, first=position, last=position, limit=1)
    return jobs[0].result or "null" if jobs and jobs[0].state is State.COMPLETED else None


async def _items(store: Store, graph: Graph, row: Flow, n: int, left: int) -> tuple[tuple[int, str | Failure], ...]:
    """The results of a map. Raises BadInput as soon as they are more than what is left."""
    found, life = list[tuple[int, str | Failure]](), row.lives.get(n, 0)
    async for jobs in step_pages(store, row.id, position_of(n, 1, life), position_of(n, MAX_INDEX, life)):
        for job in jobs:
            if (result := result_of(job)) is None:
                continue
            result = replace(result, stack="") if isinstance(result, Failure) else result
            found.append((index_of(job), result))
            left -= _size(result)
        _check_size(graph, n, left)
    return tuple(found)


def _size(result: str | Failure) -> int:
    return _ITEM_BYTES + len((result if isinstance(result, str) else result.message).encode())


def _check_size(graph: Graph, n: int, left: int) -> None:
    if left < 0:
        raise BadInput(
            f"with the result of step {graph.steps[n].name!r}, the new flow would take over more than "
            f"{MAX_INPUT_BYTES:,} bytes: replay from that step, or from the start"
        )
