"""The latch that shuts older releases out once a flow is stored: they would end its steps without moving it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec
from msgspec import Struct

from ...clock import micros
from ...ids import WorkerId
from ...records.unreadable import readable
from .handle import PostgresHandle
from .pool import Session
from .script import COUNTS_VERSION, FLOWS_VERSION

_RAISE = "UPDATE mainspring_schema SET oldest = $1 WHERE oldest < $1"
RAISE_LATCH = f"UPDATE mainspring_schema SET oldest = {FLOWS_VERSION} WHERE oldest < {FLOWS_VERSION}"
# A row without an id has the oldest schema that a release has to know.
_READ_LATCH = """SELECT NULL AS id, oldest::text AS info FROM mainspring_schema
    UNION ALL SELECT id, info FROM mainspring_workers WHERE until > $1"""


class _Known(Struct):
    schema: int = 0


_decode_known = msgspec.json.Decoder(_Known).decode


class PostgresFlowLatch(PostgresHandle):
    """Looks for older workers before a flow is stored."""

    async def _older_workers(self, now: datetime) -> list[WorkerId]:
        """The live workers of releases without flows. If there are none, no other one can come from now on."""
        latch = await self._call(lambda db: look_for_older(db, now))
        return latch.too_old if latch.is_right else await self._transact(lambda db: _raise_latch(db, now))


class Latch(NamedTuple):
    """The oldest schema that a release has to know, and what the live workers know."""

    oldest: int
    known: Mapping[WorkerId, int]

    @property
    def too_old(self) -> list[WorkerId]:
        """The workers of releases without flows."""
        return sorted(id for id, known in self.known.items() if known < FLOWS_VERSION)

    @property
    def best(self) -> int:
        """What the latch may be: who does not know counted items is shut out once none of these workers lives."""
        return FLOWS_VERSION if any(known < COUNTS_VERSION for known in self.known.values()) else COUNTS_VERSION

    @property
    def is_right(self) -> bool:
        return bool(self.too_old) or self.oldest >= self.best


async def look_for_older(db: Session, now: datetime) -> Latch:
    rows = await db.rows(_READ_LATCH, micros(now))
    oldest = max((int(oldest) for id, oldest in rows if id is None and oldest is not None), default=0)
    workers = readable("worker", [(id, (id, info)) for id, info in rows if id is not None], _known_schema)
    return Latch(oldest, {id: known for id, known in workers if known > 0})


def _known_schema(row: tuple[WorkerId, str]) -> tuple[WorkerId, int]:
    id, info = row
    return id, _decode_known(info).schema


async def _raise_latch(db: Session, now: datetime) -> list[WorkerId]:
    """Shuts older releases out, unless one of their workers has come meanwhile. Runs inside a transaction.

    A first beat waits for the lock, and then reads the raised version.
    """
    await db.run("LOCK TABLE mainspring_workers IN SHARE ROW EXCLUSIVE MODE")
    latch = await look_for_older(db, now)
    if not latch.too_old:
        await db.run(_RAISE, latch.best)
    return latch.too_old
