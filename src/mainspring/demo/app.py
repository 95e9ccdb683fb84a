"""The example app: a shop that sells video clips. Its sleeps stand in for the services it would call."""

from __future__ import annotations

import hashlib
import random

from .. import Backoff, Clock, Context, Mainspring

# The share of payment attempts that fail.
PAYMENT_FAILURE_RATIO = 0.06


def shop(store: str | None, clock: Clock | None = None) -> Mainspring:
    """The app with its tasks, on this store or on that of the settings."""
    app = Mainspring(store, clock=clock, beat=1, lease=5, grace=10)

    @app.task(queue="mail", priority=10)
    async def send_receipt(order: int) -> str:
        await app.clock.sleep(random.uniform(0.05, 0.3))
        return f"receipt-{order}.pdf"

    @app.task(queue="mail", priority=-10)
    async def send_newsletter(issue: int, reader: int) -> None:
        await app.clock.sleep(random.uniform(0.05, 0.2))

    @app.task(max_retries=4, backoff=Backoff(initial=0.5, max=4))
    async def charge_card(order: int, cents: int) -> None:
        await app.clock.sleep(random.uniform(0.1, 0.4))
        if random.random() < PAYMENT_FAILURE_RATIO:
            raise ConnectionError("the bank timed out")
        await send_receipt.enqueue(order)

    @app.task
    async def remind_of_cart(customer: int) -> None:
        await app.clock.sleep(random.uniform(0.05, 0.2))

    @app.task(queue="media")
    def make_thumbnail(clip: str, width: int) -> str:  # not async: runs in a thread
        return hashlib.pbkdf2_hmac("sha256", clip.encode(), b"salt", 50 * width).hex()[:12]

    @app.task(queue="media", concurrency=3, timeout=30)
    async def transcode(ctx: Context, clip: str) -> str:
        await app.clock.sleep(random.uniform(2, 4.5))
        return f"{clip} in {ctx.attempt} attempt(s)"

    @app.task(queue="reports", unique_key="totals")
    async def refresh_totals() -> None:
        await app.clock.sleep(random.uniform(0.5, 1.5))

    @app.task(queue="reports", max_retries=2, backoff=Backoff(initial=0.5))
    async def sync_crm(customer: int) -> None:
        await app.clock.sleep(random.uniform(0.1, 0.3))
        raise PermissionError("403, key expired")

    @app.every(seconds=3, overlap="skip")  # some counts take longer than the interval
    @app.task(queue="reports")
    async def count_stock() -> None:
        await app.clock.sleep(random.uniform(1.5, 3.5))

    @app.cron("*/10 * * * * *", input=lambda tick: {"until": f"{tick:%H:%M:%S}"})
    @app.task(queue="reports", priority=5)
    async def close_till(until: str) -> None:
        await app.clock.sleep(random.uniform(0.2, 0.6))

    @app.every(seconds=4, after="finish")
    async def sweep_carts() -> None:
        await app.clock.sleep(random.uniform(0.5, 1.5))

    @app.cron("0 3 * * *", tz="Europe/London", depends_on="close_till")
    @app.task(queue="reports")
    async def send_bills() -> None:
        await app.clock.sleep(random.uniform(0.5, 1))

    return app
