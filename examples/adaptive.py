"""An interval that grows while its runs return the same, on a clock that does not wait.

Prints:
00:01 looked
00:02 looked
00:04 looked
00:08 looked
every minute, now every 8 minutes as it returns the same
00:16 looked
every minute
00:17 looked
"""

import asyncio

from mainspring import Context, Mainspring
from mainspring.testing import VirtualClock

clock = VirtualClock()
app = Mainspring("memory://", clock=clock)
page = "old"


@app.every(minutes=1, adapt=8 * 60)
async def look(ctx: Context) -> str:
    print(f"{ctx.scheduled_at:%H:%M} looked")
    return page


async def main() -> None:
    global page
    async with app, app.worker():
        await clock.elapse(minutes=8, seconds=30)
        print((await app.schedules.get("look")).explain())
        page = "new"
        await clock.elapse(minutes=8)
        print((await app.schedules.get("look")).explain())
        await clock.elapse(minutes=1)


asyncio.run(main())
