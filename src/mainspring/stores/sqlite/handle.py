"""A handle on the SQLite file: its connections and threads, and the calls through which every verb reads and writes."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypedDict, TypeVar

from ...clock import Clock, SystemClock, micros
from ...config import Durability
from ...errors import BadInput, ShuttingDown, StoreError
from ...store import Capabilities
from ..broadcast import Broadcast
from ..migrations import Migrations
from . import file
from .commit_watch import CommitWatcher
from .fair_lock import FairFileLock
from .writer_thread import WriterThread

if TYPE_CHECKING:
    from .transaction import SqliteTransaction

T = TypeVar("T")

# The last transaction that this task has begun; it may have ended.
current_transaction: ContextVar[SqliteTransaction | None] = ContextVar("mainspring_sqlite_transaction", default=None)


def refuse_inside_transaction() -> None:
    """Raises BadInput inside a transaction of the same task: a write would wait for its end."""
    transaction = current_transaction.get()
    if transaction is not None and transaction.open:
        raise BadInput(
            "inside ctx.transaction() nothing else can write to the file: enqueue with within=connection, "
            "and do the rest before or after the block"
        )


class SqliteSettings(TypedDict, total=False):
    """The keyword arguments of a handle; a class of verbs that has state of its own hands them on."""

    clock: Clock | None
    durability: Durability
    migrations: Migrations


class SqliteHandle:
    """What the verbs have in common. One thread writes and commits many verbs together, another one reads."""

    def __init__(
        self,
        path: str,
        *,
        clock: Clock | None = None,
        durability: Durability = "full",
        migrations: Migrations = file.MIGRATIONS,
    ) -> None:
        self.path, self._migrations = path, migrations
        self.capabilities = Capabilities(
            store="the SQLite store",
            newest_schema=migrations.newest,
            transactions=True,
            in_process=True,
            counts=True,
            flows=True,
            limits=True,
            carries_on=True,
            no_scripts="migrations of a SQLite file need this library: run mainspring migrate up",
        )
        self._clock = clock or SystemClock()
        self._durability: Durability = durability
        self._opening = threading.Lock()
        self._pid = 0
        self._migrates = True
        # Whether the last claim took nothing, and no verb of this handle may have made a job claimable since.
        self._idle = False

    def _open(self) -> None:
        with self._opening:
            if self._pid != os.getpid():
                self._connect()

    def _connect(self) -> None:
        place = file.create_file(self.path)
        file_lock = FairFileLock(f"{place}-lock")
        writer = file.connect(self.path, self._durability)
        if self._migrates:
            file.apply_migrations(writer, self._migrations, None, self._now(), only_up=True)
        reader, watcher = (file.connect(self.path, self._durability, file.READER_CACHE_BYTES) for _ in range(2))
        self._waiters = Broadcast(self._clock)
        self._watcher = CommitWatcher(watcher, f"{place}-wal", self._waiters, self._clock)
        self._file_lock = file_lock
        self._writes = WriterThread("writer", writer, "BEGIN IMMEDIATE", file_lock)
        self._reads = WriterThread("reader", reader, "BEGIN", nullcontext(), interruptible=True)
        self._file_identity = place, file.inode(place)
        self._pid = os.getpid()

    def _now(self) -> int:
        return micros(self._clock.now())

    def _check(self) -> None:
        if self._pid == os.getpid():
            return
        if not self._pid:
            raise ShuttingDown(f"the store {self.path!r} is not open")
        # A forked child has none of its parent's threads, and must not touch its connections.
        self._open()

    async def _write(self, verb: Callable[[sqlite3.Connection], T]) -> T:
        self._check()
        refuse_inside_transaction()
        with self._clock.outside():
            return await self._call_explained(self._writes, verb)

    async def _read(self, verb: Callable[[sqlite3.Connection], T]) -> T:
        self._check()
        with self._clock.outside():
            return await self._call_explained(self._reads, verb)

    async def _call_explained(self, thread: WriterThread, verb: Callable[[sqlite3.Connection], T]) -> T:
        """The verb's result. Raises SchemaMismatch if it failed because the schema was changed meanwhile."""
        try:
            return await thread.call(verb)
        except StoreError as error:
            if file.is_schema_error(error):
                await thread.call(lambda db: file.check_schema(db, self._migrations))
            raise
