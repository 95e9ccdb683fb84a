"""Engine: one store and one clock, with every service of an app on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Unpack, cast
from weakref import WeakKeyDictionary, WeakSet

from msgspec.structs import replace

from . import control
from .clock import StoreClock
from .codec import ResultCodec, encode_call
from .config import Fire, Settings
from .control.facades import Facades
from .errors import BadInput, JobExists, ShuttingDown, UnknownTask
from .events import COLLECTED_EVENTS, Bus, Event, JobEnqueued, enqueued_event
from .lazy import lazy_property
from .records.flow import PLANNED_FLOW
from .records.job import Enqueued, NewJob
from .registry import Registry
from .suggest import did_you_mean, unexpected_keyword
from .task.handle import UNKNOWN_RESULTS, Handle
from .task.options import (
    CheckedOptions,
    JobOptions,
    check_name,
    check_one_key,
    check_portable,
    check_public,
    checked_options,
)
from .task.task import Task, job_template, limit_key_of, new_job

if TYPE_CHECKING:
    from .feed.publisher import FeedPublisher
    from .health import Health
    from .leader import Leader
    from .store import ScriptedStore, Store
    from .webhook.dispatcher import WebhookDispatcher
    from .worker.pruner import Pruner
    from .worker.scheduler import Scheduler
    from .worker.worker import Worker

# The leadership that fires schedules if the setting `fire` is "leader".
FIRING_LEADER = "mainspring.fire"


class Engine(Facades):
    """Inserts jobs, controls them, and makes the parts of workers. It is complete when its constructor returns; its
    services are made when they are first used.

    An app has one engine, and another one inside app.testing(). Events go to the app's bus, which outlives both.
    """

    def __init__(self, store: Store, clock: StoreClock, registry: Registry, settings: Settings, bus: Bus) -> None:
        self.clock = clock
        self.registry = registry
        self.tasks = registry.tasks
        self.settings = settings
        self.events = bus
        self._root = store
        self._handles: WeakKeyDictionary[asyncio.AbstractEventLoop, Store] = WeakKeyDictionary()
        self._closed = False
        self._local_workers: WeakSet[Worker] = WeakSet()
        self._delivery_task: Task[Any, Any] | None = None
        self.remote = store.capabilities.remote
        """Whether the store is the HTTP API of another process, which executes the controls."""
        self.has_flows = store.capabilities.flows
        """Whether the store has flows."""
        self.lacks_limits = not (store.capabilities.limits or store.capabilities.remote)
        self._attached = False
        self.attach()

    # services

    @lazy_property
    def dispatcher(self) -> WebhookDispatcher:
        from .webhook.dispatcher import WebhookDispatcher

        return WebhookDispatcher(self.clock, self.events, self.connect)

    @lazy_property
    def feed(self) -> FeedPublisher:
        from .feed.publisher import FeedPublisher

        return FeedPublisher(self.events, self.clock, self._connect_feed)

    def make_facade(self, name: str) -> Any:
        """A facade of the class of that name. client/ has those of a store that is an API."""
        if self.remote:
            from .client.facades import REMOTE

            if name in REMOTE:
                return REMOTE[name](self)
        return getattr(control, name)(self)

    # events

    def attach(self) -> None:
        """Receives the app's events, for webhooks and the live feed, from its construction until detach()."""
        if not self._attached:
            self._attached = True
            # The process that serves an API dispatches the webhooks.
            for kind in () if self.remote else COLLECTED_EVENTS:
                self.events.subscribe(kind, self._collect)

    def detach(self) -> None:
        """Receives no more events: another engine is the app's now."""
        self._attached = False
        for kind in () if self.remote else COLLECTED_EVENTS:
            self.events.unsubscribe(kind, self._collect)
        self.feed.stop()

    def _collect(self, event: Event) -> None:
        self.dispatcher.collect(event)

    async def _connect_feed(self) -> Store:
        if not self._attached:
            raise ShuttingDown("this app has another engine now, which publishes its events")
        return await self.connect()

    # life cycle

    async def open(self) -> None:
        """Opens the store, also after close()."""
        self._closed = False
        await self.connect()

    async def close(self) -> None:
        """Closes the store. Coroutine subscribers receive all earlier events first, within FLUSH_SECONDS."""
        await self.events.flush()
        self._closed = True
        await self.feed.close()
        for store in {id(store): store for store in self._handles.values()}.values():
            await store.close()
        self._handles.clear()

    @property
    def is_open(self) -> bool:
        return bool(self._handles)

    async def connect(self) -> Store:
        """The store's handle for the running event loop. Opens it if necessary."""
        loop = asyncio.get_running_loop()
        store = self._handles.get(loop)
        if store is None:
            if self._closed:
                raise ShuttingDown("this app is closed; open it again with `async with app:`")
            await self._close_handles_of_closed_loops()
            store = self._root.clone() if self._handles else self._root
            self.load_services()
            await store.open()
            await self.clock.learn(store.time)
            self._handles[loop] = store
        self.feed.poke()
        return store

    async def connect_to_work(self) -> Store:
        """As connect(), for a worker: the store has the limits that the code says before anything is claimed."""
        store = await self.connect()
        if limited := [task for task in self.tasks.values() if task.options.limit is not None]:
            from .control.limits import declare_limits

            await declare_limits(store, limited, self.clock.now())
        return store

    def load_services(self) -> None:
        """Imports what calls use once the app is open: an import within a request would hold up its event loop."""
        for name in ("feed", "jobs"):
            getattr(self, name)

    async def _close_handles_of_closed_loops(self) -> None:
        # keyrefs() returns a list at once: other threads may open the app for their own event loops meanwhile.
        for other in [reference() for reference in self._handles.keyrefs()]:
            if other is not None and other.is_closed():
                handle = self._handles.pop(other, None)
                if handle is not None and handle.clone() is not handle:  # else other loops use the same one
                    await handle.close()

    @asynccontextmanager
    async def connect_unmigrated(self) -> AsyncIterator[Store]:
        """The store without a migration of its schema, to inspect or migrate it. Closed afterwards, unless the engine
        was open."""
        store = self._handles.get(asyncio.get_running_loop())
        if store is None:
            store = self._root.clone() if self._handles else self._root
            await store.open(migrate=False)
        try:
            yield store
        finally:
            if store not in self._handles.values():
                await store.close()

    def wrap_store(self, wrap: Callable[[Store], Store]) -> None:
        """Wraps the store, before it is opened. Raises BadInput if it is open."""
        if self._handles:
            raise BadInput("this app is open: what wraps its store has to come before")
        self._root = wrap(self._root)

    def migration(self, at: int, target: int | None) -> str:
        """The statements that migrate the store's schema from one version to another."""
        self._root.capabilities.require_scripts()
        return cast("ScriptedStore", self._root).script(at, target)

    # enqueue

    def job(self, task: str, arguments: Mapping[str, Any], **options: Unpack[JobOptions]) -> NewJob:
        """A call as data, by the task's name. An app without tasks cannot check the arguments."""
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
        checked = check_one_key(CheckedOptions(**given), task)
        return new_job(job_template(task, checked, checked), payload, checked, self.clock.now(), lambda: arguments)

    def check_flows(self, tasks: Iterable[str]) -> None:
        """Raises BadInput if one of these tasks is a flow, and the store has no flows."""
        if not self.has_flows and not self.remote:
            for name in tasks:
                if (task := self.tasks.get(name)) is not None and task.is_flow:
                    self._root.capabilities.require_flows()

    def flow_job(self, name: str, options: Mapping[str, Any], task: str = PLANNED_FLOW) -> tuple[NewJob, Any]:
        """The job of a flow that comes with its plan, still without it; and the transaction that it is part of."""
        kind = "flow" if task == PLANNED_FLOW else "batch"
        flow = check_name(name, f"{kind} name")
        if unknown := [one for one in options if one not in JobOptions.__annotations__]:
            raise unexpected_keyword("plan", unknown[0], JobOptions.__annotations__)
        given = checked_options(options, f"{kind} {flow!r}")
        checked = check_one_key(CheckedOptions(**given), flow)
        template = job_template(task, replace(checked, metadata={kind: flow, **checked.metadata}), checked)
        return new_job(template, "{}", checked, self.clock.now(), dict), checked.within

    def check_within(self) -> None:
        """Raises BadInput if the store has no transactions for `within=`, before the caller has written anything."""
        self._root.capabilities.require_transactions("within=")

    async def insert(self, jobs: Sequence[NewJob], within: Any = None) -> list[Handle[Any]]:
        """Stores new jobs. Every job that the app enqueues passes here."""
        if not jobs:
            return []
        if within is not None:
            self.check_within()
        if not self.has_flows:
            self.check_flows(job.task for job in jobs)
        if self.lacks_limits and any(job.limit_key is not None for job in jobs):
            self._root.capabilities.require_limits()
        if self.registry.middleware:
            with self.producing(jobs) as jobs:
                return await self._insert(jobs, within)
        return await self._insert(jobs, within)

    @contextmanager
    def producing(self, jobs: Sequence[NewJob]) -> Iterator[Sequence[NewJob]]:
        """The jobs, as changed by middleware that takes part in enqueueing, such as tracing. The block stores them."""
        with ExitStack() as around:
            for layer in self.registry.middleware:
                if (produced := getattr(layer, "producing", None)) is not None:
                    jobs = around.enter_context(produced(jobs))
            yield jobs

    async def _insert(self, jobs: Sequence[NewJob], within: Any) -> list[Handle[Any]]:
        store, now = await self.connect(), self.clock.now()
        answers = await store.enqueue(jobs, now=now, within=within)
        for answer in answers:
            if answer.status == "refused" and answer.key is not None:
                raise JobExists(answer.key, answer.id)
        # With `within` there is no event: the caller has not committed, and may never do so.
        if within is None and self.events.wants(JobEnqueued):
            for job, answer in zip(jobs, answers, strict=True):
                if answer.status != "refused":
                    self.events.emit(enqueued_event(now, job, answer))
        results = {task: self._results(task) for task in {job.task for job in jobs}}
        return [Handle(self, answer, results[job.task]) for job, answer in zip(jobs, answers, strict=True)]

    def handle(self, enqueued: Enqueued, task: str) -> Handle[Any]:
        return Handle(self, enqueued, self._results(task))

    def _results(self, task: str) -> ResultCodec:
        known = self.tasks.get(task)
        return UNKNOWN_RESULTS if known is None else known.results

    # parts of workers

    def configure(self, settings: Settings) -> None:
        """Replaces the settings, for workers and calls from now on."""
        self.settings = settings

    def scheduler(self, fire: Fire = "any") -> Scheduler:
        from .worker.scheduler import Scheduler

        self.check_flows(declared.spec.task for declared in self.registry.schedules.values())
        return Scheduler(
            self.clock,
            self.events,
            self.registry.schedules,
            {name: task.arguments for name, task in self.tasks.items()},
            payload_limit=self.settings.payload_limit,
            fires=fire != "never",
            leader=self.candidate(FIRING_LEADER) if fire == "leader" else None,
            limit_key=self.limit_key if any(one.options.limit is not None for one in self.tasks.values()) else None,
        )

    def limit_key(self, task: str, payload: str) -> str | None:
        """The group of a job that a schedule makes, in the limit of its task."""
        known = self.tasks.get(task)
        return None if known is None or known.options.limit is None else limit_key_of(known, payload)

    def candidate(self, name: str, ttl: float | None = None) -> Leader:
        """A new candidate for the leadership of this name."""
        from .leader import Leader

        settings = self.settings
        return Leader(
            name,
            ttl=ttl or settings.leader_ttl,
            refresh=ttl / 3 if ttl else settings.leader_refresh,
            poll=settings.poll_interval,
            connect=self.connect,
            clock=self.clock,
            bus=self.events,
            instance=settings.instance_id,
        )

    def pruner(self, tasks: Collection[str] | None) -> Pruner:
        """The pruner of these tasks' jobs; None: of all jobs."""
        from .webhook.message_dedup import record_open_messages
        from .worker.pruner import Pruner

        own = {name: task.options.retention for name, task in self.tasks.items()}
        hook = self.registry.archive_hook
        return Pruner(self.settings, own, self.clock, self.events, hook, tasks=tasks, before=record_open_messages)

    def delivery_task(self) -> Task[Any, Any]:
        """The internal task that delivers webhooks, for one worker. Its decoder is built once."""
        from .webhook.delivery import OPTIONS, Delivery
        from .webhook.record import TASK

        deliver = Delivery(self.clock, self.settings, self.connect).deliver
        if self._delivery_task is None:
            self._delivery_task = self.registry.new_task(TASK, deliver, OPTIONS)
        return self._delivery_task.with_function(deliver)

    def add_worker(self, worker: Worker) -> None:
        """Adds a worker of this process, for health()."""
        self._local_workers.add(worker)

    async def health(self, *, store: bool = True) -> Health:
        from .health import check_health

        return await check_health(self.connect, list(self._local_workers), store=store)

    async def prune(self, tasks: Sequence[str] | None) -> int:
        """Deletes finished jobs that retention does not keep. None: of the tasks whose code is here, or all if none."""
        if isinstance(tasks, str):
            raise BadInput(f"tasks takes a list of names, got {tasks!r}")
        from .webhook.record import TASK

        known = [TASK, *self.registry.runnable] if self.tasks else None
        pruner = self.pruner(known if tasks is None else [check_name(name, "task name") for name in tasks])
        return await pruner.prune(await self.connect())
