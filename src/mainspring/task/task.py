"""A task: a registered function with its name and options. It turns a call into a NewJob."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime, timedelta
from functools import cache, cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack, cast

from msgspec import UNSET
from msgspec.json import decode as decode_json
from msgspec.structs import replace

from ..codec import Arguments, ResultCodec, is_async
from ..errors import BadFlow, BadInput, BadTask
from ..ids import new_id
from ..records.job import NewJob
from ..suggest import unexpected_keyword
from .context import Context, Middleware
from .dedup_key import resolve_key
from .options import (
    CheckedOptions,
    Executor,
    StepOnlyOptions,
    UsingOptions,
    check_name,
    check_one_key,
    check_portable,
    checked_options,
    stored_options,
)
from .yields import NO_MAP_TAKES_ITEMS, does_yield, is_async_generator, is_generator

if TYPE_CHECKING:
    from ..app import Mainspring
    from ..records.outcome import Policy
    from ..records.plan import StepOptions
    from ..sync import SyncTask
    from .collect import Collector
    from .handle import Handle
    from .results import MapValue
    from .step_options import CheckedStepOptions

P = ParamSpec("P")
Q = ParamSpec("Q")
A = TypeVar("A")
R = TypeVar("R")


class Task(Generic[P, R]):
    """A registered function. Calling the task calls the function; enqueue() makes a job of the call."""

    def __init__(
        self,
        app: Mainspring,
        name: str,
        fn: Callable[..., Any],
        options: CheckedOptions,
        middleware: Sequence[Middleware] = (),
        stub: bool = False,
        is_flow: bool = False,
    ) -> None:
        self.app = app
        self.name = check_name(name, "task name")
        self.fn = fn
        self.options = options
        self.middleware = tuple(middleware)
        self.stub = stub
        """True: only the name and signature are known; the code is in another process."""
        self.results = ResultCodec(fn, name)
        self.is_flow = is_flow
        """True: the function plans a flow, and its steps are the work."""
        self.yields = not is_flow and does_yield(fn, stub, self.results.type)
        """True: what the function yields are the items of maps."""
        self.step_options: CheckedStepOptions | None = None
        """What using() has of the options that act only in a flow; None: nothing."""
        self.executor: Executor = _executor(fn, options, name, is_flow, self.yields)
        # The options of the calls: see stored_options().
        self.job_options = options if stub else CheckedOptions()
        from .results import Results

        self.arguments = Arguments(fn, name, Context, Results)
        if is_flow and self.arguments.context is not None:
            raise BadTask(f"flow {name!r} has no Context: its function only makes steps; use the Context in a task")
        if self.arguments.item_types and is_flow:
            raise BadTask(f"flow {name!r} cannot read results of a map: take list[…], or read them in a task")
        if self.arguments.item_types and self.executor == "process":
            raise BadTask(f"task {name!r} reads results of a map, which executor='process' cannot: take list[…] there")
        if options.limit is not None:
            _limits().check_parameters(options.limit, self.arguments.types, name)
        self.collector = None if options.collect is None else _collector(self)
        """Set if its jobs collect the items of several calls."""
        self.__doc__ = fn.__doc__

    @cached_property
    def _template(self) -> NewJob:
        """The job of any call without its id, arguments, times and keys: to copy it costs half of making one."""
        return job_template(self.name, self.options, self.job_options, self.arguments.fingerprint)

    @cached_property
    def _plain(self) -> NewJob | None:
        """The template, None if keys or times depend on the call."""
        self.refuse_step_options("this makes a job of its own")
        if self.yields:
            raise BadInput(f"task {self.name!r} {NO_MAP_TAKES_ITEMS}")
        options = self.options
        keys = options.unique_key is not None or options.idempotency_key is not None or has_own_key(options)
        return None if options.delay or options.run_at or options.expires or keys or self.collector else self._template

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)

    def using(self, **options: Unpack[UsingOptions]) -> Task[P, R]:
        """The same task with these options for the jobs, or the step, made with it."""
        for name in options:
            if name not in UsingOptions.__annotations__:
                raise unexpected_keyword("using", name, UsingOptions.__annotations__)
        given = checked_options(options, f"task {self.name!r}")
        for_steps = {name: given.pop(name) for name in StepOnlyOptions.__annotations__ if name in given}
        check_portable(given, self.name)
        if self.collector is not None:
            self.collector.check_call(options)
        if given.get("within") is not None:
            self.app.check_within()
        changed = object.__new__(Task)
        changed.__dict__.update(self.__dict__)
        for name in ("_template", "_plain", "_planned_options"):
            changed.__dict__.pop(name, None)
        changed.options = check_one_key(replace(self.options, **given), self.name)
        changed.job_options = replace(self.job_options, **given)
        if for_steps:
            from .step_options import CheckedStepOptions

            changed.step_options = replace(self.step_options or CheckedStepOptions(), **for_steps)
        return cast("Task[P, R]", changed)

    def with_function(self, fn: Callable[..., Any]) -> Task[P, R]:
        """The same task with another function of the same signature."""
        changed = copy(self)
        changed.fn = fn
        return changed

    def job(self, /, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """The call as data, for enqueue_many."""
        engine, plain = self.app._engine, self._plain
        if plain is None and self.collector is not None:
            limit = engine.settings.payload_limit
            return self.collector.job(self._template, args, kwargs, engine.clock.now(), limit)
        payload = self.arguments.encode(args, kwargs, engine.settings.payload_limit)
        now = engine.clock.now()
        if plain is not None:
            return replace(plain, id=new_id(now), payload=payload)
        return new_job(self._template, payload, self.options, now, lambda: self.arguments.bind(args, kwargs))

    async def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Stores the call as a job. The job is durable when this returns."""
        (handle,) = await self.app.insert([self.job(*args, **kwargs)], self.options.within)
        return handle

    # in a flow

    def step(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Adds the call as a step to the flow that is being planned, and returns its value, which is not known yet."""
        return cast("R", _flow_steps().add_step(self, args, kwargs))

    def map(
        self: Task[Concatenate[A, Q], R], items: Iterable[A] | AsyncIterable[A], /, *args: Q.args, **kwargs: Q.kwargs
    ) -> MapValue[R]:
        """Adds a step with a job for each item, which is the first argument; its value is the list of their results."""
        return cast("MapValue[R]", _flow_steps().add_map(self, items, args, kwargs))

    def planned_options(self) -> StepOptions:
        """The options of a step's jobs. Raises BadFlow for one that a step cannot have."""
        return self._planned_options

    @cached_property
    def _planned_options(self) -> StepOptions:
        from .step_options import planned_options

        fingerprint = None if self.stub else self.arguments.fingerprint
        return planned_options(self.options, self.job_options, fingerprint, self._group_of_steps())

    def _group_of_steps(self) -> str | None:
        """The limit_key of the jobs of its steps; of a map with at_once the name of its limit."""
        if self.step_options is not None and self.step_options.at_once is not None:
            name: str = _limits().at_once_name(self.step_options.at_once)
            return name
        if has_own_key(self.options):
            raise BadFlow(
                f"the limit of task {self.name!r} is by {self.options.limit.by!r}, and arguments of a step may be "  # type: ignore[union-attr]
                "values that are not known yet: say its key with using(limit_key=…)"
            )
        return self._template.limit_key

    def refuse_step_options(self, why: str) -> None:
        """Raises BadInput if using() was given options that act only in a flow."""
        if (given := self.step_options) is not None:
            from .step_options import given_options

            names = ", ".join(given_options(given))
            raise BadInput(
                f"task {self.name!r}: options of steps ({names}) act only in a flow, and {why}: "
                "call .step() or .map() in a function with @app.flow"
            )

    @property
    def sync(self) -> SyncTask[P, R]:
        """The same names for code that does not await."""
        from ..sync import SyncTask

        return SyncTask(self)

    def timeout(self, default: float) -> float | None:
        return default if self.options.timeout is UNSET else self.options.timeout

    def policy(self, default: Policy) -> Policy:
        """The task's retry rules, with the app's defaults where the task has none."""
        from ..records.outcome import Policy

        options = self.options
        return Policy(
            default.max_retries if options.max_retries is None else options.max_retries,
            options.backoff or default.backoff,
            options.retry_on,
            options.no_retry_on,
            options.breaker,
        )


def _collector(task: Task[Any, Any]) -> Collector:
    from .collect import Collector

    if task.yields:
        raise BadTask(f"task {task.name!r} yields the items of maps, so it cannot collect those of calls")
    return Collector(task.name, task.options.collect, task.arguments, task.options)


@cache
def _limits() -> ModuleType:
    """Imported when the first task has a limit."""
    from . import limit

    return limit


@cache
def _flow_steps() -> ModuleType:
    """Imported when the first flow is planned."""
    from ..flow import steps

    return steps


def job_template(
    task: str, options: CheckedOptions, job_options: CheckedOptions, fingerprint: str | None = None
) -> NewJob:
    """What the jobs of all calls with these options have in common. `job_options` are those of the calls alone."""
    stored = stored_options(options, job_options)
    key = None
    if (options.limit is not None or options.limit_key is not None) and not has_own_key(options):
        key = _limits().limit_key(options.limit, options.limit_key, task, dict)
    return NewJob(id="", task=task, payload="{}", fingerprint=fingerprint, limit_key=key, **stored)


def limit_key_of(task: Task[Any, Any], payload: str) -> str | None:
    """The group of a call whose arguments are encoded, in the limit of the task."""
    key: str | None = _limits().limit_key(
        task.options.limit, task.options.limit_key, task.name, lambda: decode_json(payload)
    )
    return key


def has_own_key(options: CheckedOptions) -> bool:
    """Whether each call has a key of its own in the limit of its task."""
    return options.limit is not None and options.limit.by is not None and options.limit_key is None


def new_job(
    template: NewJob,
    payload: str,
    options: CheckedOptions,
    now: datetime,
    values: Callable[[], Mapping[str, Any]],
) -> NewJob:
    """The job of a call. `values` returns the arguments by name; it is called only if a key needs them."""
    task = template.task
    run_at = options.run_at
    if run_at is None and options.delay:
        run_at = now + timedelta(seconds=options.delay)
    expires = options.expires
    if expires is not None and not isinstance(expires, datetime):
        try:
            expires = (run_at or now) + timedelta(seconds=expires)
        except OverflowError:
            raise BadInput(f"option expires of task {task!r} is beyond the calendar") from None
    unique = idempotency = None
    if options.unique_key is not None or options.idempotency_key is not None:
        given = values()
        unique = resolve_key(options.unique_key, "unique_key", task, given, options.queue, now)
        idempotency = resolve_key(options.idempotency_key, "idempotency_key", task, given, options.queue, now)
    group = template.limit_key
    if has_own_key(options):
        group = _limits().limit_key(options.limit, None, task, values)
    return replace(
        template,
        id=new_id(now),
        payload=payload,
        run_at=run_at,
        expires_at=expires,
        unique_key=unique,
        idempotency_key=idempotency,
        limit_key=group,
    )


def _executor(fn: Callable[..., Any], options: CheckedOptions, name: str, is_flow: bool, yields: bool) -> Executor:
    """Where the function runs. Raises BadTask if the options do not fit the function or each other."""
    if is_flow:
        _check_flow_function(fn, name)
    if yields and options.executor == "process":
        raise BadTask(f"task {name!r} yields, which executor='process' cannot: leave that out, or return a list")
    own: Executor = "async" if is_async(fn) or is_async_generator(fn) else "thread"
    chosen = options.executor or own
    if chosen not in ("process", own):
        what = "a coroutine function" if own == "async" else "a plain function"
        raise BadTask(f"task {name!r} is {what}: it runs with executor={own!r} or 'process', not {chosen!r}")
    if chosen != "process" and (options.memory_limit is not None or options.cpu_limit is not None):
        raise BadTask(f"task {name!r}: memory_limit and cpu_limit need a process of its own: executor='process'")
    soft, hard = options.soft_timeout, options.timeout
    if soft is not None and isinstance(hard, int | float) and soft >= hard:
        raise BadTask(f"task {name!r}: soft_timeout ({soft:g} s) must come before timeout ({hard:g} s)")
    if chosen == "process" and not _is_importable(fn):
        raise BadTask(
            f"task {name!r} has executor='process', so another process must find its function by name: "
            "define it at the top of a module"
        )
    return chosen


def _check_flow_function(fn: Callable[..., Any], name: str) -> None:
    if is_async(fn) or is_generator(fn) or is_async_generator(fn):
        raise BadTask(
            f"flow {name!r} is no plain function: write `def` without `async` and `yield`. It only plans: "
            "it makes steps, and the tasks of these do the work"
        )


def _is_importable(fn: Callable[..., Any]) -> bool:
    """Whether another process can import the function by its name."""
    name = getattr(fn, "__qualname__", "")
    return bool(name) and "<" not in name and bool(getattr(fn, "__module__", None))
