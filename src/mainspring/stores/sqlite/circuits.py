"""The SQLite store's circuits of tasks."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from ...clock import instant, micros
from ...records.circuit import Circuit


def circuits(db: sqlite3.Connection) -> list[Circuit]:
    rows = db.execute("SELECT task, failures, open_until, probe FROM mainspring_circuits ORDER BY task").fetchall()
    return [Circuit(task, failures, None if at is None else instant(at), probe) for task, failures, at, probe in rows]


def write_circuits(db: sqlite3.Connection, changed: Mapping[str, Circuit | None]) -> None:
    """Writes circuits by task; None deletes one."""
    for task, circuit in changed.items():
        if circuit is None:
            db.execute("DELETE FROM mainspring_circuits WHERE task = ?", (task,))
        else:
            until = None if circuit.open_until is None else micros(circuit.open_until)
            values = (circuit.task, circuit.failures, until, circuit.probe)
            db.execute("INSERT OR REPLACE INTO mainspring_circuits VALUES (?, ?, ?, ?)", values)
