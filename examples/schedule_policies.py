"""What a schedule does about ticks that overlap, were missed, fail, or fall outside its window; all of it on record.

Prints:
    slow: fired 00:10, skipped 00:20 (overlap), fired 00:30
    outage: missed 00:10 to 01:40 (catch_up, 10 of them), fired 01:50
    office: skipped 00:10 to 07:50 (window, 47 of them), fired 08:00
    broken: fired 00:10, fired 00:20
    broken is paused after 2 failures in a row
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

from mainspring import Mainspring, every
from mainspring.schedule import Tick
from mainspring.testing import VirtualClock

logging.getLogger("mainspring").setLevel(logging.CRITICAL)  # the failures below are meant


def told(tick: Tick) -> str:
    last = f" to {tick.last_at:%H:%M}" if tick.last_at else ""
    many = f", {tick.count} of them" if tick.count > 1 else ""
    reason = f" ({tick.reason}{many})" if tick.reason else ""
    return f"{tick.what} {tick.at:%H:%M}{last}{reason}"


def shop(name: str, **policies: object) -> tuple[Mainspring, VirtualClock]:
    """An app with one schedule, every ten minutes."""
    clock = VirtualClock()
    app = Mainspring("memory://", clock=clock, poll_interval=60, beat=60, lease=240)

    @app.task(max_retries=0, timeout=None)
    async def work() -> None:
        if name == "slow":
            await clock.sleep(15 * 60)
        if name == "broken":
            raise ConnectionError("no route")

    app.schedule(name, every(10).minutes, work, **policies)  # type: ignore[arg-type]
    return app, clock


async def play(name: str, scene: Callable[[Mainspring, VirtualClock], Awaitable[None]], **policies: object) -> None:
    app, clock = shop(name, **policies)
    async with app:
        await app.schedules.get(name)
        await scene(app, clock)
        ticks = sorted(await app.schedules.ticks(name), key=lambda tick: tick.at)
        print(f"{name}: {', '.join(told(tick) for tick in ticks)}")
        row = await app.schedules.get(name)
        if row.status == "paused":
            print(f"{name} is {row.note}")


async def work_on(app: Mainspring, clock: VirtualClock) -> None:
    async with app.worker() as worker:
        await clock.elapse(minutes=35)
        await worker.stop(grace=0)


async def outage(app: Mainspring, clock: VirtualClock) -> None:
    clock.advance(timedelta(hours=1, minutes=55))
    await app.drain()


async def until_eight(app: Mainspring, clock: VirtualClock) -> None:
    clock.advance(hours=8)
    await app.drain()


async def main() -> None:
    await play("slow", work_on, overlap="skip")
    await play("outage", outage, catch_up="latest")
    await play("office", until_eight, window=("08:00", "18:00"))
    await play("broken", work_on, pause_after_failures=2)


if __name__ == "__main__":
    asyncio.run(main())
