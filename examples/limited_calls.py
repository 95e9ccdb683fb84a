"""An API that allows 100 calls a minute for each key: 250 calls of one customer do not delay the three of another.

Prints:
00:00 acme: 1 call
00:00 bolt: 1 call
in the first minute: acme 100 calls, bolt 3 calls
in the second minute: acme 100 calls
in the third minute: acme 50 calls
"""

import asyncio
from collections import Counter, defaultdict

from mainspring import Limit, Mainspring
from mainspring.testing import VirtualClock

clock = VirtualClock()
app = Mainspring("memory://", clock=clock)
began = clock.now()
calls: dict[int, Counter[str]] = defaultdict(Counter)


@app.task(limit=Limit(rate=100, per="1m", by="api_key"))
async def call_api(api_key: str, n: int) -> None:
    calls[int((clock.now() - began).total_seconds() // 60)][api_key] += 1


def told(counts: Counter[str]) -> str:
    return ", ".join(f"{key} {n} call{'s' if n > 1 else ''}" for key, n in sorted(counts.items()))


async def main() -> None:
    async with app, app.worker():
        await app.enqueue_many(call_api.job("acme", n) for n in range(250))
        await app.enqueue_many(call_api.job("bolt", n) for n in range(3))
        await clock.elapse(milliseconds=1)
        for key, n in sorted(calls[0].items()):
            print(f"00:00 {key}: {n} call")
        await clock.elapse(minutes=3)
        for minute, name in enumerate(("first", "second", "third")):
            print(f"in the {name} minute: {told(calls[minute])}")


asyncio.run(main())
