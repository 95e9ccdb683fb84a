"""The application whose stores are kept as golden stores: its tasks, its declared schedules, its settings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from mainspring import Breaker, Context, DeadLetter, Discard, Mainspring, cron, every
from mainspring.testing import VirtualClock

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
BREAKER = Breaker(failures=3, cooldown=600)
# Served by the worker that drains a golden store; jobs of other queues wait for the tests.
QUEUES = ("orders", "reports")


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def shop(store: str, clock: VirtualClock) -> Mainspring:
    """Tasks and schedules may be added. Those that are here stay as they are: golden stores have jobs of them."""
    app = Mainspring(store, clock=clock, instance_id="golden", webhook_allow="127.0.0.1")

    @app.task(queue="orders")
    async def ship(ctx: Context, order: int, note: str = "") -> dict[str, int]:
        ctx.log.info("ships order %d", order)
        return {"shipped": order}

    @app.task(queue="mail", max_retries=2)
    async def send(to: str) -> str:
        return f"sent to {to}"

    @app.task(queue="sync", failed_ratio=0.9)
    async def sync(ctx: Context, page: int = 1) -> int:
        ctx.items(success=3, failed=1)
        return page

    @app.task(queue="reports")
    async def report(ctx: Context, kind: str = "daily") -> str:
        return kind

    @app.task(queue="frail", breaker=BREAKER, max_retries=0)
    async def frail() -> None:
        pass

    @app.task(queue="fragile", breaker=BREAKER, max_retries=0)
    async def fragile() -> None:
        pass

    @app.task(queue="orders", max_retries=0)
    async def doom(why: str) -> None:
        raise Discard(why)

    @app.dead_letter
    async def bury(letter: DeadLetter) -> str:
        return letter.failure.message

    async def kind(at: datetime) -> dict[str, Any]:
        return {"kind": f"{at:%H:%M}"}

    app.schedule("nightly", cron("30 2 * * mon-fri", tz="Europe/Berlin"), report, kwargs={"kind": "nightly"})
    app.schedule("computed", every(minutes=10), report, input=kind)
    return app
