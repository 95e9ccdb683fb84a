"""The runs of flows and of their steps: values of other steps, plans, and the ends of flows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import asdict

from ..flow.conditions import ABSENT, at_path
from ..flow.function import plan_of
from ..flow.graph import Graph
from ..flow.json_text import encode_text
from ..flow.signals import signal_text
from ..flow.verdict import judge
from ..ids import JobId
from ..insight.flow_view import STEP_STATES
from ..records.batch import batch_counts
from ..records.flow import JOBS_STEP, PLANNED_TASKS, REPLAY_OF, Flow, FlowWithPlan, StepStatus
from ..records.job import Job, State
from ..records.outcome import Done, RemoteFailure, RunEnd, StepNotCompleted, Stopped, Suspend
from ..records.plan import FirstOf, Input, ListOf, ObjectOf, Operand, ValueOf
from ..records.run import Failure
from ..records.step import StepValue, position_of
from ..store import Store
from ..store.retry import StoreRetry
from ..task.context import Context
from ..task.flow_failure import DeadStep, FlowEnd
from ..task.results import Results
from ..task.task import Task
from .dead_steps import dead_steps, failure_of_flow, failure_of_timeout
from .flow_reads import FlowReads

# All values that are loaded whole for one run.
MAX_LOADED_BYTES = 64 << 20
_NULL = "null"


class BadValue(Exception):
    """A value of a step that a run needs cannot be loaded. Another attempt would not change that."""


class FlowRuns:
    """What a worker does for flows and their steps, beside what it does for every job."""

    def __init__(self, store_calls: Callable[[], tuple[Store, StoreRetry]], result_limit: int) -> None:
        self.reads = FlowReads(store_calls)
        self._result_limit = result_limit

    # steps

    async def prepare(self, ctx: Context, task: Task[Any, Any]) -> RunEnd | None:
        """Gives the run its arguments, with the values of other steps. Returns how the run ends if it ends here:
        it concludes a flow, or a value cannot be loaded. Raises if the payload does not fit the task."""
        job = ctx.job
        if task.is_flow and not self.reads.possible:
            return RemoteFailure(Failure("BadInput", "this store has no flows"), retryable=False)
        # A job that comes with its plan has one before its first run.
        if task.is_flow and (job.runs > 1 or job.task in PLANNED_TASKS or REPLAY_OF in job.metadata):
            ctx.note_flow(may_conclude=True)
            found = await self.reads.flow(job.id)
            if found is not None and found.row.planned:
                return await self._conclude(ctx, found)
            ctx.note_flow(may_conclude=False)
        if not job.refs:
            ctx.prepare(job, task.arguments.decode(job.payload))
            return None
        try:
            loaded = await self._loaded(job, task)
        except BadValue as bad:
            return RemoteFailure(Failure("BadValue", str(bad)), retryable=False)
        ctx.prepare(loaded, task.arguments.decode(loaded.payload, self._results(job, task)))
        return None

    def _results(self, job: Job, task: Task[Any, Any]) -> dict[str, Results[Any]]:
        """The results of maps that the task reads in pages, by parameter."""
        assert job.step is not None
        found, flow = dict[str, Results[Any]](), job.step.flow
        for name, item_type in task.arguments.item_types.items():
            if (value := job.refs.get(pointer(name))) is not None:
                found[name] = Results(partial(self._page, flow, value.position), item_type)
        return found

    async def _page(self, flow: JobId, position: int, after: int, limit: int) -> Any:
        return await self.reads.items(flow, position, after, limit)

    async def _loaded(self, job: Job, task: Task[Any, Any]) -> Job:
        """The job with the values in its payload."""
        assert job.step is not None
        lazy = {pointer(name) for name in task.arguments.item_types}
        values, budget = dict[str, str](), Budget()
        for place, value in job.refs.items():
            if place not in lazy:
                values[place] = await self._text(job.step.flow, value, budget)
        return msgspec.structs.replace(job, payload=with_values(job.payload, values), refs={})

    async def _text(self, flow: JobId, value: StepValue, budget: Budget) -> str:
        """The value as JSON."""
        text = await (self._list(flow, value.position, budget) if value.many else self._one(flow, value, budget))
        return _part(text, value.path)

    async def _one(self, flow: JobId, value: StepValue, budget: Budget) -> str:
        job = await self.reads.step_job(flow, value.position)
        if job is None:
            kept = await self.reads.kept_step(flow, value.position)
            if kept is not None and kept.value is not None:
                return budget.take(kept.value)
            raise BadValue("the result of a step is gone, because its job was deleted")
        if job.state is not State.COMPLETED:
            raise StepNotCompleted(f"job {job.id} ({job.task}), whose result this run needs, was put back to work")
        return budget.take(job.result or _NULL)

    async def _list(self, flow: JobId, position: int, budget: Budget) -> str:
        """The values of a map's completed items, in order of index."""
        texts, after = list[str](), -1
        while page := await self.reads.items(flow, position, after):
            texts += (budget.take(found) for _, found in page if isinstance(found, str))
            after = page[-1][0]
        return f"[{','.join(texts)}]"

    # flows

    async def _conclude(self, ctx: Context, found: FlowWithPlan) -> RunEnd:
        """The end of a flow that is over. One that is not waits on."""
        row, graph = found.row, Graph(found.plan)
        if row.state != "over":
            return Suspend()
        verdict, dead = judge(graph, row), tuple[DeadStep, ...]()
        ended: RunEnd
        match verdict.state:
            case "completed" if verdict.finish is not None:
                ended = self._done(verdict.finish)
            case "completed":
                ended = await self._completed(graph, row, verdict.result)
                if graph.open_steps:
                    ended = self._done(encode_text(asdict(batch_counts(row.counts[JOBS_STEP]))))
            case "cancelled":
                ended = Stopped(ctx.job.cancel_reason or "a step of the flow was cancelled")
            case "dead":
                dead = await dead_steps(self.reads, graph, row, verdict.dead)
                why = failure_of_timeout if row.timed_out else failure_of_flow
                ended = RemoteFailure(why(graph, row, verdict.dead, dead), retryable=False)
        steps = {step.name: STEP_STATES[status] for step, status in zip(graph.steps, row.statuses, strict=True)}
        ctx.conclude(FlowEnd(ended=ended, revision=row.revision, began_at=row.began_at, dead=dead, steps=steps))
        return ended

    async def _completed(self, graph: Graph, row: Flow, result: Operand | None) -> RunEnd:
        if result is None:
            return Done()
        try:
            return self._done(await self._value(graph, row, result, Budget()))
        except BadValue as bad:
            return Done(None, Failure("ResultLost", str(bad)))

    def _done(self, text: str) -> Done:
        """The end with this result, or with the note that it is too long."""
        size = len(text.encode()) if len(text) * 4 > self._result_limit else len(text)
        if size > self._result_limit:
            limit = f"the limit is {self._result_limit:,} (result_limit)"
            return Done(None, Failure("ResultLost", f"the result is {size:,} bytes, {limit}"))
        return Done(None if text == _NULL else text)

    async def _value(self, graph: Graph, row: Flow, operand: Operand, budget: Budget) -> str:
        """What the flow returns, as JSON."""
        match operand:
            case Input(n=n):
                return graph.plan.inputs[n]
            case ValueOf(step=n):
                return await self._value_of(graph, row, operand, budget)
            case FirstOf(operands=several):
                chosen = next((one for one in several if _has_value(row, one)), None)
                return _NULL if chosen is None else await self._value(graph, row, chosen, budget)
            case ListOf(items=items):
                return f"[{','.join([await self._value(graph, row, one, budget) for one in items])}]"
            case ObjectOf(fields=fields):
                texts = {name: await self._value(graph, row, one, budget) for name, one in fields.items()}
                return msgspec.json.encode({name: msgspec.Raw(text.encode()) for name, text in texts.items()}).decode()

    async def _value_of(self, graph: Graph, row: Flow, value: ValueOf, budget: Budget) -> str:
        n = value.step
        if row.statuses[n] != StepStatus.COMPLETED:
            return _NULL
        text = row.values.get(n)
        if (found := signal_text(graph, row, n) if text is None else text) is not None:
            return _part(budget.take(found), value.path)
        position = position_of(n, 0, row.lives.get(n, 0))
        many = graph.steps[n].over is not None
        return await self._text(row.id, StepValue(position, value.path, many), budget)


