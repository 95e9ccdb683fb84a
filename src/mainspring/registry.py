"""Registry: the tasks, schedules, middleware and hooks that an app declares, and the decorators that declare them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, Unpack, overload

from msgspec import UNSET

from .codec import is_async
from .errors import BadInput, BadTask
from .records.job import INTERNAL, Job, is_internal
from .suggest import did_you_mean
from .task.context import Context
from .task.options import (
    CheckedOptions,
    CollectingOptions,
    CollectingStubOptions,
    FlowOptions,
    JobOptions,
    StubOptions,
    TaskOptions,
    check_name,
    check_one_key,
    check_portable,
    checked_options,
)
from .task.task import Task

if TYPE_CHECKING:
    from .app import Mainspring
    from .events import Bus, E
    from .flow.builder import PlanBuilder
    from .middleware import Middleware, ThreadMiddleware
    from .records.outcome import Outcome
    from .schedule.options import DeclaredSchedule, ScheduleOptions
    from .task.dead_letter import DeadLetter
    from .task.flow_failure import FlowEnd
    from .trigger import Cron, Trigger
    from .worker.pruner import Archive

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Async = Coroutine[Any, Any, R]
Kind = Literal["task", "stub", "flow"]
_OPTIONS: Mapping[Kind, type] = {"task": CollectingOptions, "stub": CollectingStubOptions, "flow": FlowOptions}


class Registry:
    """What the code of an app declares. It knows no store, so every engine of the app uses the same one."""

    def __init__(
        self, app: Mainspring, middleware: Sequence[Middleware] = (), thread_middleware: Sequence[ThreadMiddleware] = ()
    ) -> None:
        """`app` is the app of its tasks."""
        self.app = app
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.schedules: dict[str, DeclaredSchedule] = {}
        self.middleware = list(middleware)
        self.thread_middleware = list(thread_middleware)
        self.child_setup: Callable[[], tuple[str, str]] | None = None
        self.dead_letter_handler: Task[Any, Any] | None = None
        """The task that runs for every job that dies."""
        self.archive_hook: Archive | None = None
        """Called with finished jobs before retention deletes them."""

    @property
    def runnable(self) -> dict[str, Task[Any, Any]]:
        """The tasks whose code is here, by name: all but the stubs."""
        return {name: task for name, task in self.tasks.items() if not task.stub}

    def add_task(
        self,
        fn: Callable[..., Any],
        name: str | None = None,
        options: Mapping[str, Any] = {},
        middleware: Sequence[Middleware] = (),
        *,
        kind: Kind = "task",
    ) -> Task[Any, Any]:
        if not callable(fn):
            raise BadTask(f"@app.{kind} takes a function, got {fn!r}; options go by name: @app.{kind}(queue=…)")
        title = str(name or getattr(fn, "__name__", ""))
        self._check_task_name(title)
        given = _checked_task_options(title, options, kind)
        layers = middleware if isinstance(middleware, Sequence) else (middleware,)
        if not all(is_async(layer) for layer in layers):
            raise BadTask(f"task {title!r}: middleware is a list of `async def layer(ctx, call_next)` functions")
        if (handler := given.get("on_failure")) is not None:
            self._check_handler(handler, title)
        checked = check_one_key(CheckedOptions(**given), title)
        self.tasks[title] = task = self.new_task(title, fn, checked, middleware, kind)
        return task

    def new_task(
        self,
        name: str,
        fn: Callable[..., Any],
        options: CheckedOptions,
        middleware: Sequence[Middleware] = (),
        kind: Kind = "task",
    ) -> Task[Any, Any]:
        """A task of the app that is not registered, such as the internal ones."""
        return Task(self.app, name, fn, options, middleware, kind == "stub", kind == "flow")

    def _check_task_name(self, title: str) -> None:
        if not title or title == "<lambda>":
            raise BadTask("this function has no name of its own; give the task one: name='…'")
        if is_internal(title):
            raise BadTask(f"task {title!r}: names that begin with {INTERNAL!r} are internal; give it another name=")
        if title in self.tasks:
            raise BadTask(f"a task named {title!r} is registered already; give this one another name=")

    def _check_handler(self, handler: Task[Any, Any], title: str) -> None:
        from .task.dead_letter import check_handler

        if check_handler(handler).app is not self.app:
            raise BadTask(f"task {title!r}: on_failure is task {handler.name!r} of another app; register it here")

    def add_dead_letter_handler(self, fn: Callable[..., Any]) -> Task[Any, Any]:
        from .task.dead_letter import check_handler

        if self.dead_letter_handler is not None:
            raise BadTask(f"the dead-letter handler is {self.dead_letter_handler.name!r} already; an app has one")
        task = fn if isinstance(fn, Task) else self.add_task(fn, options={"queue": self.app.settings.dead_queue})
        try:
            self.dead_letter_handler = check_handler(task)
        except BadTask:
            if task is not fn:
                del self.tasks[task.name]
            raise
        return task

    def with_dead_letter_jobs(self, job: Job, outcome: Outcome, flow_end: FlowEnd | None = None) -> Outcome:
        """The outcome of a job that dies, with jobs for the dead-letter handlers of its task and of the app."""
        task = self.tasks.get(job.task)
        handlers = (task.options.on_failure if task else None, self.dead_letter_handler)
        if handlers == (None, None):
            return outcome
        from .task.dead_letter import with_dead_letter_jobs

        return with_dead_letter_jobs(job, outcome, [handler for handler in handlers if handler is not None], flow_end)

    def set_archive_hook(self, hook: Archive) -> None:
        if not callable(hook):
            raise BadInput(f"@app.archive takes a function of a list of Archived, got {hook!r:.80}")
        if self.archive_hook is not None:
            raise BadInput("the archive hook is set already; an app has one")
        self.archive_hook = hook

    def add_schedule(self, name: str, trigger: Trigger, task: Task[Any, Any], options: Mapping[str, Any]) -> None:
        from .schedule.options import declare

        if check_name(name, "schedule name") in self.schedules:
            raise BadInput(f"a schedule named {name!r} is declared already; give this one another name")
        if isinstance(task, Task) and task.app is not self.app:
            raise BadTask(f"schedule {name!r}: task {task.name!r} is of another app; register it here")
        if isinstance(task, Task):
            task.refuse_step_options(f"schedule {name!r} makes jobs of their own")
        if isinstance(task, str):
            raise BadInput(f"schedule {name!r} takes the task itself, not its name, {task!r}; or an @app.stub")
        self.schedules[name] = declare(name, trigger, task, options, self.app.settings.payload_limit)

    def add_scheduled_task(self, fn: Any, name: str | None, trigger: Trigger, options: Mapping[str, Any]) -> Any:
        """Schedules a task, or a function, which becomes a task only if the schedule is valid."""
        is_new = not isinstance(fn, Task)
        task: Task[Any, Any] = self.add_task(fn) if is_new else fn
        try:
            self.add_schedule(name or task.name, trigger, task, options)
        except BadInput:
            if is_new:
                del self.tasks[task.name]
            raise
        return task


def _checked_task_options(title: str, options: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    known = set(_OPTIONS[kind].__annotations__)
    for key in options:
        if key not in known:
            if key in CheckedOptions.__struct_fields__:
                raise BadTask(f"{_noun(kind)} {title!r}: option {key} does not belong on a {kind}")
            way = did_you_mean(key, known | {"name"} | ({"middleware"} if kind == "task" else set()))
            raise BadTask(f"{_noun(kind)} {title!r}: unexpected keyword argument {key!r}; {way}")
    given = checked_options({key: value for key, value in options.items() if value is not UNSET}, f"task {title!r}")
    if kind == "stub":
        check_portable(given, title)
    return given


def _noun(kind: Kind) -> str:
    return "flow" if kind == "flow" else "task"


class Decorator(Protocol):
    """Makes a Task of a function. A first parameter annotated Context is not part of the call."""

    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], Async[R]]) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Async[R]]) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], R]) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R]) -> Task[P, R]: ...


class CollectingDecorator(Protocol):
    """Makes a Task of a function that takes the items of several calls. A call has one of them."""

    @overload
    def __call__(self, fn: Callable[[Context, list[T]], Async[R]]) -> Task[[T], R]: ...
    @overload
    def __call__(self, fn: Callable[[list[T]], Async[R]]) -> Task[[T], R]: ...
    @overload
    def __call__(self, fn: Callable[[Context, list[T]], R]) -> Task[[T], R]: ...
    @overload
    def __call__(self, fn: Callable[[list[T]], R]) -> Task[[T], R]: ...


class FlowDecorator(Protocol):
    """Makes a flow of a plain function."""

    def __call__(self, fn: Callable[P, R]) -> Task[P, R]: ...


class ScheduleDecorator(Protocol):
    """Makes a scheduled Task of a function, or of a Task."""

    @overload
    def __call__(self, fn: Task[P, R]) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], Async[R]]) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Async[R]]) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], R]) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R]) -> Task[P, R]: ...


class Declarations:
    """The methods of an app that declare tasks, schedules and subscribers, most of them decorators."""

    _registry: Registry
    events: Bus

    # tasks

    @overload
    def task(self, fn: Callable[Concatenate[Context, P], Async[R]], /) -> Task[P, R]: ...
    @overload
    def task(self, fn: Callable[P, Async[R]], /) -> Task[P, R]: ...
    @overload
    def task(self, fn: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def task(self, fn: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self,
        fn: None = None,
        /,
        *,
        name: str | None = None,
        middleware: Sequence[Middleware] = (),
        **options: Unpack[CollectingOptions],
    ) -> CollectingDecorator: ...
    @overload
    def task(
        self,
        fn: None = None,
        /,
        *,
        name: str | None = None,
        middleware: Sequence[Middleware] = (),
        **options: Unpack[TaskOptions],
    ) -> Decorator: ...
    def task(
        self,
        fn: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        middleware: Sequence[Middleware] = (),
        **options: Any,
    ) -> Any:
        """Registers a function, async or not, as a task, under its own name or `name`."""

        def register(fn: Callable[..., Any]) -> Task[Any, Any]:
            return self._registry.add_task(fn, name, options, middleware)

        return register if fn is None else register(fn)

    @overload
    def stub(self, fn: Callable[P, Async[R]], /) -> Task[P, R]: ...
    @overload
    def stub(self, fn: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def stub(
        self, fn: None = None, /, *, name: str | None = None, **options: Unpack[CollectingStubOptions]
    ) -> CollectingDecorator: ...
    @overload
    def stub(self, fn: None = None, /, *, name: str | None = None, **options: Unpack[StubOptions]) -> Decorator: ...
    def stub(self, fn: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Any) -> Any:
        """A task whose code is in another process. The function's name and signature are used; its body never runs."""

        def register(fn: Callable[..., Any]) -> Task[Any, Any]:
            return self._registry.add_task(fn, name, options, kind="stub")

        return register if fn is None else register(fn)

    @overload
    def flow(self, fn: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def flow(self, fn: None = None, /, *, name: str | None = None, **options: Unpack[FlowOptions]) -> FlowDecorator: ...
    def flow(self, fn: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Any) -> Any:
        """Registers a plain function as a flow: a task that makes steps, which are jobs, and ends when they have ended.

        The function runs once for each job of the flow, with its real arguments. What steps return is not known then.
        """

        def register(fn: Callable[..., Any]) -> Task[Any, Any]:
            return self._registry.add_task(fn, name, options, kind="flow")

        return register if fn is None else register(fn)

    def plan(self, name: str, /, *, fail_fast: bool = False, **options: Unpack[JobOptions]) -> PlanBuilder:
        """Begins the plan of a flow without a function. The options are those of its job.

        plan = app.plan("import"); rows = plan.step(extract, url); plan.map(load, rows); await plan.enqueue()
        """
        from .flow.builder import PlanBuilder

        return PlanBuilder(self._registry.app, check_name(name, "flow name"), fail_fast, options)

    @overload
    def dead_letter(self, fn: Callable[[DeadLetter], Async[R]], /) -> Task[[DeadLetter], R]: ...
    @overload
    def dead_letter(self, fn: Callable[[DeadLetter], R], /) -> Task[[DeadLetter], R]: ...
    def dead_letter(self, fn: Callable[..., Any], /) -> Any:
        """Registers the handler of dead letters: a task that runs, as a job of its own, for every job that dies."""
        return self._registry.add_dead_letter_handler(fn)

    def archive(self, hook: Archive) -> Archive:
        """Registers a function, async or not, that is called with finished jobs before retention deletes them."""
        self._registry.set_archive_hook(hook)
        return hook

    # schedules

    def schedule(
        self, name: str, trigger: Trigger, task: Task[Any, Any], /, **options: Unpack[ScheduleOptions]
    ) -> None:
        """Declares a schedule. Workers store it when they start, and fire it from then on.

        app.schedule("daily-report", cron("0 9 * * mon-fri"), report, kwargs={"kind": "daily"})
        """
        self._registry.add_schedule(name, trigger, task, options)

    def cron(
        self,
        expr: str | Cron,
        *,
        tz: str = "UTC",
        day_match: Literal["or", "and"] = "or",
        name: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> ScheduleDecorator:
        """Runs the function by a cron expression: @app.cron("0 0 * * *") or @app.cron(cron.DAILY).

        The function becomes a task unless it is one.
        """
        from .schedule.options import check_call_options
        from .trigger import cron

        check_call_options("app.cron()", options, ("tz", "day_match", "name"))
        return self._scheduled(cron(expr, tz=tz, day_match=day_match), name, options)

    def every(
        self,
        span: timedelta | str | None = None,
        /,
        *,
        weeks: float = 0,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        name: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> ScheduleDecorator:
        """Runs the function at an interval: @app.every(minutes=5) or @app.every("5m").

        The function becomes a task unless it is one.
        """
        from .schedule.options import interval_of

        units = {"weeks": weeks, "days": days, "hours": hours, "minutes": minutes, "seconds": seconds}
        return self._scheduled(interval_of(span, units, options), name, options)

    def _scheduled(self, trigger: Trigger, name: str | None, options: Mapping[str, Any]) -> ScheduleDecorator:
        def register(fn: Any) -> Any:
            return self._registry.add_scheduled_task(fn, name, trigger, options)

        return register

    @overload
    def on(self, kind: type[E], /) -> Callable[[Callable[[E], object]], Callable[[E], object]]: ...
    @overload
    def on(
        self, trigger: Trigger, /, *, name: str | None = None, **options: Unpack[ScheduleOptions]
    ) -> ScheduleDecorator: ...
    def on(self, kind: Any, /, *, name: str | None = None, **options: Any) -> Any:
        """Runs the function by any trigger, or subscribes it to a class of events.

        `@app.on(every().day.at("09:00"))` makes it a scheduled task, as `@app.cron` does. `@app.on(JobEnded)` calls it
        with each such event; a coroutine function is called on the event loop.
        """
        if not isinstance(kind, type):
            from .schedule.options import check_trigger

            check_trigger(name or "on", kind, "app.on()")
            return self._scheduled(kind, name, options)
        if name is not None or options:
            raise BadInput(f"app.on({kind.__name__}) takes no options: those are for schedules")

        def subscribe(act: Callable[[Any], object]) -> Callable[[Any], object]:
            self.events.subscribe(kind, act)
            return act

        return subscribe
