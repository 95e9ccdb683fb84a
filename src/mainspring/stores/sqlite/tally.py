"""Run statistics of the SQLite store. The current minute has a table of its own: a batch costs one row per task."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from ...clock import instant, micros
from ...records.outcome import Outcome
from ...records.tally import RETENTION, SPAN_SECONDS, RunSums, Span, Tally, span_start, sums_by_minute
from ...records.unreadable import sums_of
from .batch import CHUNK_ROWS, chunks, flatten, value_lists
from .handle import SqliteHandle

# The open minutes of some groups, and writing them: all groups of a batch in few statements.
_OPEN = {
    size: f"""SELECT open.queue, open.task, open.at, open.sums FROM (VALUES {value_lists(size, 2)}) AS wanted
        CROSS JOIN mainspring_counting open ON open.queue = wanted.column1 AND open.task = wanted.column2"""
    for size in CHUNK_ROWS
}
_PUT_OPEN = {size: f"INSERT OR REPLACE INTO mainspring_counting VALUES {value_lists(size, 4)}" for size in CHUNK_ROWS}
_TALLY = "SELECT sums FROM mainspring_tallies WHERE span = ? AND at = ? AND queue = ? AND task = ?"
_PUT_TALLY = "INSERT OR REPLACE INTO mainspring_tallies VALUES (?, ?, ?, ?, ?)"
_FORGET = "DELETE FROM mainspring_tallies WHERE span = ? AND at < ?"

_encode = msgspec.json.Encoder().encode


class SqliteTally(SqliteHandle):
    """The verb tallies."""

    async def tallies(self, span: Span, *, since: datetime) -> list[Tally]:
        return await self._read(lambda db: _tallies(db, span, since))


def count_runs(db: sqlite3.Connection, accepted: Iterable[Outcome]) -> None:
    """Adds the runs that these outcomes end to the statistics."""
    found = sums_by_minute(accepted)
    groups = list({(queue, task): None for _, queue, task in found})
    open = _open_minutes(db, groups)
    for (minute, queue, task), sums in found.items():
        began, earlier = open.get((queue, task)) or (None, sums)
        if began is not None and began > minute:
            _add_minute(db, minute, queue, task, sums)  # a late outcome, of a minute that is over
            continue
        if began == minute:
            earlier.add(sums)
            continue
        if began is not None:
            _add_minute(db, began, queue, task, earlier)
        open[queue, task] = minute, sums
    for chunk in chunks([(*group, micros(open[group][0]), _encode(open[group][1]).decode()) for group in groups]):
        db.execute(_PUT_OPEN[len(chunk)], flatten(chunk))


def _open_minutes(
    db: sqlite3.Connection, groups: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], tuple[datetime, RunSums]]:
    """The current minute of each of these queues and tasks, and its sums."""
    rows = [row for chunk in chunks(groups) for row in db.execute(_OPEN[len(chunk)], flatten(chunk)).fetchall()]
    begins = {at: instant(at) for _, _, at, _ in rows}
    return {(queue, task): (begins[at], sums_of(sums)) for queue, task, at, sums in rows}


def _add_minute(db: sqlite3.Connection, minute: datetime, queue: str, task: str, sums: RunSums) -> None:
    """Adds the sums of a past minute to the minute, hour, day and total that contain it."""
    for span in SPAN_SECONDS:
        key = (span, micros(span_start(minute, span)), queue, task)
        row = db.execute(_TALLY, key).fetchone()
        whole = RunSums() if row is None else sums_of(row[0])
        whole.add(sums)
        db.execute(_PUT_TALLY, (*key, _encode(whole).decode()))
        if row is None and span in RETENTION:
            db.execute(_FORGET, (span, micros(minute - RETENTION[span])))


def _tallies(db: sqlite3.Connection, span: Span, since: datetime) -> list[Tally]:
    sql = "SELECT at, queue, task, sums FROM mainspring_tallies WHERE span = ? AND at >= ?"
    found = {(at, queue, task): sums_of(sums) for at, queue, task, sums in db.execute(sql, (span, micros(since)))}
    for at, queue, task, sums in db.execute("SELECT at, queue, task, sums FROM mainspring_counting").fetchall():
        began = span_start(instant(at), span)
        if began >= since:
            found.setdefault((micros(began), queue, task), RunSums()).add(sums_of(sums))
    return [Tally(instant(at), queue, task, found[at, queue, task]) for at, queue, task in sorted(found)]