def plan(task: Task[Any, Any], ctx: Context) -> Suspend:
    """Plans the flow. It runs in a thread, since the function may do anything."""
    args, kwargs = ctx.arguments
    made, timeout = plan_of(task, args, kwargs), ctx.job.timeout
    return Suspend(made if timeout is msgspec.UNSET else msgspec.structs.replace(made, timeout=timeout))


class Budget:
    """The bytes that one run may still load."""

    def __init__(self) -> None:
        self._left = MAX_LOADED_BYTES

    def take(self, text: str) -> str:
        """The text. Raises BadValue if it is too long with those before."""
        self._left -= len(text)
        if self._left < 0:
            raise BadValue(
                f"the results of its steps are more than {MAX_LOADED_BYTES >> 20} MiB: take the results of a map as "
                "Results[…], which is read in pages, or keep big data elsewhere"
            )
        return text


def _has_value(row: Flow, operand: Operand) -> bool:
    return not isinstance(operand, ValueOf) or row.statuses[operand.step] == StepStatus.COMPLETED


def _part(text: str, path: tuple[str | int, ...]) -> str:
    if not path:
        return text
    found = at_path(msgspec.json.decode(text), path)
    return _NULL if found is ABSENT else msgspec.json.encode(found).decode()


# JSON pointers


def pointer(name: str) -> str:
    return f"/{name.replace('~', '~0').replace('/', '~1')}"


def with_values(payload: str, values: Mapping[str, str]) -> str:
    """The payload with JSON texts at these pointers."""
    if not values:
        return payload
    whole = msgspec.json.decode(payload)
    for place, text in values.items():
        *path, last = (part.replace("~1", "/").replace("~0", "~") for part in place[1:].split("/"))
        inside = whole
        for part in path:
            inside = inside[int(part)] if isinstance(inside, list) else inside[part]
        inside[int(last) if isinstance(inside, list) else last] = msgspec.Raw(text.encode())
    return msgspec.json.encode(whole).decode()
