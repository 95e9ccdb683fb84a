"""PlanBuilder: makes the plan of a flow that has no function, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from msgspec import UNSET
from msgspec.structs import replace

from ..errors import BadFlow
from ..records.job import NewJob
from ..span import Span
from ..suggest import did_you_mean
from .planner import Planner
from .steps import add_map_to, add_step_to, naming

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Iterable

    from ..app import Mainspring
    from ..records.plan import Plan
    from ..task.handle import Handle
    from ..task.results import MapValue
    from ..task.task import Task

P = ParamSpec("P")
Q = ParamSpec("Q")
A = TypeVar("A")
R = TypeVar("R")


class PlanBuilder:
    """A plan while it is made: plan.step(extract, url), plan.map(load, rows), plan.returns(value), plan.enqueue()."""

    def __init__(self, app: Mainspring, name: str, fail_fast: bool = False, options: Mapping[str, Any] = {}) -> None:
        """`options` are those of the flow's job."""
        self.name = name
        self.planner = Planner(app)
        self._app, self._fail_fast, self._options = app, fail_fast, options
        self._result: Any = None

    def __repr__(self) -> str:
        return f"<PlanBuilder {self.name}>"

    @overload
    def step(self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def step(self, task: str, /, *args: Any, **kwargs: Any) -> Any: ...
    def step(self, task: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Adds the call of a task, or of the task of that name, as a step."""
        return add_step_to(self.planner, self._task(task), args, kwargs)

    @overload
    def map(
        self,
        task: Task[Concatenate[A, Q], R],
        items: Iterable[A] | AsyncIterable[A],
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> MapValue[R]: ...
    @overload
    def map(self, task: str, items: Any, /, *args: Any, **kwargs: Any) -> Any: ...
    def map(self, task: Any, items: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Adds a step with a job for each item, which is the task's first argument."""
        return add_map_to(self.planner, self._task(task), items, args, kwargs)

    def signal(
        self, name: str, type: Any = Any, /, *, timeout: Span | None = None, default: Any = UNSET, after: Any = ()
    ) -> Any:
        """Adds a step whose value is given from outside: see signal()."""
        from .signal_call import add_signal

        return add_signal(self.planner, name, type, timeout=timeout, default=default, after=after)

    def returns(self, value: Any) -> None:
        """Sets the result of the flow: a value of a step, of several, or one that is known now."""
        with naming(f"flow {self.name!r}"):
            self.planner.operand(value)
        self._result = value

    def plan(self) -> Plan:
        """The plan as it is now. Raises BadFlow if it is none."""
        with naming(f"flow {self.name!r}"):
            return self.planner.plan(self._result, fail_fast=self._fail_fast)

    def document(self) -> dict[str, Any]:
        """The plan as JSON that people can read."""
        from .document import document_of

        return document_of(self.plan(), self.name)

    def job(self) -> NewJob:
        """The flow as data, for enqueue_many()."""
        return self._job()[0]

    async def enqueue(self) -> Handle[Any]:
        """Stores the plan as a job. The job is durable when this returns."""
        job, within = self._job()
        (handle,) = await self._app.insert([job], within)
        return handle

    def _job(self) -> tuple[NewJob, Any]:
        """The job, and the transaction that it is part of."""
        job, within = self._app._engine.flow_job(self.name, self._options)
        return with_plan(job, self.plan()), within

    def _task(self, given: Task[Any, Any] | str) -> Task[Any, Any]:
        return task_of(self._app, given)


def with_plan(job: NewJob, plan: Plan) -> NewJob:
    """The job with the plan that it comes with. Its timeout is the flow's."""
    return replace(job, plan=plan if job.timeout is UNSET else replace(plan, timeout=job.timeout))


def task_of(app: Mainspring, given: Task[Any, Any] | str) -> Task[Any, Any]:
    """The task, or the app's task of that name. Raises BadFlow if it has none."""
    tasks = app._registry.tasks
    if isinstance(given, str):
        if given not in tasks:
            raise BadFlow(f"no task {given!r} is registered in this app; {did_you_mean(given, tasks)}")
        return tasks[given]
    if not hasattr(given, "planned_options"):
        raise BadFlow(f"a step takes a task, or its name; got {given!r:.80}")
    return given
