"""Schedules: an interval, wall-clock time, input computed at the tick; paused, triggered and looked at while they run.

Prints:
    Tue 12:00 visitors counted
    Wed 00:00 visitors counted
    Wed 09:00 report on 2030-01-01
    Wed 12:00 visitors counted
    paused: count_visitors (until the move is over)
    Thu 00:00 visitors counted
    Thu 09:00 report on 2030-01-02
    next reports: Fri 4 Jan 09:00, Mon 7 Jan 09:00
"""

import asyncio
from datetime import date, datetime, timedelta

from mainspring import Mainspring, every

app = Mainspring("sqlite:///production.db")  # never touched here


@app.every(hours=12)
async def count_visitors() -> None:
    say("visitors counted")


def yesterday(tick: datetime) -> dict[str, date]:
    """What the tick's job is called with, worked out when it fires."""
    return {"day": tick.date() - timedelta(days=1)}


@app.task
async def report(day: date) -> None:
    say(f"report on {day}")


app.schedule("daily-report", every().weekday.at("09:00"), report, input=yesterday)


def say(text: str) -> None:
    print(f"{app.clock.now():%a %H:%M}", text)


async def main() -> None:
    # In production a worker does this, and a day takes a day. Here it is Tuesday, the first of January 2030.
    async with app.testing() as jobs:
        await app.schedules.reschedule("daily-report", jobs.clock.now() + timedelta(hours=33))  # not today
        await jobs.advance(hours=36)
        row = await app.schedules.pause("count_visitors", "until the move is over")
        print(f"{row.status}: {row.name} ({row.note})")
        await jobs.advance(hours=12)
        await app.schedules.trigger("count_visitors")  # once, by hand, paused or not
        await jobs.advance(hours=12)
        coming = await app.schedules.preview("daily-report", 2)
        print("next reports:", ", ".join(f"{tick.at:%a %-d %b %H:%M}" for tick in coming))


if __name__ == "__main__":
    asyncio.run(main())
