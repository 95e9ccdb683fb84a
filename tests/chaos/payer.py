"""A worker whose task has an effect in the store's own database (`main`, started by forked.py)."""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import os
import signal
import sys

from victim import BEAT, LEASE, PR_SET_PDEATHSIG, SWEEP

from mainspring import Context, Mainspring


def make(url: str) -> Mainspring:
    app = Mainspring(url, beat=BEAT, lease=LEASE, sweep=SWEEP, poll_interval=0.2, max_crashes=10)

    @app.task
    async def pay(ctx: Context, stops: bool = False) -> None:
        async with ctx.transaction() as connection:
            booked = connection.execute(f"INSERT INTO effects VALUES ('{ctx.job.id}')")
            if inspect.isawaitable(booked):
                await booked
            if stops and ctx.job.runs == 1:
                os.kill(os.getpid(), signal.SIGSTOP)
            ctx.complete(ctx.job.runs)

    return app


def main() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    asyncio.run(make(sys.argv[1]).worker().run())
