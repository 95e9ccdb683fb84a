"""A handle on the PostgreSQL store: its settings and connections, and how verbs call the server and wake waiters."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypedDict, TypeVar

from ...clock import Clock, SystemClock
from ...config import Durability
from ...errors import SchemaMismatch, ShuttingDown, StoreError
from ...records.schema import Schema
from ...store import Capabilities
from ..migrations import Migrations
from .item_counts import CountedMaps
from .listener import PostgresListener
from .notifier import News, Notifier, ProcessWakeups
from .open_leases import OpenLeases
from .pool import Pool, Session, Verb
from .schema import MIGRATIONS, is_schema_error, read_schema
from .url import PostgresUrl

T = TypeVar("T")


class PostgresSettings(TypedDict, total=False):
    """The settings of a handle beside its URL."""

    clock: Clock | None
    durability: Durability
    wakeups: ProcessWakeups | None
    migrations: Migrations


class PostgresHandle:
    """What the verbs share. A handle serves the event loop in which it was opened."""

    def __init__(
        self,
        url: PostgresUrl,
        *,
        clock: Clock | None = None,
        durability: Durability = "full",
        wakeups: ProcessWakeups | None = None,
        migrations: Migrations = MIGRATIONS,
    ) -> None:
        """`wakeups` are those of another handle in this process on the same store."""
        self.url, self._migrations = url, migrations
        self.capabilities = Capabilities(
            store="the PostgreSQL store",
            newest_schema=migrations.newest,
            transactions=True,
            scripts=True,
            counts=True,
            flows=True,
            limits=True,
        )
        self._clock = clock or SystemClock()
        self._durability: Durability = durability
        self._wakeups = wakeups or ProcessWakeups(url, self._clock)
        self._pool: Pool | None = None
        self._notifier: Notifier | None = None
        self._listener: PostgresListener | None = None
        # Whether the last claim found nothing, and no verb of this handle has made work since.
        self._idle = False
        self._leases = OpenLeases()
        self._counted_maps = CountedMaps()

    # calls

    def _open(self) -> Pool:
        if self._pool is None:
            raise ShuttingDown(f"the store {self.url.shown} is not open")
        if self._pool.loop is not asyncio.get_running_loop():
            raise StoreError("this handle on the PostgreSQL store serves another event loop: open one with clone()")
        return self._pool

    async def _call(self, verb: Verb[T]) -> T:
        return await self._explained(Pool.call, verb)

    async def _hot(self, verb: Verb[T]) -> T:
        return await self._explained(Pool.hot, verb)

    async def _read(self, verb: Verb[T]) -> T:
        return await self._explained(Pool.read, verb)

    async def _transact(self, verb: Verb[T]) -> T:
        return await self._explained(Pool.transact, verb)

    async def _explained(self, run: Callable[[Pool, Verb[T]], Awaitable[T]], verb: Verb[T]) -> T:
        pool = self._open()
        with self._clock.outside():
            try:
                return await run(pool, verb)
            except StoreError as error:
                await self._explain_schema_error(pool, error)
                raise

    async def _explain_schema_error(self, pool: Pool, error: StoreError) -> None:
        """Raises SchemaMismatch if the call failed because the schema was changed meanwhile."""
        if is_schema_error(error) and (trouble := (await pool.call(self._read_schema)).trouble):
            raise SchemaMismatch(trouble) from error

    async def _read_schema(self, db: Session) -> Schema:
        return await read_schema(db, self._migrations)

    # waking

    def _announce(self, *topics: News) -> None:
        """Wakes waiters in this process at once, and notifies other processes soon."""
        self._wakeups.wake(*topics)
        if self._notifier is not None:
            self._notifier.notify(*topics)


async def close_all(task: asyncio.Task[None] | None, *parts: Notifier | PostgresListener | Pool | None) -> None:
    """Cancels the task, and closes the parts in order."""
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    for part in parts:
        if part is not None:
            await part.close()
