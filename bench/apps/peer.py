"""What the program of every peer on a server can do: make its tables, enqueue in three ways, work."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import uvloop
from meter import answer, instants

DSN = os.environ.get("BENCH_STORE", "")
BATCH, TOGETHER = 1_000, 200
ARGS = (os.environ["BENCH_PAYLOAD"],) if "BENCH_PAYLOAD" in os.environ else ()
"""The arguments of a noop job: none, but where their size counts."""


class Peer(Protocol):
    """A job system. Its jobs are `noop`, which ticks the meter, and `stamp`, which notes how late it is."""

    async def setup(self) -> None:
        """Makes its tables in an empty database; those on Redis have none, and are not asked."""

    def producer(self) -> AbstractAsyncContextManager[object]:
        """Open while it enqueues."""
        ...

    async def put(self, jobs: int, batch: int) -> None:
        """So many noop jobs, so many at a time, if it can."""

    async def one(self) -> None:
        """One noop job, durable on return."""

    async def stamp(self, due: float) -> None: ...

    async def work(self, size: int) -> None:
        """A worker until it is ended; `size` is the setting that decides its speed."""


async def together(one: Callable[[], Awaitable[object]], jobs: int) -> None:
    """For a peer without a bulk call: many callers at once."""
    for first in range(0, jobs, TOGETHER):
        await asyncio.gather(*(one() for _ in range(min(TOGETHER, jobs - first))))


async def fill(peer: Peer, jobs: int, batch: int = BATCH) -> None:
    async with peer.producer():
        start = time.perf_counter()
        await peer.put(jobs, batch)
        answer(jobs=jobs, seconds=time.perf_counter() - start)


async def single(peer: Peer, jobs: int) -> None:
    async with peer.producer():
        await peer.one()
        start = time.perf_counter()
        for _ in range(jobs):
            await peer.one()
        answer(jobs=jobs, seconds=time.perf_counter() - start)


async def paced(peer: Peer, jobs: int, gap: float) -> None:
    async with peer.producer():
        start = time.perf_counter()
        for at in instants(jobs, gap):
            await asyncio.sleep(max(0.0, start + at - time.perf_counter()))
            await peer.stamp(time.time())
        answer(jobs=jobs)


async def setup(peer: Peer) -> None:
    await peer.setup()
    answer()


def main(peer: Peer) -> None:
    match sys.argv[1:]:
        case ["setup"]:
            uvloop.run(setup(peer))
        case ["fill", jobs]:
            uvloop.run(fill(peer, int(jobs)))
        case ["fill", jobs, batch]:
            uvloop.run(fill(peer, int(jobs), int(batch)))
        case ["single", jobs]:
            uvloop.run(single(peer, int(jobs)))
        case ["paced", jobs, gap]:
            uvloop.run(paced(peer, int(jobs), float(gap)))
        case ["worker", size]:
            uvloop.run(peer.work(int(size)))
        case other:
            sys.exit(f"this program does not know {other}")
