"""What the program of every system with durable steps can do: make its tables, start jobs of many steps, work."""

from __future__ import annotations

import os
import sys
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

import uvloop
from meter import Meter, answer

DSN = os.environ.get("BENCH_STORE", "")
meter = Meter(Path(os.environ["BENCH_HOME"]))


class StepPeer(Protocol):
    """A system with durable steps. Each step marks its number, and returns one more than it was given. The job tells
    the meter what the last one returned."""

    async def setup(self) -> None:
        """Makes its tables in an empty database."""

    def producer(self) -> AbstractAsyncContextManager[object]:
        """Open while it starts jobs."""
        ...

    async def walks(self, jobs: int, steps: int) -> None:
        """Starts so many jobs of so many steps in turn."""

    async def work(self, size: int) -> None:
        """A worker until it is ended; `size` is the number of jobs at once."""


async def start(peer: StepPeer, jobs: int, steps: int) -> None:
    async with peer.producer():
        at = time.time()
        await peer.walks(jobs, steps)
        answer(at=at)


async def setup(peer: StepPeer) -> None:
    await peer.setup()
    answer()


def main(peer: StepPeer) -> None:
    match sys.argv[1:]:
        case ["setup"]:
            uvloop.run(setup(peer))
        case ["walks", jobs, steps]:
            uvloop.run(start(peer, int(jobs), int(steps)))
        case ["worker", size]:
            uvloop.run(peer.work(int(size)))
        case other:
            sys.exit(f"this program does not know {other}")
