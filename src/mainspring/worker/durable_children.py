"""Children of durable tasks: the jobs of ctx.run() and ctx.map(), which are steps of the durable job's own flow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..codec import type_decoder
from ..errors import BadInput, ChildFailed
from ..flow.graph import Graph
from ..flow.growth import joined
from ..flow.planner import Planner
from ..flow.steps import add_map_to, add_step_to
from ..records.flow import OPEN, SKIPPED, FlowWithPlan, StepStatus
from ..records.job import Job
from ..records.plan import MAX_STEPS, Plan
from ..records.run import Checkpoint, Failure
from ..records.step import position_of
from ..store import Store
from ..store.retry import StoreRetry
from ..task.context import Context
from ..task.step_options import given_options
from ..task.task import Task
from .dead_steps import dead_steps
from .flow_reads import FlowReads

# The arguments of all children of a job.
MAX_ARGUMENTS_BYTES = 8 << 20
# The results of a map, which are loaded whole.
MAX_RESULTS_BYTES = 64 << 20
# Options of a call that a child may have, beside those of its job.
_OPTIONS = ("step", "failed_ratio")
_NULL = "null"


class Child(Struct, frozen=True):
    """A call of ctx.run() or ctx.map()."""

    key: str
    task: Task[..., Any]
    add: Callable[[Planner], object]
    """Adds the call to a plan. Only what has not been started yet is planned."""
    is_map: bool

    def decode(self, text: str) -> Any:
        result = self.task.results.type
        return type_decoder(list[result] if self.is_map else result)(text)  # type: ignore[valid-type]

    def plan(self) -> Plan:
        """Of the one step. Raises BadInput if there cannot be such a job."""
        planner = Planner()
        self.add(planner)
        plan = planner.plan()
        return replace(plan, steps=(replace(plan.steps[0], name=self.key),))


class _StoredFailure(Struct, frozen=True):
    """The checkpoint of a child that has failed, and whose failure the task has got over."""

    what: str
    job_id: str | None
    state: str
    reason: str
    failure: Failure | None = None


class DurableChildren:
    """The jobs that one run asks for."""

    def __init__(
        self, ctx: Context, store_calls: Callable[[], tuple[Store, StoreRetry]], key_of: Callable[[str], str]
    ) -> None:
        """`key_of` numbers the calls of a name."""
        self._job = ctx.job
        self._reads = FlowReads(store_calls)
        self._key_of = key_of
        self._own: FlowWithPlan | None = None
        self._numbers: dict[str, int] = {}
        """Of the children of earlier runs, by key."""
        self._is_read = not ctx.resumed  # the first run of a job has none
        self._waits: dict[str, Plan] | None = None
        """The new children that the run waits for; None: it waits for no child."""
        self._bytes = 0
        self._failures: dict[str, _StoredFailure] = {}

    # calls

    def call(self, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Child:
        name = _name_of(task, "ctx.run()")
        return Child(self._key_of(name), task, lambda planner: add_step_to(planner, task, args, kwargs), False)

    def map(self, task: Task[..., Any], items: Iterable[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Child:
        name = _name_of(task, "ctx.map()")
        return Child(self._key_of(name), task, lambda planner: add_map_to(planner, task, items, args, kwargs), True)

    # ends

    async def result(self, child: Child) -> str | None:
        """The result as JSON; None if it has not ended. Raises ChildFailed if there is none."""
        n = await self._number(child.key)
        if n is None or self._own is None or (status := self._own.row.statuses[n]) in OPEN:
            return None
        if status in SKIPPED:
            return _NULL
        position = position_of(n, 0, self._own.row.lives.get(n, 0))
        if self._own.plan.steps[n].over is not None:
            if status == StepStatus.COMPLETED:
                return await self._list(child.key, position)
            return await self._fail(child.key, n, None)
        job = await self._reads.step_job(self._job.id, position)
        if job is not None and not job.state.final:
            return None  # it was put back to work since the flow was read
        if status == StepStatus.COMPLETED and job is not None:
            return job.result or _NULL
        return await self._fail(child.key, n, job)

    async def _number(self, key: str) -> int | None:
        if not self._is_read:
            self._own = await self._reads.flow(self._job.id)
            if self._own is not None:
                self._numbers = {step.name: n for n, step in enumerate(self._own.plan.steps)}
                self._bytes = sum(map(len, self._own.plan.inputs))
            self._is_read = True
        return self._numbers.get(key)

    async def _list(self, key: str, position: int) -> str:
        texts, size, after = list[str](), 0, -1
        while page := await self._reads.items(self._job.id, position, after):
            some = [found for _, found in page if isinstance(found, str)]
            texts += some
            size += sum(map(len, some))
            if size > MAX_RESULTS_BYTES:
                raise BadInput(
                    f"the results of map {key!r} are more than {MAX_RESULTS_BYTES >> 20} MiB: run a flow of it and a "
                    "task that takes them as Results[…], in pages, or keep big data elsewhere"
                )
            after = page[-1][0]
        return f"[{','.join(texts)}]"

    async def _fail(self, key: str, n: int, job: Job | None) -> str:
        assert self._own is not None
        row = self._own.row
        if row.statuses[n] == StepStatus.COMPLETED:
            found = _StoredFailure(f"the result of {key} is", None, "deleted", "its job was deleted")
        elif row.statuses[n] == StepStatus.DEAD:
            first = (await dead_steps(self._reads, Graph(self._own.plan), row, [n]))[0]
            where = "" if first.job_id is None else f" (job {first.job_id})"
            what = f"{key}{where} is"
            if (counts := row.counts.get(n)) is not None:
                what = f"{counts.dead:,} of {counts.made:,} items of {key}, the first one{where} are"
            state = "dead" if job is None else job.state.value
            reason = f"{first.failure.type}: {first.failure.message}"
            found = _StoredFailure(what, first.job_id, state, reason, first.failure)
        elif job is None:
            found = _StoredFailure(f"{key} was", None, "cancelled", "its job, or one of its items, was cancelled")
        else:
            reason = job.cancel_reason or "no reason given"
            found = _StoredFailure(f"{key} (job {job.id}) was", job.id, "cancelled", reason)
        self._failures[_failure_key(key)] = found
        raise _error_of(found)

    # failures

    def new_failures(self) -> list[tuple[str, str]]:
        """The checkpoints of failures that were raised since the last call."""
        found, self._failures = self._failures, {}
        return [(key, msgspec.json.encode(one).decode()) for key, one in found.items()]

    def raise_stored(self, stored: Mapping[str, Checkpoint], key: str) -> None:
        """Raises the failure of an earlier run again."""
        if (found := stored.get(_failure_key(key))) is not None:
            raise _error_of(msgspec.json.decode(found.value, type=_StoredFailure))

    # waiting

    def wait(self, child: Child) -> None:
        """The run will be suspended until this child has ended."""
        plan = None if child.key in self._numbers else child.plan()
        waits = self._waits = {} if self._waits is None else self._waits
        if plan is None:
            return
        self._bytes += sum(map(len, plan.inputs))
        if len(self._numbers) + len(waits) >= MAX_STEPS:
            raise BadInput(
                f"{child.key!r} is one too many: a job runs up to {MAX_STEPS:,} others; give them to ctx.map(), or to "
                "another durable task"
            )
        if self._bytes > MAX_ARGUMENTS_BYTES:
            raise BadInput(
                f"the arguments of the jobs that this one runs exceed {MAX_ARGUMENTS_BYTES:,} bytes with "
                f"{child.key!r}: keep big data elsewhere and pass its name"
            )
        waits[child.key] = plan

    def plan(self) -> Plan | None:
        """What the run waits for; None: no child."""
        return None if self._waits is None else joined(self._waits.values())


def _name_of(task: Any, what: str) -> str:
    """The name of the call. Raises BadInput if there is none."""
    if not isinstance(task, Task):
        raise BadInput(f"{what} takes a task or a flow and its arguments, got {task!r:.80}: a function is ctx.step()")
    if (options := task.step_options) is None:
        return task.name
    if wrong := [name for name in given_options(options) if name not in _OPTIONS]:
        raise BadInput(f"{what}: options of steps ({', '.join(wrong)}) act only in a flow: write that as plain code")
    return options.step or task.name


def _failure_key(key: str) -> str:
    """No step has such a name: only numbers stand behind the sign."""
    return f"{key}#failed"


def _error_of(failure: _StoredFailure) -> ChildFailed:
    return ChildFailed(failure.what, failure.job_id, failure.state, failure.reason, failure.failure)
