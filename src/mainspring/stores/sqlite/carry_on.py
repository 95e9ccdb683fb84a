"""How the SQLite store starts, with the ends of runs, the jobs that these make due in flows."""

from __future__ import annotations

import sqlite3

from ...clock import micros
from ...records.job import Job
from ...records.worker import CarryOn
from ..rules.carry_on import carry_on, request_filter
from ..rules.loaded import LoadedTables
from .claim import ALIVE, GROUPS
from .queues import PAUSED_QUEUES
from .tables import settle


def settle_and_start(db: sqlite3.Connection, tables: LoadedTables, request: CarryOn) -> list[Job]:
    """Settles the flows, and starts what has become due: such jobs are inserted as running, and no claim finds them."""
    tables.flow_changes.watch_due()
    settle(db, tables)
    due, now = tables.flow_changes.take_due(), micros(request.now)
    if not due or not db.execute(ALIVE, {"worker": request.worker, "now": now}).fetchone():
        return []
    paused = {name for (name,) in db.execute(PAUSED_QUEUES).fetchall()}
    serves = request_filter(request, paused, {one.task for one in tables.circuits() if one.open_until is not None})
    groups = db.execute(GROUPS).fetchall()
    ranks = (rank for queue, task, rank, run_at, _ in groups if run_at <= now and serves(queue, task))
    first = min(ranks, default=None)
    return carry_on(tables, due, request, serves, None if first is None else -first)
