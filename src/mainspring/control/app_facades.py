"""The facades and operations of an app that its engine provides: app.jobs, app.schedules, app.stats() and so on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack

from msgspec.structs import replace

from ..errors import BadSetting
from ..span import Span

if TYPE_CHECKING:
    from ..clock import StoreClock
    from ..config import Settings
    from ..engine import Engine
    from ..feed.publisher import FeedPublisher
    from ..health import Health
    from ..insight.stats import Stats
    from ..middleware import Middleware, ThreadMiddleware
    from ..task.batch import Batch
    from ..task.batch_options import BatchOptions
    from ..task.task import Task
    from .audit import Audit
    from .batches import Batches
    from .dead import Dead
    from .executions import Executions
    from .flows import Flows
    from .jobs import Jobs
    from .keys import Keys
    from .limits import Limits
    from .queues import Queues
    from .schedules import Schedules
    from .triggers import Triggers
    from .webhooks import Webhooks
    from .workers import Workers


class AppFacades:
    """Forwards to the engine that the app has now."""

    _engine: Engine

    @property
    def jobs(self) -> Jobs:
        return self._engine.jobs

    @property
    def dead(self) -> Dead:
        return self._engine.dead

    @property
    def executions(self) -> Executions:
        return self._engine.executions

    @property
    def flows(self) -> Flows:
        return self._engine.flows

    @property
    def batches(self) -> Batches:
        return self._engine.batches

    @property
    def keys(self) -> Keys:
        return self._engine.keys

    @property
    def queues(self) -> Queues:
        return self._engine.queues

    @property
    def limits(self) -> Limits:
        return self._engine.limits

    @property
    def workers(self) -> Workers:
        return self._engine.workers

    @property
    def schedules(self) -> Schedules:
        return self._engine.schedules

    @property
    def audit(self) -> Audit:
        return self._engine.audit

    @property
    def webhooks(self) -> Webhooks:
        return self._engine.webhooks

    @property
    def triggers(self) -> Triggers:
        return self._engine.triggers

    @property
    def clock(self) -> StoreClock:
        return self._engine.clock

    @property
    def herald(self) -> FeedPublisher:
        """The publisher of the live feed."""
        return self._engine.feed

    @property
    def settings(self) -> Settings:
        return self._engine.settings

    def configure(self, **changes: Any) -> None:
        """Changes settings by name. Workers that exist keep theirs."""
        self._engine.configure(replace(self.settings, **changes))

    @property
    def tasks(self) -> dict[str, Task[Any, Any]]:
        """The registered tasks by name."""
        return self._engine.registry.tasks

    @property
    def middleware(self) -> list[Middleware]:
        """The middleware around every run."""
        return self._engine.registry.middleware

    @property
    def thread_middleware(self) -> list[ThreadMiddleware]:
        """The middleware around plain functions, in the thread or the child process that runs them."""
        return self._engine.registry.thread_middleware

    # operations

    def batch(self, name: str, /, **options: Unpack[BatchOptions]) -> Batch:
        """Jobs of any task that belong together, with callbacks:

            async with app.batch("newsletter", on_success=report) as batch:
                await batch.enqueue_many(send.job(to) for to in people)

        They run while more are added. The end of the block closes the batch, and an exception in it cancels it.
        """
        return self._engine.batches.new(name, options)

    async def stats(
        self, window: Span | None = timedelta(hours=1), *, queue: str | None = None, task: str | None = None
    ) -> Stats:
        """Statistics: jobs by state, and the runs of the last `window` (None: all) by task, by queue and over time.

        `queue` and `task` filter the run statistics, not the job counts.
        """
        return await self._engine.statistics.read(window, queue=queue, task=task)

    async def health(self, *, store: bool = True) -> Health:
        """Whether the workers of this process make progress and, with `store`, whether the store answers."""
        return await self._engine.health(store=store)

    async def prune(self, tasks: Sequence[str] | None = None) -> int:
        """Deletes finished jobs that retention does not keep, as workers do regularly. Returns their number.

        `tasks` are names of tasks, known to this app or not. None: those it has code for, or all if it has none.
        """
        return await self._engine.prune(tasks)

    async def migrate(self, target: int | None = None) -> list[int]:
        """Migrates the store's schema. Returns the versions passed through."""
        if target is not None and (isinstance(target, bool) or not isinstance(target, int) or target < 0):
            raise BadSetting(f"a schema version is a whole number, got {target!r}")
        async with self._engine.connect_unmigrated() as store:
            return await store.migrate(target)

    def migration(self, at: int, target: int | None = None) -> str:
        """The statements that migrate the store's schema from one version to another, to be run by hand."""
        return self._engine.migration(at, target)
