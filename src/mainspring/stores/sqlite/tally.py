"""Run statistics of the SQLite store. The current minute has a table of its own: a batch costs one row per task."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from datetime import datetime

import msgspec

from ...clock import instant, micros
from ...records.outcome import Outcome
from ...records.tally import RETENTION, SPAN_SECONDS, RunSums, Span, Tally, span_start, sums_by_minute
from ...records.unreadable import sums_of
from .handle import SqliteHandle

_OPEN = "SELECT at, sums FROM mainspring_counting WHERE queue = ? AND task = ?"
_PUT_OPEN = """INSERT INTO mainspring_counting VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET at = excluded.at, sums = excluded.sums"""
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
    for (minute, queue, task), sums in sums_by_minute(accepted).items():
        at = micros(minute)
        row = db.execute(_OPEN, (queue, task)).fetchone()
        if row is not None and row[0] > at:
            _add_minute(db, minute, queue, task, sums)  # a late outcome, of a minute that is over
            continue
        if row is not None:
            earlier = sums_of(row[1])
            if row[0] == at:
                earlier.add(sums)
                sums = earlier
            else:
                _add_minute(db, instant(row[0]), queue, task, earlier)
        db.execute(_PUT_OPEN, (queue, task, at, _encode(sums).decode()))


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
