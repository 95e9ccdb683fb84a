"""Future and past ticks of one schedule."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta

from ..clock import is_instant
from ..errors import BadInput
from ..schedule.record import Schedule
from ..trigger import Preview
from ..trigger.zone import zone_of
from .computation import Computation

MAX_TICKS = 10_000
# Store reads that find the jobs of any number of ticks.
MAX_PREFIXES = 5


def check_number(what: str, n: int, most: int) -> None:
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= most:
        raise BadInput(f"{what} is from 1 to {most:,}, got {n!r}")


def coming_ticks(row: Schedule, now: datetime) -> Iterator[datetime]:
    """Yields its ticks from the next one on, which a user may have moved.

    If runs decide the next tick, only that one is known.
    """
    tick, known = row.next_run_at, row.spec.after == "start"
    if row.status != "ended" and ((tick is None and known) or (tick and row.paused_at is not None and tick <= now)):
        tick = row.timetable.next(now)
    while tick is not None:
        yield tick
        if not known:
            return
        tick = row.timetable.next(tick)


def preview_tick(row: Schedule, tick: datetime) -> Preview:
    shown = row.timetable.preview(1, after=tick - timedelta(microseconds=1))
    if shown and shown[0].at == tick:
        return shown[0]
    return Preview(tick, tick.astimezone(zone_of(row.spec.trigger.tz)), "not by its trigger")


def excluding(ticks: Sequence[datetime], others: Collection[datetime]) -> list[datetime]:
    known = set(others)
    return [tick for tick in ticks if tick not in known]


def common_prefixes(keys: Collection[str]) -> list[str]:
    """At most MAX_PREFIXES prefixes, as long as possible, that together cover all the keys.

    Keys of ticks end with their instants, so that prefixes cover little more time than the ticks do.
    """
    cut, found = 0, set(keys)
    while len(found) > MAX_PREFIXES:
        cut += 1
        found = {key[:-cut] for key in keys}
    return sorted(found)


def past_ticks(
    row: Schedule, start: datetime, end: datetime, now: datetime, limit: int, computation: Computation
) -> list[datetime]:
    for what, at in (("start", start), ("end", end)):
        if not is_instant(at):
            raise BadInput(f"backfill takes datetimes with a time zone, got {what}={at!r}")
    if not start < end <= now:
        raise BadInput(f"backfill goes from an earlier to a later instant, both past; got {start} to {end}")
    check_number("limit", limit, MAX_TICKS)
    # Starts one microsecond earlier, so that a tick at `start` itself is included.
    ticks: list[datetime] = []
    tick = row.timetable.next(start - timedelta(microseconds=1))
    while tick is not None and tick < end:
        computation.check()
        if len(ticks) == limit:
            more = f" or raise limit= (at most {MAX_TICKS:,})" if limit < MAX_TICKS else ""
            raise BadInput(f"that is more than {limit:,} ticks of {row.name!r}; go in smaller steps{more}")
        ticks.append(tick)
        tick = row.timetable.next(tick)
    return ticks
