"""The example shop with customers who come by its own schedules: `mainspring dev mainspring.demo.life:app`."""

from __future__ import annotations

import math
import os
import random
from datetime import datetime
from tempfile import TemporaryDirectory

from .. import Backoff, Clock, Context, Discard, every
from ..app import Mainspring
from .app import shop
from .feeder import round_of_jobs
from .orders import sell_discs

# Rounds of customers at the start, so that there is something to see at once.
FIRST_ROUNDS = 60
PARTNERS = ("Acme", "Globex", "Initech", "Umbrella")


def customers_at(at: datetime) -> int:
    """How many customers come in this second: a wave with a period of twenty minutes."""
    return round(0.8 + 0.7 * math.sin(at.timestamp() / 190) + random.uniform(-0.5, 0.5))


def busy_shop(store: str | None = None, clock: Clock | None = None) -> Mainspring:
    """The shop with customers, progress, logs, failures, a paused queue and a paused schedule."""
    app = shop(store, clock)
    sell_discs(app)

    @app.every(seconds=1, overlap="skip")
    @app.task(queue="customers", max_retries=0, tags=["life"])
    async def serve_customers(ctx: Context) -> int:
        assert ctx.scheduled_at
        second = int(ctx.scheduled_at.timestamp())
        jobs = [job for n in range(customers_at(ctx.scheduled_at)) for job in round_of_jobs(app, second + 7 * n)]
        await app.enqueue_many(jobs)
        return len(jobs)

    @app.every(seconds=20, run_on_start=True)
    @app.task(queue="media", timeout=120, tags=["media", "slow"])
    async def render_trailer(ctx: Context, clip: str = "big-buck-bunny", frames: int = 240) -> dict[str, object]:
        ctx.log.info("rendering %d frames of %s", frames, clip)
        for frame in range(0, frames, 8):
            await app.clock.sleep(random.uniform(0.2, 0.7))
            ctx.progress(frame + 8, frames, f"frame {frame + 8} of {frames}")
            if frame % 80 == 40:
                ctx.log.warning("frame %d took long: the card was busy", frame)
        ctx.log.info("done")
        return {"clip": f"{clip}.webm", "frames": frames, "checksum": random.getrandbits(63)}

    @app.every(seconds=40)
    @app.task(queue="reports", max_retries=1, backoff=Backoff(initial=2), tags=["billing"])
    async def convert_invoice(ctx: Context) -> None:
        invoice = random.randint(10_000, 99_999)
        await app.clock.sleep(0.2)
        if random.random() < 0.5:
            raise Discard(f"invoice {invoice} is in an unknown currency: 'XQQ'")
        if random.random() < 0.4:
            raise TimeoutError(f"rates.example.org did not answer within 5 s (invoice {invoice})")

    @app.task(queue="partners", tags=["partner"])
    async def publish_catalogue(partner: str, products: int) -> str:
        await app.clock.sleep(random.uniform(0.5, 1.5))
        return f"{products} products at {partner}"

    @app.cron("30 1 * * sun", tz="Europe/London", kwargs={"clip": "best-of-the-week", "frames": 240})
    async def weekly_trailer(clip: str, frames: int) -> None:
        await render_trailer.enqueue(clip, frames)

    weekday_mornings = every().weekday.at("07:30", tz="America/New_York")
    kwargs = {"partner": PARTNERS[0], "products": 1200}
    app.schedule("publish_catalogues", weekday_mornings, publish_catalogue, kwargs=kwargs)

    @app.every(days=365, name="open_shop", run_on_start=True, max_runs=1)
    @app.task(queue="customers", max_retries=0)
    async def open_shop(ctx: Context) -> None:
        """Runs once: pauses a queue and a schedule, and enqueues the first rounds of customers."""
        await app.queues.pause("partners")
        await app.enqueue_many(publish_catalogue.job(name, random.randint(50, 5000)) for name in PARTNERS * 3)
        await app.schedules.pause("send_bills", note="until the tax office answers")
        for n in range(FIRST_ROUNDS):
            await app.enqueue_many(round_of_jobs(app, n))

    return app


_folder = None if os.environ.get("MAINSPRING_STORE") else TemporaryDirectory(prefix="mainspring-demo-")
app = busy_shop(f"sqlite:///{_folder.name}/demo.db" if _folder else None)  # removed when this process ends
