"""A server whose event loop is monitored, on a store with large records: `python watched.py STORE-URL`.

It prints its address, a key for each role, and names of large records. GET /held returns for how long, since the
last such request, the event loop was blocked at most, in seconds, and resets that.
"""

from __future__ import annotations

import asyncio
import sys
import time
from functools import partial
from typing import Any

from mainspring import Mainspring, every
from mainspring.api import service
from mainspring.api.access import sign_in_attempts as attempts
from mainspring.api.server import Server, listen, url_of
from mainspring.feed.event import FeedEvent, Summary, encode
from mainspring.ids import new_id
from mainspring.records.api_key import ROLES
from mainspring.records.job import NewJob
from mainspring.records.outcome import MAX_MESSAGE_CHARACTERS, MAX_STACK_CHARACTERS
from mainspring.records.run import Failure

# Seconds between two checks.
BEAT = 0.002
LARGE = 1 << 20
# Empty lists in 8 MiB.
LISTS = 2_700_000
# The worst case for masking: a secret may begin at every character.
TEXT = ("eyJ-" * LARGE)[: LARGE - 100]


class Watch:
    """Measures continuously for how long the event loop was blocked.

    Only processor time of this process counts, in any thread: a thread that holds the interpreter lock
    blocks the event loop as well, and the load of other processes does not count.
    """

    def __init__(self) -> None:
        self.held = 0.0

    async def look(self) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        while True:
            await asyncio.sleep(BEAT)
            now, used = time.perf_counter(), time.process_time()
            self.held = max(self.held, min(now - wall - BEAT, used - cpu))
            wall, cpu = now, used

    def taken(self) -> float:
        held, self.held = self.held, 0.0
        return held


def watched(app: Any, watch: Watch) -> Any:
    async def asked(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] != "/held":
            await app(scope, receive, send)
            return
        await asyncio.sleep(2 * BEAT)
        text = f"{watch.taken():.6f}".encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"8")]})
        await send({"type": "http.response.body", "body": text[:8].ljust(8)})

    return asked


def made(url: str) -> Mainspring:
    app = Mainspring(url)

    @app.task
    async def send(to: str = "", token: str = "", rows: list[Any] | None = None) -> str:
        return to

    @app.task(max_retries=0)
    async def fail(why: str = "") -> None:
        raise ValueError(f"password={why} {TEXT[:100_000]}")

    return app


async def fill(app: Mainspring) -> dict[str, str]:
    """Stores large records, some of them accepted only by earlier releases; returns a name of each kind."""
    await publish(app)
    store, now = await app.connect(), app.clock.now()
    huge = {"text": ["x" * (LARGE - 100)] * 8, "rows": [{"a": n} for n in range(10_000)]}
    payload = app.job("send", {"to": TEXT}).payload
    jobs = [
        NewJob(id=new_id(now), task="send", payload=payload, metadata=huge, tags=("big",), queue="aside")
        for _ in range(6)
    ]
    await store.enqueue(jobs, now=now)
    countless = [
        NewJob(id=new_id(now), task="send", payload='{"to":"a"}', metadata={"rows": [[]] * LISTS}, queue="aside"),
        NewJob(id=new_id(now), task="send", payload=f'{{"rows":[{"[]," * LISTS}[]]}}', queue="aside"),
    ]
    for job in countless:
        await store.enqueue([job], now=now)
    await app.tasks["fail"].enqueue(why="hunter2")
    await app.tasks["send"].enqueue(to="done")
    await app.worker(queues=["default"]).drain()
    (dead,) = await app.dead.list(limit=1)
    times = [f"{n // 60:02}:{n % 60:02}" for n in range(1440)]
    rule = every().day.at(*times, tz="Europe/Berlin")
    for n in range(20):
        await app.schedules.create(f"nightly-{n}", rule, "send", kwargs={"to": TEXT if n < 2 else "a"})
    lists, arguments = countless
    return {
        "job": jobs[0].id, "dead": dead.id, "schedule": "nightly-0", "lists": lists.id, "arguments": arguments.id,
        "doomed_job": jobs[5].id, "doomed_schedule": "nightly-1",
    }  # fmt: skip


async def publish(app: Mainspring) -> None:
    """Live events, some of them with the longest error there is."""
    store, now = await app.connect(), app.clock.now()
    job = Summary(id=new_id(now), task="send", queue="default")
    error = Failure("ValueError", "m" * MAX_MESSAGE_CHARACTERS, "s" * MAX_STACK_CHARACTERS)
    small = encode(FeedEvent(type="job.progress", at=now, job=job))
    large = encode(FeedEvent(type="job.dead", at=now, job=job, error=error))
    await store.publish([large] * 1000, now=now)
    await store.publish([small] * 5000, now=now)


async def main(url: str) -> None:
    attempts.TOTAL_BURST = 10**9
    service.SignInAttempts = partial(attempts.SignInAttempts, burst=10**9)  # type: ignore[assignment,misc]
    app, watch = made(url), Watch()
    async with app:
        names = await fill(app)
        keys = [await app.keys.create(role, role) for role in ROLES]
        listener = listen("127.0.0.1", 0)
        looking = asyncio.ensure_future(watch.look())
        print(url_of(listener), *keys, *(f"{kind}={name}" for kind, name in names.items()), flush=True)
        await Server(watched(app.asgi(), watch), grace=1).run(listener)
        looking.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
