"""Mainspring: the app, with its registry of tasks and schedules, and the engine that serves them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Unpack

from .clock import Clock, StoreClock, SystemClock
from .config import load, read_span, sources
from .control.app_facades import AppFacades
from .errors import BadInput, BadSetting
from .ids import JobId
from .records.job import NewJob, Shown
from .registry import Declarations, Registry
from .span import Span
from .suggest import former_method
from .task.new_jobs import checked_jobs
from .task.options import JobOptions, check_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .engine import Engine
    from .feed.hub import NumberedEvent
    from .leader import Leader
    from .middleware import Middleware, ThreadMiddleware
    from .records.principal import HostLogin
    from .store import Store
    from .task.handle import Handle
    from .testing.harness import Harness, Mode
    from .worker.worker import Worker

Message = MutableMapping[str, Any]
ASGI = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]
"""A plain ASGI application, a function of scope, receive and send, as Starlette, FastAPI and others declare it."""


class Mainspring(Declarations, AppFacades):
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
        thread_middleware: Sequence[ThreadMiddleware] = (),
        **settings: Any,
    ) -> None:
        from .engine import Engine
        from .events import Bus
        from .logs.event_log import log_events
        from .stores import open_store

        if store is not None and not isinstance(store, str) and not hasattr(store, "claim"):
            raise BadSetting(f"the store is given as a URL or as a Store; got {store!r:.80}")
        given = {"store": store, **settings} if isinstance(store, str) else settings
        chosen = load(given)
        self.setting_sources = sources(given)
        _check_allowance(chosen.webhook_allow)
        self.events = Bus()
        self._registry = Registry(self, middleware, thread_middleware)
        corrected = StoreClock(clock or SystemClock())
        if store is None or isinstance(store, str):
            url, key, names = chosen.store, chosen.api_key, chosen.names
            store = open_store(url, clock=corrected, durability=chosen.durability, api_key=key, **names)
        self._engine = Engine(store, corrected, self._registry, chosen, self.events)
        log_events(self.events, debug=chosen.log_level.lower() == "debug")

    # life cycle

    async def __aenter__(self) -> Mainspring:
        await self._engine.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the app. Later calls raise ShuttingDown, until `async with app:` opens it again.

        Coroutine subscribers receive all earlier events first, within FLUSH_SECONDS.
        """
        await self._engine.close()

    async def connect(self) -> Store:
        """The store's handle for the running event loop. Opens it if necessary."""
        return await self._engine.connect()

    def connect_unmigrated(self) -> AbstractAsyncContextManager[Store]:
        """The store without a migration of its schema, to inspect or migrate it. Closed afterwards, unless the app was
        open."""
        return self._engine.connect_unmigrated()

    def wrap_store(self, wrap: Callable[[Store], Store]) -> None:
        """Wraps the store, before the app is opened. Raises BadInput if it is open."""
        self._engine.wrap_store(wrap)

    @property
    def is_open(self) -> bool:
        return self._engine.is_open

    @property
    def sync(self) -> Any:
        """The same methods for code that does not await: app.sync.jobs.get(id)."""
        from .sync import Sync

        return Sync(self)

    # enqueue

    async def enqueue(self, task: str, /, **arguments: Any) -> Handle[Any]:
        """Enqueues a job by its task's name, for a process that does not have the task's code."""
        (handle,) = await self._engine.insert([self.job(task, arguments)])
        return handle

    def job(self, task: str, arguments: Mapping[str, Any], **options: Unpack[JobOptions]) -> NewJob:
        """A call as data, by the task's name, for enqueue_many(). An app without tasks cannot check the arguments."""
        return self._engine.job(task, arguments, **options)

    async def enqueue_many(self, jobs: Iterable[NewJob], *, within: Any = None) -> list[Handle[Any]]:
        """Enqueues all jobs or none, in one round trip: enqueue_many(send.job(to) for to in people)."""
        return await self._engine.insert(checked_jobs(jobs, "enqueue_many"), within)

    async def enqueue_by_hand(self, jobs: Sequence[NewJob]) -> list[Handle[Any]]:
        """As enqueue_many(), for jobs that a person enqueues: the audit log records it as jobs.enqueue."""
        return await self._engine.audit.enqueue(checked_jobs(jobs, "enqueue_by_hand"))

    async def insert(self, jobs: Sequence[NewJob], within: Any = None) -> list[Handle[Any]]:
        """Stores new jobs, unchecked: they come from task.job() or app.job()."""
        return await self._engine.insert(jobs, within)

    def producing(self, jobs: Sequence[NewJob]) -> AbstractContextManager[Sequence[NewJob]]:
        """The jobs, as changed by middleware that takes part in enqueueing, such as tracing. The block stores them."""
        return self._engine.producing(jobs)

    def check_within(self) -> None:
        """Raises BadInput if the store has no transactions for `within=`, before the caller has written anything."""
        self._engine.check_within()

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
        from .worker.worker import Worker

        return Worker(self._engine, queues, concurrency, recycle)

    async def drain(self, *, queues: Sequence[str] | None = None) -> int:
        """Runs jobs in this process until none is due. Returns the number of runs. For tests and scripts."""
        return await self.worker(queues=queues).drain()

    def leader(self, name: str, *, ttl: Span | None = None) -> Leader:
        """A new candidate for the leadership of this name: app.leader("reindex").

        If a leader dies, another candidate leads within `ttl` (default: the setting leader_ttl).
        """
        if check_name(name, "leader's name").startswith("mainspring."):
            raise BadInput(f"leaders whose names begin with 'mainspring.' are the engine's own, got {name!r}")
        return self._engine.candidate(name, None if ttl is None else read_span(ttl, f"leader {name!r}: ttl"))

    def testing(self, mode: Mode = "manual", *, raises: bool = True) -> Harness:
        """For tests: replaces the store by an empty memory store and the clock by a virtual one, inside a block.

        Manual: jobs wait until the test runs them. Inline: `enqueue` runs them, and raises if they fail.
        """
        from .testing.harness import Harness

        return Harness(self, mode, raises=raises)

    @contextmanager
    def _using(self, engine: Engine) -> Iterator[None]:
        """Inside the block `engine` is the app's, and receives its events."""
        before, self._engine = self._engine, engine
        before.detach()
        engine.attach()
        try:
            yield
        finally:
            self._engine = before
            engine.detach()
            before.attach()

    def asgi(self, *, auth: bool | HostLogin = True) -> ASGI:
        """The REST API as an ASGI application, to serve alone or to mount under any prefix of another.

        Without `auth` every client is an admin, and only clients on this machine are served. While there is no API key,
        the first request logs a link to sign in with. `async def who(scope) -> Principal | None` authenticates callers
        by the login of the application around it; None leaves them to keys, tokens and sessions.
        """
        from .api.service import asgi

        return asgi(self, auth=auth)

    async def watch(
        self,
        *,
        types: Sequence[str] | None = None,
        jobs: Sequence[JobId] | None = None,
        queues: Sequence[str] | None = None,
        tasks: Sequence[str] | None = None,
        schedules: Sequence[str] | None = None,
        states: Sequence[Shown] | None = None,
        flows: Sequence[JobId] | None = None,
        after: int | None = None,
    ) -> AsyncGenerator[NumberedEvent, None]:
        """The live feed of all processes: `async for item in app.watch(types=["job"])`.

        It begins now, or after the number `after`.
        """
        from .feed.event import feed_filter
        from .feed.hub import FeedHub

        wish = feed_filter(
            types=types, jobs=jobs, queues=queues, tasks=tasks, schedules=schedules, states=states, flows=flows
        )
        stand = FeedHub(self.connect, self.clock, self.herald, beat=self.settings.beat)
        async with stand.reader(after, catch_up=True) as reader:
            while stand.open:
                for item in await reader.read(None):
                    if wish.matches(item.notice):
                        yield item

    # former names

    opened = former_method("Mainspring.opened", connect)
    hand_over = former_method("Mainspring.hand_over", insert)
    through = former_method("Mainspring.through", wrap_store)
    unmigrated = former_method("Mainspring.unmigrated", connect_unmigrated)


def _check_allowance(hosts: Sequence[str]) -> None:
    if hosts:
        from .webhook.address import AllowList

        AllowList(hosts)
