"""The dead steps of a flow: read from its jobs, for its failure and for the handler of its death."""

from __future__ import annotations

from collections.abc import Sequence

from ..codec import decode_or_text
from ..flow.graph import Graph
from ..flow.kept_steps import is_kept
from ..insight.flow_view import KEPT
from ..records.flow import Flow, StepStatus
from ..records.job import Job, State
from ..records.outcome import MAX_MESSAGE_CHARACTERS, clean
from ..records.run import Failure
from ..records.step import position_of
from ..task.flow_failure import DeadStep
from .flow_reads import FlowReads, index_of

# Dead steps and items that a handler gets, and that a failure names.
MAX_DEAD_STEPS = 20
MAX_NAMED_STEPS = 5
MAX_REASON_CHARACTERS = 300
# Pages of a map's items in which its dead ones are looked for.
MAX_PAGES = 20


async def dead_steps(reads: FlowReads, graph: Graph, row: Flow, dead: Sequence[int]) -> tuple[DeadStep, ...]:
    """The steps of these numbers, up to a limit; of a map its dead items."""
    found: list[DeadStep] = []
    for n in dead[:MAX_DEAD_STEPS]:
        step, position = graph.steps[n], position_of(n, 0, row.lives.get(n, 0))
        if step.signal is not None:
            why = row.notes.get(n) or KEPT
            found.append(DeadStep(name=step.name, task="", failure=Failure("SignalTimeout", why)))
        elif step.over is not None:
            found += await _dead_items(reads, graph, row, n, MAX_DEAD_STEPS - len(found))
        elif (job := await reads.step_job(row.id, position)) is not None:
            found.append(_dead_step(step.name, job))
        else:
            why = row.notes.get(n) or (KEPT if is_kept(graph, row, n) else "its job was deleted")
            found.append(DeadStep(name=step.name, task=step.task, failure=Failure("Dead", why)))
    return tuple(found[:MAX_DEAD_STEPS])


async def _dead_items(reads: FlowReads, graph: Graph, row: Flow, n: int, limit: int) -> list[DeadStep]:
    """The dead items of a map, or the job that failed to make them."""
    step, life = graph.steps[n], row.lives.get(n, 0)
    if n in row.notes and n not in graph.sources:
        job = await reads.step_job(row.id, position_of(n, 0, life))
        if job is not None and job.state is State.DEAD:
            return [_dead_step(step.name, job)]
        return [DeadStep(name=step.name, task=step.task, failure=Failure("BadItems", row.notes[n]))]
    found, after = list[DeadStep](), -1
    for _ in range(MAX_PAGES):
        jobs = await reads.item_jobs(row.id, position_of(n, 0, life), after)
        found += (_dead_step(step.name, job) for job in jobs if job.state in (State.DEAD, State.EXPIRED))
        if not jobs or len(found) >= limit:
            break
        after = index_of(jobs[-1])
    failure = Failure("BadItems", row.notes[n]) if n in row.notes else Failure("ItemsDead", _counted(row, n))
    return found[:limit] or [DeadStep(name=step.name, task=step.task, failure=failure)]


def _counted(row: Flow, n: int) -> str:
    counts = row.counts[n]
    return f"{counts.dead:,} of {counts.made:,} items"


def _dead_step(name: str, job: Job) -> DeadStep:
    expired = Failure("Expired", f"it was not started before {job.expires_at}")
    return DeadStep(
        name=name,
        task=job.task,
        job_id=job.id,
        index=index_of(job) if job.step is not None and job.step.index else None,
        arguments=decode_or_text(job.payload),
        failure=expired if job.state is State.EXPIRED else job.failure or Failure("Dead", "no reason given"),
        attempts=job.attempt,
    )


def failure_of_timeout(graph: Graph, row: Flow, dead: Sequence[int], steps: Sequence[DeadStep]) -> Failure:
    """The failure of a flow that was stopped at its deadline: it names the steps that had not ended then."""
    left = [step.name for step, status in zip(graph.steps, row.statuses, strict=True) if status == StepStatus.CANCELLED]
    more = f" and {len(left) - MAX_NAMED_STEPS} more" if len(left) > MAX_NAMED_STEPS else ""
    text = f"it took longer than its timeout of {graph.plan.timeout or 0:,g} s"
    text += f"; cancelled: {', '.join(left[:MAX_NAMED_STEPS])}{more}" if left else ""
    text += f"; {failure_of_flow(graph, row, dead, steps).message}" if dead else ""
    return Failure("FlowTimeout", clean(text, MAX_MESSAGE_CHARACTERS))


def failure_of_flow(graph: Graph, row: Flow, dead: Sequence[int], steps: Sequence[DeadStep]) -> Failure:
    """The failure that names the dead steps, the first one first."""
    if graph.open_steps and dead[0] in graph.open_steps:
        return Failure("BatchFailed", clean(_failed_batch(graph, row, steps), MAX_MESSAGE_CHARACTERS))
    known = {step.name: step for step in reversed(steps)}
    named = [_named(graph, row, n, known.get(graph.steps[n].name)) for n in dead[:MAX_NAMED_STEPS]]
    more = f" and {len(dead) - MAX_NAMED_STEPS} more" if len(dead) > MAX_NAMED_STEPS else ""
    what = "step" if len(dead) == 1 else "steps"
    return Failure("FlowFailed", clean(f"dead {what}: {', '.join(named)}{more}", MAX_MESSAGE_CHARACTERS))


def _failed_batch(graph: Graph, row: Flow, steps: Sequence[DeadStep]) -> str:
    """How many jobs of the batch are dead, with the first one; or that it was never closed."""
    n = graph.open_steps[0]
    counted = f"{row.counts[n].dead:,} of {row.counts[n].made:,} jobs are dead"
    first = next((step for step in steps if step.job_id is not None and step.index is not None), None)
    if first is not None:
        counted += f", the first one {first.job_id} ({first.task}): {_line(first.failure)}"
    if n in row.notes:
        return f"{row.notes[n]}; {counted}" if row.counts[n].dead else row.notes[n]
    return counted


def _line(failure: Failure) -> str:
    return f"{failure.type}: {clean(failure.message, MAX_REASON_CHARACTERS)}"


def _named(graph: Graph, row: Flow, n: int, step: DeadStep | None) -> str:
    name = graph.steps[n].name
    if step is None:
        return name
    where = "" if step.job_id is None else f", job {step.job_id}"
    item = "" if step.index is None else f"{_counted(row, n)}, first item {step.index}: "
    return f"{name} ({item}{_line(step.failure)}{where})"
