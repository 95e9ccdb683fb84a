"""A worker whose task has an effect in the store's own database (`main`, started by forked.py)."""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import os
import signal
import sys
from typing import Any

from victim import BEAT, LEASE, PR_SET_PDEATHSIG, SWEEP

from mainspring import Context, Mainspring

PARTS = "first", "second", "third"


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

    async def book(connection: Any, id: str, what: str) -> str:
        booked = connection.execute(f"INSERT INTO effects VALUES ('{id} {what}')")
        if inspect.isawaitable(booked):
            await booked
        return what

    @app.task(max_retries=0)
    async def pay_in_parts(ctx: Context) -> list[str]:
        return [await ctx.step_in_transaction(book, ctx.job.id, what, name=what) for what in PARTS]

    return app


def main() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    asyncio.run(make(sys.argv[1]).worker().run())
