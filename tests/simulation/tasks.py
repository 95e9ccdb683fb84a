"""The tasks that simulated workers know: each behaves, or misbehaves, in its own way."""

# Annotations are evaluated here, once: as text they would be compiled again for each task of each host.

import asyncio
from collections.abc import Mapping

from mainspring.app import Mainspring
from mainspring.records.outcome import Snooze
from mainspring.task.context import Context

from .auditor import Auditor
from .host import Host

RETRIES: Mapping[str, int] = {
    "quick": 3, "slow": 3, "flaky": 3, "broken": 2, "sleepy": 1, "late": 1, "stubborn": 3, "narrow": 3,
}  # fmt: skip
LIMITS: Mapping[str, int] = {"narrow": 1}
# It goes on when it is told to stop, so nothing can promise that its effects end in time.
SWALLOWS = "stubborn"
SNOOZE = 2.0
LATE = 1.0


class Trouble(Exception):
    """What a task raises when its plan says so."""


def register(app: Mainspring, host: Host, auditor: Auditor) -> None:
    """All tasks, for the workers and clients of one host."""
    clock = host.clock

    async def work(ctx: Context, seconds: float) -> None:
        """Three parts with an effect after each."""
        with auditor.run(host, ctx.job) as run:
            for _ in range(3):
                await clock.sleep(seconds / 3)
                run.effect()

    @app.task(max_retries=RETRIES["quick"])
    async def quick(ctx: Context, value: float) -> None:
        with auditor.run(host, ctx.job) as run:
            run.effect()

    @app.task(max_retries=RETRIES["slow"])
    async def slow(ctx: Context, value: float) -> None:
        await work(ctx, value)

    @app.task(max_retries=RETRIES["narrow"], concurrency=LIMITS["narrow"])
    async def narrow(ctx: Context, value: float) -> None:
        await work(ctx, value)

    @app.task(max_retries=RETRIES["flaky"])
    async def flaky(ctx: Context, value: float) -> None:
        with auditor.run(host, ctx.job) as run:
            await clock.sleep(0.2)
            run.effect()
            if ctx.attempt <= value:
                raise Trouble(f"attempt {ctx.attempt} of {value:g} that fail")

    @app.task(max_retries=RETRIES["broken"])
    async def broken(ctx: Context, value: float) -> None:
        with auditor.run(host, ctx.job) as run:
            await clock.sleep(value)
            run.effect()
            raise Trouble("as always")

    @app.task(max_retries=RETRIES["sleepy"])
    async def sleepy(ctx: Context, value: float) -> None:
        with auditor.run(host, ctx.job) as run:
            run.effect()
            if ctx.job.runs <= value:
                raise Snooze(SNOOZE)
            raise Trouble("awake, and in a bad mood")

    @app.task(max_retries=RETRIES["late"], timeout=LATE)
    async def late(ctx: Context, value: float) -> None:
        await work(ctx, LATE + value)

    @app.task(max_retries=RETRIES[SWALLOWS], timeout=LATE)
    async def stubborn(ctx: Context, value: float) -> None:
        with auditor.run(host, ctx.job):
            end = clock.monotonic() + value
            while (left := end - clock.monotonic()) > 0:
                try:
                    await clock.sleep(left)
                except asyncio.CancelledError:
                    if host.dead:
                        raise  # the simulation clears up
