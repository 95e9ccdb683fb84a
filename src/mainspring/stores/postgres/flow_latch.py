"""The latch that shuts older releases out once a flow or a limited job is stored.

They would end the steps of a flow without moving it, and claim limited jobs without their limit.
"""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec import Struct

from ...clock import micros
from ...ids import WorkerId
from ...records.unreadable import readable
from .handle import PostgresHandle
from .pool import Session
from .script import FLOWS_VERSION, LIMITS_VERSION

_RAISE = "UPDATE mainspring_schema SET oldest = {0} WHERE oldest < {0}"
RAISE_LATCH, RAISE_LIMITS_LATCH = _RAISE.format(FLOWS_VERSION), _RAISE.format(LIMITS_VERSION)
# A row without an id has the oldest schema that a release has to know.
_READ_LATCH = """SELECT NULL AS id, oldest::text AS info FROM mainspring_schema
    UNION ALL SELECT id, info FROM mainspring_workers WHERE until > $1"""


class _Known(Struct):
    schema: int = 0


_decode_known = msgspec.json.Decoder(_Known).decode


class PostgresFlowLatch(PostgresHandle):
    """Looks for older workers before a flow or a limited job is stored."""

    async def _older_workers(self, now: datetime, version: int = FLOWS_VERSION) -> list[WorkerId]:
        """The live workers of releases before that schema. If there are none, no other one can come from now on."""
        alive, raised = await self._call(lambda db: look_for_older(db, now, version))
        return alive if alive or raised else await self._transact(lambda db: _raise_latch(db, now, version))


async def look_for_older(db: Session, now: datetime, version: int) -> tuple[list[WorkerId], bool]:
    """The live workers of releases before that schema, and whether such releases are shut out already."""
    rows = await db.rows(_READ_LATCH, micros(now))
    raised = any(id is None and oldest is not None and int(oldest) >= version for id, oldest in rows)
    workers = readable("worker", [(id, (id, info)) for id, info in rows if id is not None], _known_schema)
    return sorted(id for id, known in workers if 0 < known < version), raised


def _known_schema(row: tuple[WorkerId, str]) -> tuple[WorkerId, int]:
    id, info = row
    return id, _decode_known(info).schema


async def _raise_latch(db: Session, now: datetime, version: int) -> list[WorkerId]:
    """Shuts older releases out, unless one of their workers has come meanwhile. Runs inside a transaction.

    A first beat waits for the lock, and then reads the raised version.
    """
    await db.run("LOCK TABLE mainspring_workers IN SHARE ROW EXCLUSIVE MODE")
    alive, _ = await look_for_older(db, now, version)
    if not alive:
        await db.run(_RAISE.format(version))
    return alive
