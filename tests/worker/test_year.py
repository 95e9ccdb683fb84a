"""A year in six zones, with workers that are restarted whenever clocks change."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from mainspring import Context, Mainspring, cron
from mainspring.stores import open_store
from mainspring.testing import VirtualClock

# Both hemispheres, half an hour of summer time, quarters of an hour, a change at midnight, and none at all.
ZONES = (
    "Europe/London", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Santiago", "Asia/Beirut",
)  # fmt: skip
HOUR, QUARTER, DAY, WEEK = timedelta(hours=1), timedelta(minutes=15), timedelta(days=1), timedelta(weeks=1)
Span = tuple[datetime, datetime]
YEAR = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)


def every(step: timedelta, span: Span) -> list[datetime]:
    start, end = span
    return [start + n * step for n in range(1, (end - start) // step + 1)]


def changes(tz: ZoneInfo, span: Span) -> list[datetime]:
    """The hours in which this zone's clocks are changed."""
    hours = every(HOUR, span)
    return [at for at in hours if (at - HOUR).astimezone(tz).utcoffset() != at.astimezone(tz).utcoffset()]


def weeks_of_changes(tz: ZoneInfo) -> list[Span]:
    """The days of a week before and after each change of this zone's clocks, and of one in which they do not change."""
    start, _ = YEAR
    days = [at.replace(hour=0, minute=0) for at in changes(tz, YEAR)]
    return [(start, start + WEEK), *((day - WEEK, day + WEEK) for day in days)]


def full_hours(tz: ZoneInfo, span: Span) -> list[datetime]:
    """Every instant at which the wall shows a full hour, twice where it does so twice."""
    return [at for at in every(QUARTER, span) if at.astimezone(tz).minute == 0]


class Passing:
    """An app on one store, in a span of time, that can be recreated at any time."""

    def __init__(self, zone: str, span: Span) -> None:
        self.zone, self.span, self.clock = zone, span, VirtualClock(span[0])
        self.store = open_store("memory://", clock=self.clock)
        self.runs: Counter[tuple[str, datetime]] = Counter()
        self.restart()

    def restart(self) -> None:
        """Discards the state of the last worker; only the store remains."""
        app = Mainspring(self.store, clock=self.clock)

        @app.task
        async def note(ctx: Context) -> None:
            assert ctx.job.schedule is not None
            assert ctx.scheduled_at is not None
            self.runs[ctx.job.schedule, ctx.scheduled_at] += 1

        # Although this worker polls seldom, no tick is late.
        app.schedule("hourly", cron("0 * * * *", tz=self.zone), note, overlap="allow", grace=2 * DAY)
        app.schedule("daily", cron("30 1 * * *", tz=self.zone), note, overlap="allow", grace=2 * DAY)
        self.app = app

    async def pass_by(self, step: timedelta) -> None:
        """Polls once in a step, with a new worker every quarter of an hour around changes of the clocks."""
        await self.app.drain()
        changing = {at + n * QUARTER for at in changes(ZoneInfo(self.zone), self.span) for n in range(-12, 12)}
        for at in sorted(changing.union(every(step, self.span))):
            self.clock.set(at)
            if at in changing:
                self.restart()
            await self.app.drain()

    def of(self, name: str) -> list[datetime]:
        return sorted(at for schedule, at in self.runs if schedule == name)


async def check(zone: str, span: Span, step: timedelta) -> None:
    passing, tz = Passing(zone, span), ZoneInfo(zone)
    await passing.pass_by(step)
    assert set(passing.runs.values()) == {1}
    assert passing.of("hourly") == full_hours(tz, span)
    # Half past one, once on each day of the wall, whatever happens to it there.
    days = [at.astimezone(tz).date() for at in passing.of("daily")]
    first, last = (span[0] + 2 * HOUR).astimezone(tz).date(), (span[1] - 2 * HOUR).astimezone(tz).date()
    assert set(days) - {first, last} == {first + n * DAY for n in range(1, (last - first).days)}
    assert len(days) == len(set(days))


# A worker behaves in all weeks without a change as in one of them: one zone shows that with a whole year.
@pytest.mark.parametrize(
    ("zone", "step"),
    [
        ("Europe/London", DAY),
        *(pytest.param(zone, DAY, marks=pytest.mark.slow) for zone in ZONES[1:]),
        *(pytest.param(zone, HOUR, marks=pytest.mark.slow) for zone in ZONES),
    ],
    ids=lambda given: {DAY: "daily", HOUR: "hourly"}.get(given, given),
)
async def test_every_tick_of_a_year_runs_once_through_restarts_in_the_repeated_hour(zone: str, step: timedelta) -> None:
    await check(zone, YEAR, step)


@pytest.mark.parametrize("zone", ZONES[1:])
async def test_every_tick_of_the_weeks_around_clock_changes_runs_once_through_restarts(zone: str) -> None:
    spans = weeks_of_changes(ZoneInfo(zone))
    assert len(spans) == (1 if zone == "Asia/Kathmandu" else 3)
    for span in spans:
        await check(zone, span, DAY)
