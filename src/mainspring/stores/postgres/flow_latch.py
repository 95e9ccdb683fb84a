"""The latch that shuts older releases out once a flow is stored: they would end its steps without moving it."""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec import Struct

from ...clock import micros
from ...ids import WorkerId
from ...records.unreadable import readable
from .handle import PostgresHandle
from .pool import Session
from .script import FLOWS_VERSION

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
        alive, raised = await self._call(lambda db: look_for_older(db, now))
        return alive if alive or raised else await self._transact(lambda db: _raise_latch(db, now))


async def look_for_older(db: Session, now: datetime) -> tuple[list[WorkerId], bool]:
    """The live workers of releases without flows, and whether such releases are shut out already."""
    rows = await db.rows(_READ_LATCH, micros(now))
    raised = any(id is None and oldest is not None and int(oldest) >= FLOWS_VERSION for id, oldest in rows)
    workers = readable("worker", [(id, (id, info)) for id, info in rows if id is not None], _known_schema)
    return sorted(id for id, known in workers if 0 < known < FLOWS_VERSION), raised


def _known_schema(row: tuple[WorkerId, str]) -> tuple[WorkerId, int]:
    id, info = row
    return id, _decode_known(info).schema


async def _raise_latch(db: Session, now: datetime) -> list[WorkerId]:
    """Shuts older releases out, unless one of their workers has come meanwhile. Runs inside a transaction.

    A first beat waits for the lock, and then reads the raised version.
    """
    await db.run("LOCK TABLE mainspring_workers IN SHARE ROW EXCLUSIVE MODE")
    alive, _ = await look_for_older(db, now)
    if not alive:
        await db.run(RAISE_LATCH)
    return alive
