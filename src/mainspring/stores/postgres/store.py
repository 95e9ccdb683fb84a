"""The PostgreSQL store: one database, any number of machines; a verb is durable when it returns."""

from __future__ import annotations

import asyncio
import os
from datetime import datetime
from typing import Unpack

from ...records.schema import Schema
from ...store import Store
from .audit import PostgresAudit
from .change import PostgresChange
from .claim import PostgresClaim
from .count import PostgresCount
from .doctor import PostgresDoctor
from .documents import PostgresDocuments
from .enqueue import PostgresEnqueue
from .feed import PostgresFeed
from .fire import PostgresFire
from .flows import PostgresFlows
from .handle import PostgresSettings, close_all
from .limits import PostgresLimits
from .listener import PostgresListener
from .lists import PostgresLists
from .notifier import Notifier, ProcessWakeups
from .partitions import DAYS_AHEAD
from .pool import Pool
from .pruning import PostgresPruning
from .queues import PostgresQueues
from .runs import PostgresRuns
from .schedules import PostgresSchedules
from .schema import migrate_schema
from .script import migration_script
from .state_counts import PostgresStateCounts
from .tally import PostgresTally
from .terms import PostgresTerms
from .transaction import PostgresTaskTransactions
from .url import PostgresUrl
from .wait import PostgresWait
from .workers import PostgresWorkers


class PostgresStore(
    PostgresEnqueue,
    PostgresClaim,
    PostgresWorkers,
    PostgresTaskTransactions,
    PostgresWait,
    PostgresSchedules,
    PostgresFire,
    PostgresFlows,
    PostgresLimits,
    PostgresTerms,
    PostgresChange,
    PostgresQueues,
    PostgresLists,
    PostgresRuns,
    PostgresCount,
    PostgresStateCounts,
    PostgresTally,
    PostgresDocuments,
    PostgresAudit,
    PostgresFeed,
    PostgresPruning,
    PostgresDoctor,
):
    """Each verb is one statement or one short transaction. A handle serves the event loop in which it was opened."""

    def __init__(self, url: PostgresUrl, **settings: Unpack[PostgresSettings]) -> None:
        super().__init__(url, **settings)
        self._opening: asyncio.Lock | None = None
        self._ready = False

    async def open(self, *, migrate: bool = True) -> None:
        if self._pool is not None and (self._pool.pid != os.getpid() or self._pool.loop.is_closed()):
            if self._pool.pid != os.getpid():
                self._wakeups = ProcessWakeups(self.url, self._clock)
            elif self._listener is not None:
                self._listener.abandon()
            self._pool.abandon()
            if self._task_connections is not None:
                self._task_connections.abandon()
            self._pool = self._notifier = self._listener = self._opening = self._task_connections = self._survey = None
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if self._pool is None:
                await self._connect(migrate)
            elif migrate and not self._ready:
                with self._clock.outside():
                    await self._prepare(self._pool)

    async def _connect(self, migrate: bool) -> None:
        pool = Pool(self.url, self._durability)
        try:
            with self._clock.outside():
                await (self._prepare(pool) if migrate else pool.call(self._read_schema))
        except BaseException:
            await pool.close()
            raise
        self._pool, self._idle, self._ready = pool, False, migrate
        self._notifier = Notifier(pool, self._wakeups) if self._clock.real else None
        self._listener = PostgresListener(pool, self._wakeups) if self._clock.real and self.url.listens else None

    async def _prepare(self, pool: Pool) -> None:
        """Migrates the schema unless this release can work on it, and creates the next partitions."""
        if not (await pool.call(self._read_schema)).usable:
            await pool.call(lambda db: migrate_schema(db, self._migrations, None, only_up=True))
        await self._create_partitions(pool, self._clock.now(), DAYS_AHEAD + 1)
        self._ready = True

    async def close(self) -> None:
        """Can be called in any event loop; connections are closed in their own one, if it still runs."""
        survey, notifier, pool = self._survey, self._notifier, self._pool
        parts = (self._listener, self._task_connections, pool)
        self._pool = self._notifier = self._listener = self._task_connections = self._survey = None
        if pool is None:
            return
        if pool.loop is asyncio.get_running_loop():
            with self._clock.outside():
                await close_all(survey, notifier, *parts)
        elif pool.pid == os.getpid() and pool.loop.is_running():
            closing = close_all(survey, notifier, *parts)
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(closing, pool.loop))
        else:
            for part in parts:
                if part is not None:
                    part.abandon()

    def clone(self) -> Store:
        return PostgresStore(
            self.url, clock=self._clock, durability=self._durability, wakeups=self._wakeups, migrations=self._migrations
        )

    async def schema(self) -> Schema:
        return await self._call(self._read_schema)

    async def migrate(self, target: int | None = None) -> list[int]:
        return await self._call(lambda db: migrate_schema(db, self._migrations, target))

    def script(self, at: int, target: int | None = None) -> str:
        return migration_script(self.url, self._migrations, at, target)

    async def time(self) -> datetime:
        if not self._clock.real:
            self._open()
            return self._clock.now()
        at: datetime = await self._hot(lambda db: db.value("SELECT clock_timestamp()"))
        return at
