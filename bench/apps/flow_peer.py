"""What the program of every system with flows can do: make its tables, start one fan or many chains, work."""

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


class FlowPeer(Protocol):
    """A job system. Each job of its flows ticks the meter; the last of each tells it the flow's value."""

    async def setup(self) -> None:
        """Makes its tables in an empty database; those on Redis have none, and are not asked."""

    def producer(self) -> AbstractAsyncContextManager[object]:
        """Open while it starts flows."""
        ...

    async def fan(self, items: int) -> None:
        """One flow: so many jobs that return their number, and one behind them that adds up what they returned."""

    async def chains(self, count: int) -> None:
        """So many flows of STEPS jobs in turn, each of which returns one more than the one before it."""

    async def work(self, size: int) -> None:
        """A worker until it is ended; `size` is the setting that decides its speed."""


async def start(peer: FlowPeer, what: str, number: int) -> None:
    async with peer.producer():
        at = time.time()
        await (peer.fan(number) if what == "fan" else peer.chains(number))
        answer(at=at)


async def setup(peer: FlowPeer) -> None:
    await peer.setup()
    answer()


def main(peer: FlowPeer) -> None:
    match sys.argv[1:]:
        case ["setup"]:
            uvloop.run(setup(peer))
        case [("fan" | "chains") as what, number]:
            uvloop.run(start(peer, what, int(number)))
        case ["worker", size]:
            uvloop.run(peer.work(int(size)))
        case other:
            sys.exit(f"this program does not know {other}")
