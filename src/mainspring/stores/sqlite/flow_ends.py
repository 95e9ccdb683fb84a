"""How the SQLite store writes the two ends that every flow has: its plan is stored, and its steps have ended.

This repeats what rules.finish.finish_one does with these outcomes, and test_twin.py compares them. Only what is usual
is written here, many runs with one statement; finish_one writes every other outcome of a flow.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from ...clock import micros
from ...ids import JobId
from ...records.outcome import Outcome
from ..rules.loaded import LoadedTables
from ..rules.outcome import is_plain_conclusion
from ..rules.read_sets import Name
from .tables import fetch

_encode = msgspec.json.Encoder().encode

# The runs as one JSON array. `+` leaves the index of ids as the only one that can be used.
_PLANNED = """(SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS lease,
        json_extract(value, '$[2]') AS finished_at
    FROM json_each(:planned)) AS planned"""
_MAY_WAIT = """job.id = planned.id AND +job.lease = planned.lease AND +job.state = 'running'
        AND +job.cancel_reason IS NULL"""
KEEP_SUSPENDED = f"""INSERT OR IGNORE INTO mainspring_executions
    SELECT job.id, job.runs, job.attempt, 'suspended', job.worker, job.lease, job.started_at, planned.finished_at, 0,
        NULL, NULL
    FROM {_PLANNED} CROSS JOIN mainspring_jobs AS job
    WHERE {_MAY_WAIT}"""
SUSPEND = f"""UPDATE mainspring_jobs AS job
    SET state = 'waiting', lease = NULL, worker = NULL, attempt = attempt - 1, expires_at = NULL
    FROM {_PLANNED}
    WHERE {_MAY_WAIT}"""


def plain_conclusions(db: sqlite3.Connection, tables: LoadedTables, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Those outcomes that complete a flow which is as the run has read it: they are plain completions."""
    asked = [outcome for outcome in outcomes if is_plain_conclusion(outcome)]
    if not asked:
        return []
    fetch(db, tables, [Name("flow", outcome.id) for outcome in asked])
    return [
        outcome for outcome in asked if (flow := tables.flow(outcome.id)) is None or flow.revision == outcome.concludes
    ]


def suspend(db: sqlite3.Connection, outcomes: Sequence[Outcome]) -> set[JobId]:
    """Lets the jobs of flows wait whose run has planned their steps. Returns the ids, or none, having written nothing,
    if one of them is refused or is to be cancelled."""
    if not outcomes:
        return set()
    rows = [(outcome.id, outcome.lease, micros(outcome.finished_at)) for outcome in outcomes]
    values = {"planned": _encode(rows).decode()}
    db.execute("SAVEPOINT mainspring_suspend")
    db.execute(KEEP_SUSPENDED, values)
    accepted = db.execute(SUSPEND, values).rowcount == len(rows)
    if not accepted:
        db.execute("ROLLBACK TO mainspring_suspend")
    db.execute("RELEASE mainspring_suspend")
    return {outcome.id for outcome in outcomes} if accepted else set()
