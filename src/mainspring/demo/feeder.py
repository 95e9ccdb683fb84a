"""The feeder: enqueues the jobs of customers who order, upload, abandon carts and read newsletters."""

from __future__ import annotations

import random
from itertools import count

from ..app import Mainspring
from ..records.job import NewJob

THUMBNAIL_WIDTHS = (320, 640, 1280)
NEWSLETTER_READERS = 30


async def feed(app: Mainspring) -> None:
    """Enqueues about ten jobs a second until cancelled."""
    for number in count(1):
        await app.enqueue_many(round_of_jobs(app, number))
        await app.clock.sleep(random.uniform(0.15, 0.45))


def round_of_jobs(app: Mainspring, number: int) -> list[NewJob]:
    """The jobs of one round of customers; rarer kinds only in some rounds."""
    tasks = app.tasks
    customer = random.randint(1000, 9999)
    jobs = [
        tasks["charge_card"].job(order=10 * number + n, cents=random.randint(199, 9999))
        for n in range(random.randint(0, 3))
    ]
    if number % 4 == 1:
        clip = f"clip-{customer}"
        jobs += [tasks["make_thumbnail"].job(clip, width) for width in THUMBNAIL_WIDTHS]
        jobs.append(tasks["transcode"].job(clip))
    jobs.append(tasks["refresh_totals"].job())
    if number % 4 == 2:
        delay = random.uniform(2, 8)
        jobs.append(tasks["remind_of_cart"].using(delay=delay).job(customer))
    if number % 120 == 3:
        jobs.append(tasks["sync_crm"].job(customer))
    if number % 40 == 5:
        jobs += [tasks["send_newsletter"].job(number // 40 + 1, reader) for reader in range(NEWSLETTER_READERS)]
    return jobs
