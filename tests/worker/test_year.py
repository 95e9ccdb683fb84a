"""A year in six zones, hour by hour, with workers that are restarted whenever clocks change."""

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
START, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
HOUR, QUARTER, DAY = timedelta(hours=1), timedelta(minutes=15), timedelta(days=1)


def every(step: timedelta) -> list[datetime]:
    return [START + n * step for n in range(1, (END - START) // step + 1)]


def around_changes(tz: ZoneInfo) -> list[datetime]:
    """Every quarter of the hours in which this zone's clocks are changed, and of some before and after."""
    changes = [at for at in every(HOUR) if (at - HOUR).astimezone(tz).utcoffset() != at.astimezone(tz).utcoffset()]
    return [at + n * QUARTER for at in changes for n in range(-12, 12)]


def full_hours(tz: ZoneInfo) -> list[datetime]:
    """Every instant at which the wall shows a full hour, twice where it does so twice."""
    return [at for at in every(QUARTER) if at.astimezone(tz).minute == 0]


class Year:
    """An app on one store that can be recreated at any time."""

    def __init__(self, zone: str) -> None:
        self.zone, self.clock = zone, VirtualClock(START)
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
        changing = set(around_changes(ZoneInfo(self.zone)))
        for at in sorted(changing.union(every(step))):
            self.clock.set(at)
            if at in changing:
                self.restart()
            await self.app.drain()

    def of(self, name: str) -> list[datetime]:
        return sorted(at for schedule, at in self.runs if schedule == name)


@pytest.mark.parametrize("step", [DAY, pytest.param(HOUR, marks=pytest.mark.slow)], ids=["daily", "hourly"])
@pytest.mark.parametrize("zone", ZONES)
async def test_every_tick_of_a_year_runs_once_through_restarts_in_the_repeated_hour(zone: str, step: timedelta) -> None:
    year, tz = Year(zone), ZoneInfo(zone)
    await year.pass_by(step)
    assert set(year.runs.values()) == {1}
    assert year.of("hourly") == full_hours(tz)
    # Half past one, once on each day of the wall, whatever happens to it there.
    days = [at.astimezone(tz).date() for at in year.of("daily")]
    first, last = (START + 2 * HOUR).astimezone(tz).date(), (END - 2 * HOUR).astimezone(tz).date()
    assert set(days) - {first, last} == {first + n * DAY for n in range(1, (last - first).days)}
    assert len(days) == len(set(days))
