"""@app.on takes any trigger: a time of day, a cron constant, one instant; and spans are texts such as "10m".

Prints:
    hourly: 24 runs
    morning: 2030-01-01 09:00
    launch: 2030-01-01 12:00
"""

import asyncio
from collections import defaultdict
from datetime import UTC, datetime

from mainspring import Context, Mainspring, at, cron, every
from mainspring.testing import VirtualClock

app = Mainspring("memory://", clock=VirtualClock(datetime(2030, 1, 1, tzinfo=UTC)))
ticks: defaultdict[str, list[datetime]] = defaultdict(list)


@app.on(cron.HOURLY, grace="10m")
async def hourly(ctx: Context) -> None:
    note(ctx)


@app.on(every().day.at("09:00"), overlap="skip")
async def morning(ctx: Context) -> None:
    note(ctx)


@app.on(at(datetime(2030, 1, 1, 12, tzinfo=UTC)))
@app.task(timeout="30s", max_retries=5)
async def launch(ctx: Context) -> None:
    note(ctx)


def note(ctx: Context) -> None:
    assert ctx.scheduled_at is not None
    ticks[ctx.job.task].append(ctx.scheduled_at)


async def main() -> None:
    async with app.testing() as jobs:
        jobs.clock.set(datetime(2030, 1, 1, tzinfo=UTC))
        await jobs.advance("1d")
    print(f"hourly: {len(ticks['hourly'])} runs")
    for name in ("morning", "launch"):
        print(f"{name}: {ticks[name][0]:%Y-%m-%d %H:%M}")


if __name__ == "__main__":
    asyncio.run(main())
