"""The SQLite store: one file, several processes, durable when a verb returns."""

from __future__ import annotations

import asyncio
import os
from datetime import datetime

from ...clock import instant
from ...records.finding import Finding
from ...records.schema import Schema
from ...store import Listening, Store, Topic
from . import file
from .audit import SqliteAudit
from .change import SqliteChange
from .claim import SqliteClaim
from .documents import SqliteDocuments
from .enqueue import SqliteEnqueue
from .feed import SqliteFeed
from .finish import SqliteFinish
from .fire import SqliteFire
from .flows import SqliteFlows
from .limits import SqliteLimits
from .lists import SqliteLists
from .overview import SqliteOverview
from .queues import SqliteQueues
from .retention import SqliteRetention
from .runs import SqliteRuns
from .schedules import SqliteSchedules
from .state_counts import SqliteStateCounts
from .tally import SqliteTally
from .terms import SqliteTerms
from .transaction import SqliteTransactions
from .workers import SqliteWorkers


class SqliteStore(
    SqliteEnqueue,
    SqliteClaim,
    SqliteWorkers,
    SqliteTransactions,
    SqliteFinish,
    SqliteSchedules,
    SqliteFire,
    SqliteFlows,
    SqliteLimits,
    SqliteTerms,
    SqliteChange,
    SqliteQueues,
    SqliteLists,
    SqliteStateCounts,
    SqliteRuns,
    SqliteOverview,
    SqliteTally,
    SqliteDocuments,
    SqliteAudit,
    SqliteFeed,
    SqliteRetention,
):
    """All verbs, and the store's life. The file is in WAL mode, by default with synchronous=FULL."""

    async def open(self, *, migrate: bool = True) -> None:
        if self._pid != os.getpid():
            self._migrates = migrate
            with self._clock.outside():
                await asyncio.to_thread(self._open)
        elif migrate and not self._migrates:
            await self._write(lambda db: file.apply_migrations(db, self._migrations, None, self._now(), only_up=True))
            self._migrates = True

    async def close(self) -> None:
        if self._pid == os.getpid():
            self._pid = 0
            self._watcher.stop()
            parts = (self._writes, self._reads, self._watcher, self._file_lock)
            # Shielded: a caller that is cancelled must not leave half of them open.
            await asyncio.shield(asyncio.to_thread(lambda: [part.close() for part in parts]))

    def clone(self) -> Store:
        return self

    async def schema(self) -> Schema:
        return await self._read(lambda db: file.read_schema(db, self._migrations))

    async def migrate(self, target: int | None = None) -> list[int]:
        return await self._write(lambda db: file.apply_migrations(db, self._migrations, target, self._now()))

    async def time(self) -> datetime:
        if not self._clock.real:
            return self._clock.now()
        days = (await self._read(lambda db: db.execute("SELECT julianday('now')").fetchone()))[0]
        return instant(round((days - 2440587.5) * 86_400_000) * 1000)

    async def diagnose(self) -> list[Finding]:
        from . import doctor

        return await self._read(lambda db: doctor.findings(db, self.path))

    @property
    def listening(self) -> Listening:
        return "off"

    async def wait(self, topic: Topic, timeout: float, *, seen: int | None = None) -> int:
        """Waits until this process changes something, or another one has committed, whatever the topic."""
        self._check()
        return await self._watcher.wait(timeout, seen)
