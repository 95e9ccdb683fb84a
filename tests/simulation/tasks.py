"""The tasks of simulated workers: each succeeds or fails in its own way."""

# No `from __future__ import annotations`: as text they would be compiled again for each task of each host.

import asyncio
from collections.abc import Mapping
from typing import Any

from mainspring.app import Mainspring
from mainspring.records.flow import BATCH, CANCEL_STEPS, CLOSE_BATCH, FAN_OUT, FLOW_DEADLINE, PLANNED_FLOW
from mainspring.records.outcome import Cancel, Discard, Finish, Skip, Snooze
from mainspring.task.context import Context

from .auditor import Auditor
from .flow_plan import LONG_CHARACTERS
from .host import Host
from .signal_log import LATE, SIGNAL

RETRIES: Mapping[str, int] = {
    "quick": 3, "slow": 3, "flaky": 3, "broken": 2, "sleepy": 1, "late": 1, "stubborn": 3, "narrow": 3,
    "durable": 3, "approved": 3,
    "part": 2, "nested": 3, PLANNED_FLOW: 3, FAN_OUT: 20, CANCEL_STEPS: 20, FLOW_DEADLINE: 20,
    "called": 3, BATCH: 3, CLOSE_BATCH: 20,
}  # fmt: skip
FLOWS = frozenset({PLANNED_FLOW, BATCH, "nested"})
# Tasks whose runs are not recorded: the engine's own, and flows, whose functions only plan.
UNRECORDED = FLOWS | {FAN_OUT, CANCEL_STEPS, CLOSE_BATCH, FLOW_DEADLINE}
LIMITS: Mapping[str, int] = {"narrow": 1}
# This task ignores its cancellation, so it records no effects: nothing can promise that they end in time.
SWALLOWS = "stubborn"
SNOOZE_SECONDS = 2.0
# A durable task sleeps so long between its steps: its run ends meanwhile.
SLEEP_SECONDS = 1.5
TIMEOUT_SECONDS = 1.0


class PlannedError(Exception):
    """Raised by tasks that the plan lets fail."""


def register(app: Mainspring, host: Host, auditor: Auditor) -> None:
    """Registers all tasks on the app of one host."""
    clock = host.clock

    async def work(ctx: Context, seconds: float) -> None:
        """Works in three parts, with an effect after each."""
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
                raise PlannedError(f"attempt {ctx.attempt} of {value:g} that fail")

    @app.task(max_retries=RETRIES["broken"])
    async def broken(ctx: Context, value: float) -> None:
        with auditor.run(host, ctx.job) as run:
            await clock.sleep(value)
            run.effect()
            raise PlannedError("as always")

    @app.task(max_retries=RETRIES["sleepy"])
    async def sleepy(ctx: Context, value: float) -> None:
        with auditor.run(host, ctx.job) as run:
            run.effect()
            if ctx.job.runs <= value:
                raise Snooze(SNOOZE_SECONDS)
            raise PlannedError("awake, and in a bad mood")

    @app.task(max_retries=RETRIES["late"], timeout=TIMEOUT_SECONDS)
    async def late(ctx: Context, value: float) -> None:
        await work(ctx, TIMEOUT_SECONDS + value)

    @app.task(max_retries=RETRIES[SWALLOWS], timeout=TIMEOUT_SECONDS)
    async def stubborn(ctx: Context, value: float) -> None:
        with auditor.run(host, ctx.job):
            end = clock.monotonic() + value
            while (left := end - clock.monotonic()) > 0:
                try:
                    await clock.sleep(left)
                except asyncio.CancelledError:
                    if host.dead:
                        raise  # the simulation has ended

    @app.task(max_retries=RETRIES["durable"])
    async def durable(ctx: Context, value: float) -> Any:
        """Two steps at once, a sleep, and two steps one after the other. The value of each tells which run made it."""
        with auditor.run(host, ctx.job) as run:

            async def body(name: str, seconds: float) -> str:
                auditor.step_log.step_began(ctx.job, name)
                await clock.sleep(seconds)
                run.effect()
                return f"{name} of {run.lease}"

            async def step(name: str, seconds: float) -> None:
                values[name] = await ctx.step(body, name, seconds, name=name)
                auditor.step_log.step_returned(ctx.job, name, values[name])

            values: dict[str, str] = {}
            await asyncio.gather(step("one", value), step("two", value / 2))
            await ctx.sleep(SLEEP_SECONDS)
            await step("three", value)
            await step("four", 0.0)
            return values

    @app.task(max_retries=RETRIES["approved"])
    async def approved(ctx: Context, value: float) -> str:
        """Waits for a signal, `value` seconds at most."""
        with auditor.run(host, ctx.job) as run:
            answer = await ctx.signal(SIGNAL, str, timeout=value, default=LATE)
            auditor.signal_log.seen(ctx.job, answer)
            await clock.sleep(SLEEP_SECONDS)
            run.effect()
            return answer

    @app.task(max_retries=RETRIES["called"])
    async def called(ctx: Context) -> None:
        """A callback of a batch."""
        with auditor.run(host, ctx.job) as run:
            run.effect()

    @app.task(max_retries=RETRIES["part"])
    async def part(ctx: Context, how: Any, a: Any = None, b: Any = None, item: Any = None) -> Any:
        """A step of a flow. Its value tells which run made it."""
        with auditor.run(host, ctx.job) as run:
            auditor.flow_log.started(ctx.job, {"how": how, "a": a, "b": b, "item": item})
            await clock.sleep(how.get("seconds", 0.0))
            run.effect()
            _steer(ctx, how, item)
            value = {"x": how["x"], "run": run.lease, "items": how.get("items", [])}
            return {**value, "long": "y" * LONG_CHARACTERS} if how.get("long") else value

    @app.flow
    def nested(how: Any, a: Any = None, b: Any = None, item: Any = None) -> Any:
        """A flow in a flow: a step, a map behind it, and a step that gets its values."""
        first, *others = how["steps"]
        value = part.step(first, a, b)
        if others:
            value = part.step(first, part.map(others, value), item)
        return value


def _steer(ctx: Context, how: Mapping[str, Any], item: Any) -> None:
    """Ends the run in another way than by returning, if it is to end so."""
    if item in how.get("dies", ()):
        raise Discard
    match how.get("does"):
        case "flaky" if ctx.attempt == 1:
            raise PlannedError("the first attempt fails")
        case "broken":
            raise PlannedError("as always")
        case "snooze" if ctx.job.runs == 1:
            raise Snooze(SNOOZE_SECONDS)
        case "discard":
            raise Discard
        case "skip":
            raise Skip
        case "cancel":
            raise Cancel
        case "finish":
            raise Finish({"run": ctx.job.lease})
