"""The PostgreSQL store's circuits of tasks."""

from __future__ import annotations

from collections.abc import Mapping

from ...clock import instant, micros
from ...records.circuit import Circuit
from .pool import Session

_PUT_CIRCUIT = """INSERT INTO mainspring_circuits VALUES ($1, $2, $3, $4) ON CONFLICT (task) DO UPDATE SET
    failures = excluded.failures, open_until = excluded.open_until, probe = excluded.probe"""


async def circuits(db: Session) -> list[Circuit]:
    rows = await db.rows("SELECT task, failures, open_until, probe FROM mainspring_circuits ORDER BY task")
    return [Circuit(task, failures, None if at is None else instant(at), probe) for task, failures, at, probe in rows]


async def lock_circuits(db: Session) -> None:
    """Locks all circuits until the commit: a task's first failure has no row to lock."""
    await db.run("SELECT pg_advisory_xact_lock($1, -2)", db.url.lock)


async def write_circuits(db: Session, changed: Mapping[str, Circuit | None]) -> None:
    """Writes circuits by task; None deletes one."""
    if gone := [task for task, circuit in changed.items() if circuit is None]:
        await db.run("DELETE FROM mainspring_circuits WHERE task = ANY($1)", gone)
    for task, circuit in changed.items():
        if circuit is not None:
            until = None if circuit.open_until is None else micros(circuit.open_until)
            await db.run(_PUT_CIRCUIT, task, circuit.failures, until, circuit.probe)
