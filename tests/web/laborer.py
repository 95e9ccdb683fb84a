"""A worker in its own process, until its standard input ends: python laborer.py STORE."""

from __future__ import annotations

import asyncio
import sys

from mainspring import Context, Mainspring


def make(store: str) -> Mainspring:
    app = Mainspring(store, beat=0.2, lease=20, concurrency=10, log_level="error", durability="relaxed")

    @app.task
    async def work(ctx: Context, n: int) -> int:
        return n

    return app


async def main(store: str) -> None:
    app = make(store)
    async with app, app.worker():
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
