"""What the tests of flows share: stores that have flows, and a worker that runs a flow to its end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from mainspring import Handle, Job, Mainspring
from mainspring.testing import VirtualClock

STORES = ["memory", "sqlite"]


async def ended(app: Mainspring, clock: VirtualClock, run: Handle[Any], **span: float) -> Job:
    """The flow's job after a worker has had time for it."""
    async with app.worker():
        await clock.elapse(timedelta(**(span or {"minutes": 10})))
    return await run.job()


async def states(app: Mainspring, run: Handle[Any]) -> dict[str, str]:
    return {step.name: step.state for step in await app.flows.steps(run.id)}
