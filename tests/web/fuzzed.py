"""A server for the fuzzer, with a few jobs and high limits for wrong keys: `python fuzzed.py STORE-URL`.

It prints its address and the key of an admin, and ends with SIGTERM. With the argument `worker` a worker runs beside
it, and no data is stored.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import nullcontext
from functools import partial

from mainspring import Mainspring, cron
from mainspring.api import service
from mainspring.api.access import sign_in_attempts as attempts
from mainspring.api.server import Server, listen, url_of


def made(url: str) -> Mainspring:
    app = Mainspring(url)

    @app.task(queue="mail")
    async def send(to: str, token: str = "") -> str:
        return f"sent to {to}"

    @app.task
    async def total(parts: list[str]) -> int:
        return len(parts)

    @app.flow
    def send_all(names: list[str]) -> int:
        return total.step(send.map(names))

    return app


async def fill(app: Mainspring) -> None:
    await app.insert([app.job("send", {"to": f"{n}@example.com"}) for n in range(5)])
    await app.flows.enqueue({"steps": [{"name": "0", "task": "send", "map": {"over": ["a", "b"]}}]})
    await app.schedules.create("0", cron("0 8 * * *"), "send", kwargs={"to": "all"})


async def main(url: str, worker: bool) -> None:
    # Other tests check that many wrong keys get a 429; here each wrong key has to get a 401.
    attempts.TOTAL_BURST = 10**9
    service.SignInAttempts = partial(attempts.SignInAttempts, burst=10**9)  # type: ignore[assignment,misc]
    app = made(url)
    async with app, app.worker() if worker else nullcontext():
        if not worker:
            await fill(app)
        secret = await app.keys.create("fuzzer", "admin")
        listener = listen("127.0.0.1", 0)
        print(url_of(listener), secret, flush=True)
        await Server(app.asgi(), grace=1).run(listener)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], "worker" in sys.argv))
