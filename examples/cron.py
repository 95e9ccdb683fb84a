"""Cron: what an expression means, its ticks when the clocks change, and schedules that fire by it.

Prints:
    at 01:30 every day, Europe/London
    Sat 30 March 01:30
    Sun 31 March 02:00 (31 March 2030, 01:30 does not exist: runs at 02:00)
    Mon 1 April 01:30
    refused: cron '0 25 * * *': hour 25 is not within 0-23
    Mon 7 January 09:00 greet
    Mon 14 January 09:00 greet
    Mon 21 January 09:00 greet
    Mon 28 January 09:00 greet
    Thu 31 January 18:00 close_books
    the books are closed again on 28 February
"""

import asyncio
from datetime import UTC, datetime

from mainspring import BadInput, Context, Mainspring, cron

app = Mainspring("sqlite:///production.db")  # never touched here


@app.cron("0 9 * * mon", tz="Europe/London")
async def greet(ctx: Context) -> None:
    show(ctx)


@app.cron("0 18 LW * *", tz="Europe/London")  # the last weekday of the month
async def close_books(ctx: Context) -> None:
    show(ctx)


def show(ctx: Context) -> None:
    assert ctx.scheduled_at is not None
    print(f"{ctx.scheduled_at:%a %-d %B %H:%M}", ctx.job.task)


def look() -> None:
    """An expression is a pure function of time: nothing has to run to see what it does."""
    nightly = cron("30 1 * * *", tz="Europe/London")
    print(nightly.explain())
    for tick in nightly.preview(3, after=datetime(2030, 3, 30, tzinfo=UTC)):
        print(f"{tick.local:%a %-d %B %H:%M} {tick.note and f'({tick.note})'}".rstrip())
    try:
        cron("0 25 * * *")
    except BadInput as refused:
        print("refused:", refused)


async def main() -> None:
    look()
    async with app.testing() as jobs:  # memory, and time that passes at once, from 1 January 2030
        await jobs.advance(days=31)
        (tick,) = await app.schedules.preview("close_books", 1)
        print(f"the books are closed again on {tick.local:%-d %B}")


if __name__ == "__main__":
    asyncio.run(main())
