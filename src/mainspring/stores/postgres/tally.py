"""Run statistics of the PostgreSQL store: each batch of outcomes inserts rows, and beats fold them into the tallies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from ...clock import instant, micros
from ...records.outcome import Outcome
from ...records.tally import RETENTION, SPAN_SECONDS, RunSums, Span, Tally, span_start, sums_by_minute
from ...records.unreadable import sums_of
from .handle import PostgresHandle
from .pool import BIGINT_ARRAY, Session

_encode = msgspec.json.Encoder().encode

TallyKey = tuple[Span, int, str, str]

# A finish only inserts: if it updated a shared row, all finishes would wait for its lock.
_COUNT = f"""INSERT INTO mainspring_counting (at, queue, task, sums)
    SELECT * FROM unnest($1::{BIGINT_ARRAY}, $2::text[], $3::text[], $4::text[])"""


async def add_counts(db: Session, accepted: Iterable[Outcome]) -> None:
    if found := sums_by_minute(accepted):
        await db.run(_COUNT, *count_columns(found))


def count_columns(
    found: Mapping[tuple[datetime, str, str], RunSums],
) -> tuple[list[str], list[str], list[str], list[str]]:
    """The parameters of _COUNT: sums by minute, queue and task."""
    return (
        [str(micros(at)) for at, _, _ in found],
        [queue for _, queue, _ in found],
        [task for _, _, task in found],
        [_encode(sums).decode() for sums in found.values()],
    )


_LATEST = "DELETE FROM mainspring_counting RETURNING at, queue, task, sums"
_KEPT = f"""SELECT span, at, queue, task, sums FROM mainspring_tallies WHERE (span, at, queue, task) IN
    (SELECT * FROM unnest($1::text[], $2::{BIGINT_ARRAY}, $3::text[], $4::text[]))"""
_PUT = f"""INSERT INTO mainspring_tallies
    SELECT * FROM unnest($1::text[], $2::{BIGINT_ARRAY}, $3::text[], $4::text[], $5::text[])
    ON CONFLICT (span, at, queue, task) DO UPDATE SET sums = excluded.sums"""
_FORGET = "DELETE FROM mainspring_tallies WHERE span = $1 AND at < $2"


async def fold_counts(db: Session) -> None:
    """Moves the new counts into the tallies of minute, hour, day and total, unless another process is doing so."""
    if not await db.value("SELECT pg_try_advisory_xact_lock($1, -3)", db.url.lock):
        return
    found: dict[TallyKey, RunSums] = {}
    for at, queue, task, text in await db.rows(_LATEST):
        sums = sums_of(text)
        for span in SPAN_SECONDS:
            found.setdefault((span, micros(span_start(instant(at), span)), queue, task), RunSums()).add(sums)
    if not found:
        return
    for *key, text in await db.rows(_KEPT, *([*map(str, column)] for column in zip(*found, strict=True))):
        whole = sums_of(text)
        whole.add(found[key[0], key[1], key[2], key[3]])
        found[key[0], key[1], key[2], key[3]] = whole
    rows = [
        (span, str(at), queue, task, _encode(found[span, at, queue, task]).decode())
        for span, at, queue, task in sorted(found)
    ]
    await db.run(_PUT, *([*column] for column in zip(*rows, strict=True)))
    newest = instant(max(at for span, at, _, _ in found if span == "minute"))
    for span, kept in RETENTION.items():
        await db.run(_FORGET, span, micros(newest - kept))


_ALL = """SELECT at, queue, task, sums FROM mainspring_tallies WHERE span = $1 AND at >= $2
    UNION ALL SELECT at, queue, task, sums FROM mainspring_counting"""


class PostgresTally(PostgresHandle):
    """The verb `tallies`."""

    async def tallies(self, span: Span, *, since: datetime) -> list[Tally]:
        rows = await self._call(lambda db: db.rows(_ALL, span, micros(since)))
        starts = {at: span_start(instant(at), span) for at in {row[0] for row in rows}}
        found: dict[tuple[datetime, str, str], RunSums] = {}
        for at, queue, task, text in rows:
            key, sums = (starts[at], queue, task), sums_of(text)
            if key in found:
                found[key].add(sums)
            elif key[0] >= since:
                found[key] = sums
        return [Tally(*key, found[key]) for key in sorted(found)]
