"""The Redis store: jobs in Redis or Valkey, shared by any number of machines."""

from __future__ import annotations

import asyncio
import os
from datetime import datetime

from ...clock import instant
from ...errors import BadInput
from ...records.finding import Finding
from ...records.schema import Schema
from ...store import Listening, Store, Topic
from .audit import RedisAudit
from .change import RedisChange
from .claim import RedisClaim
from .connector import RedisConnector
from .count import RedisCount
from .doctor import check_servers, findings, listener_finding
from .documents import RedisDocuments
from .enqueue import RedisEnqueue
from .feed import RedisFeed
from .finish import RedisFinish
from .flows import RedisFlows
from .limits import RedisLimits
from .listener import RedisListener, RedisWakeups
from .lists import RedisLists
from .queues import RedisQueues
from .retention import RedisRetention
from .run_reads import RedisRunReads
from .schedules import RedisSchedules
from .shard import Shards
from .tally import RedisTally
from .terms import RedisTerms
from .workers import RedisWorkers

# diagnose() waits this long for the listener's status.
LISTENER_TIMEOUT_SECONDS = 8.0


class RedisStore(
    RedisEnqueue,
    RedisClaim,
    RedisFinish,
    RedisFlows,
    RedisLimits,
    RedisWorkers,
    RedisSchedules,
    RedisTerms,
    RedisChange,
    RedisQueues,
    RedisLists,
    RedisRunReads,
    RedisCount,
    RedisTally,
    RedisRetention,
    RedisDocuments,
    RedisAudit,
    RedisFeed,
):
    """Each verb is one script or one optimistic transaction."""

    async def open(self, *, migrate: bool = True) -> None:
        if self._shards is not None and not self._shards.connector.usable:
            if self._shards.connector.pid != os.getpid():
                self._wakeups = RedisWakeups(self._clock)
            elif self._listener is not None:
                self._listener.forget()
            self._shards.connector.forget()
            self._shards = self._listener = None
        if self._shards is None:
            shards = Shards(RedisConnector(self.url))
            try:
                with self._clock.outside():
                    await check_servers(shards)
            except BaseException:
                await shards.connector.close()
                raise
            self._shards = shards
            self._listener = RedisListener(shards, self._wakeups) if self._clock.real else None

    async def close(self) -> None:
        shards, listener = self._shards, self._listener
        self._shards = self._listener = None
        if shards is None:
            return
        connector = shards.connector
        if connector.loop is asyncio.get_running_loop():
            with self._clock.outside():
                await _shut(listener, connector)
        elif connector.pid == os.getpid() and connector.loop.is_running():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_shut(listener, connector), connector.loop))
        else:
            for part in (listener, connector):
                if part is not None:
                    part.forget()

    def clone(self) -> Store:
        return RedisStore(self.url, clock=self._clock, durability=self._durability, wakeups=self._wakeups)

    async def schema(self) -> Schema:
        self._open()
        return Schema(1, 1, 1)

    async def migrate(self, target: int | None = None) -> list[int]:
        self._open()
        if target not in (None, 1):
            raise BadInput(f"the Redis store has one schema, 1; cannot migrate to {target}")
        return []

    async def time(self) -> datetime:
        shards = self._open()
        if not self._clock.real:
            return self._clock.now()
        seconds, micro = await shards.first.call("TIME")
        return instant(int(seconds) * 1_000_000 + int(micro))

    async def diagnose(self) -> list[Finding]:
        with self._clock.outside():
            found = await findings(self._open(), self._wakeups.data_loss.losses)
            if self._listener is not None:
                found.append(
                    listener_finding(
                        await self._listener.wait_until_known(LISTENER_TIMEOUT_SECONDS), self._listener.error_text
                    )
                )
        return found

    async def wait(self, topic: Topic, timeout: float, *, seen: int | None = None) -> int:
        self._open()
        if self._listener is not None:
            self._listener.listen()
        return await self._wakeups.broadcast("new" if topic == "claimable" else topic).wait(timeout, seen)

    @property
    def listening(self) -> Listening:
        if self._wakeups.listeners:
            return "ok"
        return "failed" if self._listener is not None and self._listener.error_text else "off"


async def _shut(listener: RedisListener | None, connector: RedisConnector) -> None:
    if listener is not None:
        await listener.close()
    await connector.close()
