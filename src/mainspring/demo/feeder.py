"""Customers: they order, upload, leave carts behind and read newsletters, so that there are jobs."""

from __future__ import annotations

import random
from itertools import count

from ..app import Mainspring
from ..records.job import NewJob

WIDTHS = (320, 640, 1280)
READERS = 30


async def feed(app: Mainspring) -> None:
    """Enqueues until cancelled, some ten jobs a second."""
    for tick in count(1):
        await app.enqueue_many(wishes(app, tick))
        await app.clock.sleep(random.uniform(0.15, 0.45))


def wishes(app: Mainspring, tick: int) -> list[NewJob]:
    """What is asked for in one moment."""
    tasks = app.tasks
    customer = random.randint(1000, 9999)
    jobs = [
        tasks["charge_card"].job(order=10 * tick + n, cents=random.randint(199, 9999))
        for n in range(random.randint(0, 3))
    ]
    if tick % 4 == 1:
        clip = f"clip-{customer}"
        jobs += [tasks["make_thumbnail"].job(clip, width) for width in WIDTHS]
        jobs.append(tasks["transcode"].job(clip))
    jobs.append(tasks["refresh_totals"].job())
    if tick % 4 == 2:
        delay = random.uniform(2, 8)
        jobs.append(tasks["remind_of_cart"].using(delay=delay).job(customer))
    if tick % 120 == 3:
        jobs.append(tasks["sync_crm"].job(customer))
    if tick % 40 == 5:
        jobs += [tasks["send_newsletter"].job(tick // 40 + 1, reader) for reader in range(READERS)]
    return jobs
