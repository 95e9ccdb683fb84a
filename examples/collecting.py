"""Events of accounts, collected: one mail for each account, when there are three of them or a while after the last.

Prints:
00:02 ada: signed in, paid, signed out
00:08 ada: signed in
00:13 bob: signed in
bob's mail told of 1 event
"""

import asyncio
from dataclasses import dataclass

from mainspring import Collect, Mainspring
from mainspring.testing import VirtualClock

clock = VirtualClock()
app = Mainspring("memory://", clock=clock)


@dataclass
class Event:
    account: str
    what: str


@app.task(collect=Collect(size=3, delay=60, grace=5, by="account"))
async def mail(events: list[Event]) -> int:
    print(f"{clock.now():%M:%S} {events[0].account}: {', '.join(event.what for event in events)}")
    return len(events)


async def main() -> None:
    async with app, app.worker():
        for what in ("signed in", "paid", "signed out", "signed in"):
            await mail.enqueue(Event("ada", what))
            await clock.elapse(seconds=1)
        await clock.elapse(seconds=4)
        bob = await mail.enqueue(Event("bob", "signed in"))
        await clock.elapse(seconds=5)
        print(f"bob's mail told of {await bob.result()} event")


asyncio.run(main())
