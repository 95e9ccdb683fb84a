"""Mainspring: the app, with its store, its registered tasks and schedules, and everything that uses them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import ExitStack, asynccontextmanager, contextmanager
from copy import copy
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, Unpack, cast, overload
from weakref import WeakKeyDictionary, WeakSet

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from .clock import EPOCH, Clock, StoreClock, SystemClock
from .codec import encode_call, is_async
from .config import Fire, load, read_span
from .control import Audit, Dead, Executions, Jobs, Keys, Queues, Schedules, Triggers, Webhooks, Workers
from .control.ground import Ground
from .control.queues import with_pauses
from .errors import BadInput, BadSetting, BadTask, JobExists, ShuttingDown, UnknownTask
from .events import Bus, E, Event, JobEnqueued, enqueued_event
from .feed.event import feed_filter
from .feed.hub import FeedHub, NumberedEvent
from .feed.publisher import FeedPublisher
from .health import Health, check_health
from .ids import JobId
from .insight.settings_report import sources
from .insight.stats import (
    MAX_WINDOW,
    Stats,
    figures_by,
    filter_tallies,
    resolution,
    runs_per_minute,
    sum_tallies,
    time_series,
    top_errors,
    total_figures,
)
from .leader import Leader
from .logs.event_log import log_events
from .middleware import Middleware
from .records.circuit import Breaker
from .records.job import INTERNAL, Enqueued, Job, NewJob, OnConflict, Shown, is_internal
from .records.outcome import Outcome, Policy
from .records.tally import SPAN_SECONDS, span_start
from .retry import Backoff
from .schedule.options import DeclaredSchedule, ScheduleOptions, check_call_options, check_trigger, declare, interval_of
from .span import Span, seconds
from .store import ScriptedStore, Store
from .stores import open_store
from .suggest import did_you_mean
from .sync import Sync
from .task.context import Context
from .task.dead_letter import DeadLetter, check_handler, with_dead_letter_jobs
from .task.dedup_key import KeySpec
from .task.handle import Handle
from .task.new_jobs import checked_jobs
from .task.options import (
    Executor,
    JobOptions,
    TaskOptions,
    check_name,
    check_one_key,
    check_portable,
    check_public,
    checked_options,
)
from .task.retention import Retention
from .task.task import Task, new_job
from .trigger import Cron, Trigger, cron
from .webhook.delivery import OPTIONS as DELIVERY
from .webhook.delivery import Delivery
from .webhook.dispatcher import COLLECTED_EVENTS, WebhookDispatcher
from .webhook.message_dedup import record_open_messages
from .webhook.record import QUEUE as WEBHOOKS
from .webhook.record import TASK as WEBHOOK
from .worker.pruner import Archive, Pruner
from .worker.runner import Runner
from .worker.scheduler import Scheduler
from .worker.worker import Worker

if TYPE_CHECKING:
    from .testing.harness import Harness, Mode

P = ParamSpec("P")
R = TypeVar("R")
Async = Coroutine[Any, Any, R]
Message = MutableMapping[str, Any]
ASGI = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]
"""A plain ASGI application, a function of scope, receive and send, as Starlette, FastAPI and others declare it."""
Errors = type[BaseException] | tuple[type[BaseException], ...]


# The leadership that fires schedules if the setting `fire` is "leader".
FIRING_LEADER = "mainspring.fire"
_JOB_OPTIONS = frozenset({"delay", "run_at", "within"})
_TASK_OPTIONS = frozenset(TaskOptions.__struct_fields__) - _JOB_OPTIONS
# Without the options of the code that runs: a stub only enqueues.
_STUB_OPTIONS = _TASK_OPTIONS - {
    "retry_on", "no_retry_on", "concurrency", "executor", "soft_timeout", "memory_limit", "cpu_limit", "failed_ratio",
    "breaker", "on_failure", "retention",
}  # fmt: skip


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


class Mainspring:
    """An application's jobs, schedules and workers.

    `store` is a URL (default: $MAINSPRING_STORE, else sqlite:///mainspring.db) or a Store. Every setting is a keyword
    as well: Mainspring(url, beat=1, lease=4).
    """

    def __init__(
        self,
        store: str | Store | None = None,
        *,
        clock: Clock | None = None,
        middleware: Sequence[Middleware] = (),
        **settings: Any,
    ) -> None:
        if store is not None and not isinstance(store, str) and not hasattr(store, "claim"):
            raise BadSetting(f"the store is given as a URL or as a Store; got {store!r:.80}")
        given = {"store": store, **settings} if isinstance(store, str) else settings
        self.settings = load(given)
        self.setting_sources = sources(given)
        _check_allowance(self.settings.webhook_allow)
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.middleware = list(middleware)
        self.events = Bus()
        self._workers: WeakSet[Worker] = WeakSet()
        self._handler: Task[Any, Any] | None = None
        self._archive: Archive | None = None
        self._delivery_task: Task[Any, Any] | None = None
        self._declared: dict[str, DeclaredSchedule] = {}
        corrected = StoreClock(clock or SystemClock())
        self._use(
            self._open_store(corrected) if store is None or isinstance(store, str) else store,
            corrected,
        )
        for kind in COLLECTED_EVENTS:
            self.events.subscribe(kind, self._dispatch_webhooks)
        log_events(self.events, debug=self.settings.log_level.lower() == "debug")

    def _open_store(self, clock: Clock) -> Store:
        settings = self.settings
        return open_store(
            settings.store, clock=clock, durability=settings.durability, api_key=settings.api_key, **settings.names
        )

    def _use(self, store: Store, clock: StoreClock) -> None:
        """Builds everything that depends on the store and the clock. The test harness calls it again with its own."""
        self._root = store
        self.clock = clock
        self._handles: WeakKeyDictionary[asyncio.AbstractEventLoop, Store] = WeakKeyDictionary()
        self._closed = False
        self._dispatcher = WebhookDispatcher(clock, self.events, self.opened)
        self.herald = self._publisher(clock)
        ground = Ground(self.opened, clock, self.events, self.tasks, self.settings, self._dispatcher)
        self.jobs = Jobs(ground, self._hand_over, self._handle)
        self.dead = Dead(ground, self.jobs)
        self.executions = Executions(ground)
        self.keys = Keys(ground)
        self.queues = Queues(ground)
        self.workers = Workers(ground)
        self.schedules = Schedules(ground, self._scheduler, self._handle)
        self.audit = Audit(ground)
        self.webhooks = Webhooks(ground, self.jobs, self._hand_over, self._handle)
        self.triggers = Triggers(ground, self.schedules, self.job, self._hand_over, self._handle)
        if self._remote:
            self._control_remotely(ground)

    def _publisher(self, clock: StoreClock) -> FeedPublisher:
        async def opened() -> Store:
            # A publisher that the test harness has replaced must not use the store that is restored afterwards.
            if self.herald is not herald:
                raise ShuttingDown("this app has another publisher of the live feed now")
            return await self.opened()

        herald = FeedPublisher(self.events, clock, opened)
        return herald

    @property
    def _remote(self) -> bool:
        """Whether the store is the HTTP API of another process, which executes the controls."""
        return self._root.capabilities.remote

    def _control_remotely(self, ground: Ground) -> None:
        from .client.facades import (
            RemoteJobs,
            RemoteKeys,
            RemoteQueues,
            RemoteSchedules,
            RemoteTriggers,
            RemoteWebhooks,
            RemoteWorkers,
        )

        self.jobs = RemoteJobs(ground, self._hand_over, self._handle)
        self.dead = Dead(ground, self.jobs)
        self.keys = RemoteKeys(ground)
        self.queues = RemoteQueues(ground)
        self.workers = RemoteWorkers(ground, self.jobs)
        self.schedules = RemoteSchedules(ground, self._scheduler, self._handle)
        self.webhooks = RemoteWebhooks(ground, self.jobs, self._hand_over, self._handle)
        self.triggers = RemoteTriggers(ground, self.schedules, self.job, self._hand_over, self._handle)

    def _dispatch_webhooks(self, event: Event) -> None:
        if not self._remote:  # the process that serves the API dispatches them
            self._dispatcher.collect(event)

    # life cycle

    async def __aenter__(self) -> Mainspring:
        self._closed = False
        await self.opened()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the app. Later calls raise ShuttingDown, until `async with app:` opens it again.

        Coroutine subscribers receive all earlier events first, within FLUSH_SECONDS.
        """
        await self.events.flush()
        self._closed = True
        await self.herald.close()
        for store in {id(store): store for store in self._handles.values()}.values():
            await store.close()
        self._handles.clear()

    async def opened(self) -> Store:
        """The store's handle for the running event loop. Opens it if necessary."""
        loop = asyncio.get_running_loop()
        store = self._handles.get(loop)
        if store is None:
            if self._closed:
                raise ShuttingDown("this app is closed; open it again with `async with app:`")
            await self._close_handles_of_closed_loops()
            store = self._root.clone() if self._handles else self._root
            await store.open()
            await self.clock.learn(store.time)
            self._handles[loop] = store
        self.herald.poke()
        return store

    async def _close_handles_of_closed_loops(self) -> None:
        # keyrefs() returns a list at once: other threads may open the app for their own event loops meanwhile.
        for other in [reference() for reference in self._handles.keyrefs()]:
            if other is not None and other.is_closed():
                handle = self._handles.pop(other, None)
                if handle is not None and handle.clone() is not handle:  # else other loops use the same one
                    await handle.close()

    def through(self, wrap: Callable[[Store], Store]) -> None:
        """Wraps the store, before the app is opened. Raises BadInput if it is open."""
        if self._handles:
            raise BadInput("this app is open: what wraps its store has to come before")
        self._root = wrap(self._root)

    @property
    def is_open(self) -> bool:
        return bool(self._handles)

    @property
    def sync(self) -> Any:
        """The same methods for code that does not await: app.sync.jobs.get(id)."""
        return Sync(self)

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
        queue: str | UnsetType = UNSET,
        priority: int | UnsetType = UNSET,
        timeout: Span | UnsetType | None = UNSET,
        max_retries: int | UnsetType = UNSET,
        backoff: Backoff | Callable[[int], Span] | UnsetType = UNSET,
        retry_on: Errors | UnsetType = UNSET,
        no_retry_on: Errors | UnsetType = UNSET,
        concurrency: int | UnsetType = UNSET,
        executor: Executor | UnsetType = UNSET,
        soft_timeout: Span | UnsetType = UNSET,
        memory_limit: int | str | UnsetType = UNSET,
        cpu_limit: Span | UnsetType = UNSET,
        failed_ratio: float | UnsetType = UNSET,
        breaker: Breaker | UnsetType = UNSET,
        on_failure: Task[[DeadLetter], Any] | UnsetType = UNSET,
        retention: Retention | Mapping[str, Retention] | UnsetType = UNSET,
        unique_key: KeySpec | UnsetType = UNSET,
        idempotency_key: KeySpec | UnsetType = UNSET,
        on_conflict: OnConflict | UnsetType = UNSET,
        debounce_limit: Span | UnsetType = UNSET,
        expires: Span | UnsetType = UNSET,
        tags: Sequence[str] | UnsetType = UNSET,
        metadata: Mapping[str, Any] | UnsetType = UNSET,
        middleware: Sequence[Middleware] = (),
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
        return self._registrar(fn, name, options, middleware, stub=False)

    @overload
    def stub(self, fn: Callable[P, Async[R]], /) -> Task[P, R]: ...
    @overload
    def stub(self, fn: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def stub(
        self,
        fn: None = None,
        /,
        *,
        name: str | None = None,
        queue: str | UnsetType = UNSET,
        priority: int | UnsetType = UNSET,
        timeout: Span | UnsetType | None = UNSET,
        max_retries: int | UnsetType = UNSET,
        backoff: Backoff | UnsetType = UNSET,
        unique_key: KeySpec | UnsetType = UNSET,
        idempotency_key: KeySpec | UnsetType = UNSET,
        on_conflict: OnConflict | UnsetType = UNSET,
        debounce_limit: Span | UnsetType = UNSET,
        expires: Span | UnsetType = UNSET,
        tags: Sequence[str] | UnsetType = UNSET,
        metadata: Mapping[str, Any] | UnsetType = UNSET,
    ) -> Decorator: ...
    def stub(self, fn: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Any) -> Any:
        """A task whose code is in another process. The function's name and signature are used; its body never runs."""
        return self._registrar(fn, name, options, (), stub=True)

    def _registrar(
        self,
        fn: Callable[..., Any] | None,
        name: str | None,
        options: Mapping[str, Any],
        middleware: Sequence[Middleware],
        stub: bool,
    ) -> Any:
        def register(fn: Callable[..., Any]) -> Task[Any, Any]:
            if not callable(fn):
                raise BadTask(f"@app.task takes a function, got {fn!r}; options go by name: @app.task(queue=…)")
            title = str(name or getattr(fn, "__name__", ""))
            if not title or title == "<lambda>":
                raise BadTask("this function has no name of its own; give the task one: name='…'")
            if is_internal(title):
                raise BadTask(f"task {title!r}: names that begin with {INTERNAL!r} are internal; give it another name=")
            if title in self.tasks:
                raise BadTask(f"a task named {title!r} is registered already; give this one another name=")
            known = _STUB_OPTIONS if stub else _TASK_OPTIONS
            for key in options:
                if key not in known:
                    if key in TaskOptions.__struct_fields__:
                        raise BadTask(f"task {title!r}: option {key} does not belong on a {'stub' if stub else 'task'}")
                    way = did_you_mean(key, known | {"name"} | (set() if stub else {"middleware"}))
                    raise BadTask(f"task {title!r}: unexpected keyword argument {key!r}; {way}")
            given = checked_options(
                {key: value for key, value in options.items() if value is not UNSET}, f"task {title!r}"
            )
            if stub:
                check_portable(given, title)
            layers = middleware if isinstance(middleware, Sequence) else (middleware,)
            if not all(is_async(layer) for layer in layers):
                raise BadTask(f"task {title!r}: middleware is a list of `async def layer(ctx, call_next)` functions")
            handler = given.get("on_failure")
            if handler is not None and check_handler(handler).app is not self:
                raise BadTask(f"task {title!r}: on_failure is task {handler.name!r} of another app; register it here")
            settled = check_one_key(TaskOptions(**given), title)
            self.tasks[title] = Task(self, title, fn, settled, middleware, stub)
            return self.tasks[title]

        return register if fn is None else register(fn)

    @overload
    def dead_letter(self, fn: Callable[[DeadLetter], Async[R]], /) -> Task[[DeadLetter], R]: ...
    @overload
    def dead_letter(self, fn: Callable[[DeadLetter], R], /) -> Task[[DeadLetter], R]: ...
    def dead_letter(self, fn: Callable[..., Any], /) -> Any:
        """Registers the handler of dead letters: a task that runs, as a job of its own, for every job that dies."""
        if self._handler is not None:
            raise BadTask(f"the dead-letter handler is {self._handler.name!r} already; an app has one")
        task = fn if isinstance(fn, Task) else self.task(queue=self.settings.dead_queue)(fn)
        try:
            self._handler = check_handler(task)
        except BadTask:
            if task is not fn:
                del self.tasks[task.name]
            raise
        return task

    def archive(self, hook: Archive) -> Archive:
        """Registers a function, async or not, that is called with finished jobs before retention deletes them."""
        if not callable(hook):
            raise BadInput(f"@app.archive takes a function of a list of Archived, got {hook!r:.80}")
        if self._archive is not None:
            raise BadInput("the archive hook is set already; an app has one")
        self._archive = hook
        return hook

    # schedules

    def schedule(
        self, name: str, trigger: Trigger, task: Task[Any, Any], /, **options: Unpack[ScheduleOptions]
    ) -> None:
        """Declares a schedule. Workers store it when they start, and fire it from then on.

        app.schedule("daily-report", cron("0 9 * * mon-fri"), report, kwargs={"kind": "daily"})
        """
        if check_name(name, "schedule name") in self._declared:
            raise BadInput(f"a schedule named {name!r} is declared already; give this one another name")
        if isinstance(task, Task) and task.app is not self:
            raise BadTask(f"schedule {name!r}: task {task.name!r} is of another app; register it here")
        if isinstance(task, str):
            raise BadInput(f"schedule {name!r} takes the task itself, not its name, {task!r}; or an @app.stub")
        self._declared[name] = declare(name, trigger, task, options, self.settings.payload_limit)

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
        units = {"weeks": weeks, "days": days, "hours": hours, "minutes": minutes, "seconds": seconds}
        return self._scheduled(interval_of(span, units, options), name, options)

    def _scheduled(self, trigger: Trigger, name: str | None, options: Mapping[str, Any]) -> ScheduleDecorator:
        def register(fn: Any) -> Any:
            is_new = not isinstance(fn, Task)
            task: Task[Any, Any] = self._registrar(fn, None, {}, (), stub=False) if is_new else fn
            try:
                self.schedule(name or task.name, trigger, task, **options)
            except BadInput:
                if is_new:
                    del self.tasks[task.name]
                raise
            return task

        return register

    def _scheduler(self, fire: Fire = "any") -> Scheduler:
        arguments = {name: task.arguments for name, task in self.tasks.items()}
        return Scheduler(
            self.clock,
            self.events,
            self._declared,
            arguments,
            payload_limit=self.settings.payload_limit,
            fires=fire != "never",
            leader=self._candidate(FIRING_LEADER) if fire == "leader" else None,
        )

    def _handle(self, enqueued: Enqueued, task: str) -> Handle[Any]:
        known = self.tasks.get(task)
        return Handle(self, enqueued) if known is None else Handle(self, enqueued, known.results)

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
            check_trigger(name or "on", kind, "app.on()")
            return self._scheduled(kind, name, options)
        if name is not None or options:
            raise BadInput(f"app.on({kind.__name__}) takes no options: those are for schedules")

        def subscribe(act: Callable[[Any], object]) -> Callable[[Any], object]:
            self.events.subscribe(kind, act)
            return act

        return subscribe

    async def watch(
        self,
        *,
        types: Sequence[str] | None = None,
        jobs: Sequence[JobId] | None = None,
        queues: Sequence[str] | None = None,
        tasks: Sequence[str] | None = None,
        schedules: Sequence[str] | None = None,
        states: Sequence[Shown] | None = None,
        after: int | None = None,
    ) -> AsyncGenerator[NumberedEvent, None]:
        """The live feed of all processes: `async for item in app.watch(types=["job"])`.

        It begins now, or after the number `after`.
        """
        wish = feed_filter(types=types, jobs=jobs, queues=queues, tasks=tasks, schedules=schedules, states=states)
        stand = FeedHub(self.opened, self.clock, self.herald, beat=self.settings.beat)
        async with stand.reader(after, catch_up=True) as reader:
            while stand.open:
                for item in await reader.read(None):
                    if wish.matches(item.notice):
                        yield item

    # enqueue

    async def enqueue(self, task: str, /, **arguments: Any) -> Handle[Any]:
        """Enqueues a job by its task's name, for a process that does not have the task's code."""
        (handle,) = await self.hand_over([self.job(task, arguments)])
        return handle

    def job(self, task: str, arguments: Mapping[str, Any], **options: Unpack[JobOptions]) -> NewJob:
        """A call as data, by the task's name, for enqueue_many(). An app without tasks cannot check the arguments."""
        check_public(task, "enqueue")
        known = self.tasks.get(task)
        if known is not None:
            made: NewJob = (known.using(**options) if options else known).job(**arguments)
            return made
        if self.tasks:
            raise UnknownTask(f"no task {task!r} is registered in this app; {did_you_mean(task, self.tasks)}")
        payload = encode_call(check_name(task, "task name"), arguments, self.settings.payload_limit)
        given = checked_options(options, f"task {task!r}")
        check_portable(given, task)
        checked = check_one_key(TaskOptions(**given), task)
        return new_job(task, payload, checked, checked, self.clock.now(), lambda: arguments)

    def check_within(self) -> None:
        """Raises BadInput if the store has no transactions for `within=`, before the caller has written anything."""
        self._root.capabilities.require_transactions("within=")

    async def enqueue_many(self, jobs: Iterable[NewJob], *, within: Any = None) -> list[Handle[Any]]:
        """Enqueues all jobs or none, in one round trip: enqueue_many(send.job(to) for to in people)."""
        return await self.hand_over(checked_jobs(jobs, "enqueue_many"), within)

    async def _hand_over(self, jobs: Sequence[NewJob]) -> list[Handle[Any]]:
        """Calls hand_over() by its current value: the test harness may have replaced it."""
        return await self.hand_over(jobs)

    async def enqueue_by_hand(self, jobs: Sequence[NewJob]) -> list[Handle[Any]]:
        """As enqueue_many(), for jobs that a person enqueues: the audit log records it as jobs.enqueue."""
        jobs = checked_jobs(jobs, "enqueue_by_hand")
        return await (self.hand_over(jobs) if self._remote else self.audit.enqueue(jobs, self._hand_over))

    async def hand_over(self, jobs: Sequence[NewJob], within: Any = None) -> list[Handle[Any]]:
        """Stores new jobs. Every job that the app enqueues passes here."""
        if not jobs:
            return []
        if within is not None:
            self.check_within()
        if self.middleware:
            with self.producing(jobs) as jobs:
                return await self._store(jobs, within)
        return await self._store(jobs, within)

    @contextmanager
    def producing(self, jobs: Sequence[NewJob]) -> Iterator[Sequence[NewJob]]:
        """The jobs, as changed by middleware that takes part in enqueueing, such as tracing. The block stores them."""
        with ExitStack() as around:
            for layer in self.middleware:
                if (produced := getattr(layer, "producing", None)) is not None:
                    jobs = around.enter_context(produced(jobs))
            yield jobs

    async def _store(self, jobs: Sequence[NewJob], within: Any) -> list[Handle[Any]]:
        store, now = await self.opened(), self.clock.now()
        answers = await store.enqueue(jobs, now=now, within=within)
        for answer in answers:
            if answer.status == "refused" and answer.key is not None:
                raise JobExists(answer.key, answer.id)
        # With `within` there is no event: the caller has not committed, and may never do so.
        if within is None and self.events.wants(JobEnqueued):
            for job, answer in zip(jobs, answers, strict=True):
                if answer.status != "refused":
                    self.events.emit(enqueued_event(now, job, answer))
        return [self._handle(answer, job.task) for job, answer in zip(jobs, answers, strict=True)]

    # run

    def worker(
        self,
        *,
        queues: Sequence[str] | Mapping[str, int | None] | None = None,
        concurrency: int | None = None,
        recycle: bool = False,
    ) -> Worker:
        """A worker for these queues (default: all). A mapping has the maximum number of slots of each queue.

        With `recycle` the worker ends when its process reaches a limit of the settings recycle_*.
        """
        settings = self.settings if concurrency is None else load({"concurrency": concurrency}, {})
        settings = replace(self.settings, concurrency=settings.concurrency)
        real = {name: task for name, task in self.tasks.items() if not task.stub}
        if not real and WEBHOOKS not in (queues or ()):
            raise BadInput("this app has no tasks, so a worker would have nothing to run: register some with @app.task")
        if queues is not None:
            if isinstance(queues, str) or not isinstance(queues, Sequence | Mapping) or not queues:
                raise BadInput(f"queues takes a list of names or a mapping of name to slots, got {queues!r}")
            for name in queues:
                check_name(name, "queue name")
            limits = list(queues.values()) if isinstance(queues, Mapping) else []
            if any(limit is not None and (type(limit) is not int or limit < 1) for limit in limits):
                raise BadInput(f"a queue's slots are a whole number of at least 1, or None; got {queues!r}")
        if queues is None or WEBHOOKS in queues:
            real[WEBHOOK] = self._delivery()
        runner = Runner(
            real,
            self.middleware,
            self.clock,
            timeout=settings.default_timeout,
            policy=Policy(settings.retry_max, settings.backoff),
            result_limit=settings.result_limit,
            max_crashes=settings.max_crashes,
            skew=settings.skew,
        )
        worker = Worker(
            opened=self.opened,
            runner=runner,
            tasks={name: task.options.concurrency for name, task in real.items()},
            queues=queues,
            settings=settings,
            clock=self.clock,
            bus=self.events,
            recycle=recycle,
            on_dead=self._with_dead_letter_jobs,
            scheduler=self._scheduler(settings.fire),
            pruner=self._pruner(real),
            herald=self.herald,
            crier=self._dispatcher,
        )
        self._workers.add(worker)
        return worker

    def _delivery(self) -> Task[Any, Any]:
        """The internal task that delivers webhooks, for one worker. Its decoder is built once for the app."""
        deliver = Delivery(self.clock, self.settings, self.opened).deliver
        if self._delivery_task is None:
            self._delivery_task = Task(self, WEBHOOK, deliver, DELIVERY)
        task = copy(self._delivery_task)
        task.fn = deliver
        return task

    def leader(self, name: str, *, ttl: Span | None = None) -> Leader:
        """A new candidate for the leadership of this name: app.leader("reindex").

        If a leader dies, another candidate leads within `ttl` (default: the setting leader_ttl).
        """
        if check_name(name, "leader's name").startswith("mainspring."):
            raise BadInput(f"leaders whose names begin with 'mainspring.' are the engine's own, got {name!r}")
        return self._candidate(name, None if ttl is None else read_span(ttl, f"leader {name!r}: ttl"))

    def _candidate(self, name: str, ttl: float | None = None) -> Leader:
        settings = self.settings
        return Leader(
            name,
            ttl=ttl or settings.leader_ttl,
            refresh=ttl / 3 if ttl else settings.leader_refresh,
            poll=settings.poll_interval,
            opened=self.opened,
            clock=self.clock,
            bus=self.events,
            instance=settings.instance_id,
        )

    def _with_dead_letter_jobs(self, job: Job, outcome: Outcome) -> Outcome:
        """The outcome of a run, with jobs for the dead-letter handlers if the job is dead."""
        task = self.tasks.get(job.task)
        handlers = (task.options.on_failure if task else None, self._handler)
        return with_dead_letter_jobs(job, outcome, [handler for handler in handlers if handler is not None])

    async def drain(self, *, queues: Sequence[str] | None = None) -> int:
        """Runs jobs in this process until none is due. Returns the number of runs. For tests and scripts."""
        return await self.worker(queues=queues).drain()

    def testing(self, mode: Mode = "manual", *, raises: bool = True) -> Harness:
        """For tests: replaces the store by an empty memory store and the clock by a virtual one, inside a block.

        Manual: jobs wait until the test runs them. Inline: `enqueue` runs them, and raises if they fail.
        """
        from .testing.harness import Harness

        return Harness(self, mode, raises=raises)

    def asgi(self, *, auth: bool = True) -> ASGI:
        """The REST API as an ASGI application, to serve alone or to mount under any prefix of another.

        Without `auth` every client is an admin, and only clients on this machine are served. While there is no API key,
        the first request logs a link to sign in with.
        """
        from .api.service import asgi

        return asgi(self, auth=auth)

    # insight

    async def stats(
        self, window: Span | None = timedelta(hours=1), *, queue: str | None = None, task: str | None = None
    ) -> Stats:
        """Statistics: jobs by state, and the runs of the last `window` (None: all) by task, by queue and over time.

        `queue` and `task` filter the run statistics, not the job counts.
        """
        window = None if window is None else timedelta(seconds=seconds(window, "stats()", math.inf))
        if window is not None and not timedelta(0) < window <= MAX_WINDOW:
            raise BadInput(f"statistics reach back up to {MAX_WINDOW.days} days, or for ever (None); got {window}")
        if self._remote:
            from .client.stats import stats

            return await stats(self.opened, window, queue, task)
        store, now = await self.opened(), self.clock.now()
        span = resolution(window)
        since = EPOCH if window is None else span_start(now - window, span)
        tallies = filter_tallies(await store.tallies(span, since=since), queue, task)
        step, whole = timedelta(seconds=SPAN_SECONDS[span]), sum_tallies(tallies)
        overview, points = await store.overview(now=now), time_series(tallies, since, now, step) if step else []
        return Stats(
            queues=await with_pauses(store, overview.queues, now),
            window=window,
            total=total_figures(whole),
            by_task=figures_by(whole, "task"),
            by_queue=figures_by(whole, "queue"),
            series=points,
            per_minute=runs_per_minute(points, now, step),
            errors=top_errors(whole),
            **{str(state): n for state, n in overview.states.items()},
        )

    async def health(self, *, store: bool = True) -> Health:
        """Whether the workers of this process make progress and, with `store`, whether the store answers."""
        return await check_health(self.opened, list(self._workers), store=store)

    async def prune(self, tasks: Sequence[str] | None = None) -> int:
        """Deletes finished jobs that retention does not keep, as workers do regularly. Returns their number.

        `tasks` are names of tasks, known to this app or not. None: those it has code for, or all if it has none.
        """
        if isinstance(tasks, str):
            raise BadInput(f"tasks takes a list of names, got {tasks!r}")
        known = [WEBHOOK, *(name for name, task in self.tasks.items() if not task.stub)] if self.tasks else None
        pruner = self._pruner(known if tasks is None else [check_name(name, "task name") for name in tasks])
        return await pruner.prune(await self.opened())

    def _pruner(self, tasks: Collection[str] | None) -> Pruner:
        own = {name: task.options.retention for name, task in self.tasks.items()}
        return Pruner(
            self.settings, own, self.clock, self.events, self._archive, tasks=tasks, before=record_open_messages
        )

    async def migrate(self, target: int | None = None) -> list[int]:
        """Migrates the store's schema. Returns the versions passed through."""
        if target is not None and (isinstance(target, bool) or not isinstance(target, int) or target < 0):
            raise BadSetting(f"a schema version is a whole number, got {target!r}")
        async with self.unmigrated() as store:
            return await store.migrate(target)

    def migration(self, at: int, target: int | None = None) -> str:
        """The statements that migrate the store's schema from one version to another, to be run by hand."""
        self._root.capabilities.require_scripts()
        return cast(ScriptedStore, self._root).script(at, target)

    @asynccontextmanager
    async def unmigrated(self) -> AsyncIterator[Store]:
        """The store without a migration of its schema, to inspect or migrate it. Closed afterwards, unless the app was
        open."""
        store = self._handles.get(asyncio.get_running_loop())
        if store is None:
            store = self._root.clone() if self._handles else self._root
            await store.open(migrate=False)
        try:
            yield store
        finally:
            if store not in self._handles.values():
                await store.close()


def _check_allowance(hosts: Sequence[str]) -> None:
    if hosts:
        from .webhook.address import AllowList

        AllowList(hosts)
