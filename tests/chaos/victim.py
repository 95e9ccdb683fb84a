"""The app that chaos tests enqueue to and kill, and its worker (`main`, started by forked.py)."""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from audit import Log

from mainspring import Context, Mainspring
from mainspring.events import JobLost
from mainspring.middleware import Next
from mainspring.store import Store

# Linux: a worker does not outlive its test, even if that is killed.
PR_SET_PDEATHSIG = 1
# A run whose worker died is rescued within LEASE + SWEEP.
BEAT, LEASE, SWEEP = 0.2, 1.0, 0.2


def make(url: str, log: Log | None = None, *, store: Store | None = None, **settings: Any) -> Mainspring:
    """The app on this store; its worker writes what it does to the log. `store` is one that opens it in its own way."""

    async def record(ctx: Context, call_next: Next) -> Any:
        if log is None:
            return await call_next(ctx)
        log.write("start", ctx.job)
        value = await call_next(ctx)
        log.write("end", ctx.job)
        return value

    app = Mainspring(
        store or url,
        middleware=[record],
        **{"beat": BEAT, "lease": LEASE, "sweep": SWEEP, "poll_interval": 0.2, **settings},
    )

    @app.task
    async def quick() -> None:
        """Nothing to do."""

    @app.task
    async def nap(seconds: float) -> None:
        await asyncio.sleep(seconds)

    @app.task
    async def effect(ctx: Context) -> None:
        if log is not None:
            log.write("effect", ctx.job)

    @app.task
    async def held(gate: str) -> None:
        """Runs until the file `gate` exists."""
        while not os.path.exists(gate):
            await asyncio.sleep(0.01)

    @app.task
    async def hog(seconds: float) -> None:
        """Holds the event loop, and the GIL as much as Python lets it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass

    @app.task
    async def poison() -> None:
        os._exit(1)

    if log is not None:
        app.on(JobLost)(lambda event: log.write("lost", event.job))
    return app


def arguments() -> tuple[str, Log, dict[str, Any]]:
    """The arguments of a worker process: the URL of its store, its log and its settings."""
    url, log, settings = sys.argv[1:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    return url, Log(Path(log)), json.loads(settings)


def main() -> None:
    url, log, settings = arguments()
    asyncio.run(make(url, log, **settings).worker().run())
