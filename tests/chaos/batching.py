"""The app of tests with batches and signals, its worker, and the maker of a batch (`main`, started by forked.py)."""

from __future__ import annotations

import asyncio
from typing import Any

import victim
from audit import Log
from victim import arguments

from mainspring import BatchSummary, Context, Discard, Mainspring

JOBS, PAGE_JOBS = 40, 10
# A batch whose maker is killed is closed so long after its last job.
OPEN_SECONDS = 0.5


def make(url: str, log: Log | None = None, **settings: Any) -> Mainspring:
    app = victim.make(url, log, **settings)

    @app.task
    async def send(n: int) -> int:
        await asyncio.sleep(0.05)
        if n == 0:
            raise Discard
        return n

    @app.task
    async def tell(batch: BatchSummary) -> int:
        return batch.counts.total

    @app.task
    async def approved(ctx: Context) -> Any:
        answers = await asyncio.gather(ctx.signal("first", int), ctx.signal("second", int, timeout=3600, default=-1))
        return sum(answers)

    return app


async def make_batch(app: Mainspring, log: Log, *, closes: bool) -> None:
    """A batch whose jobs are added page by page, each of which is logged; without end if it is not closed."""
    tell, send = app.tasks["tell"], app.tasks["send"]
    batch = app.batch("letters", on_failure=tell, on_success=tell, on_complete=tell, open_for=OPEN_SECONDS)
    async with batch:
        log.note("begun", batch.id)
        for page in range(JOBS // PAGE_JOBS if closes else 10**6):
            await batch.enqueue_many(send.job(n + page * PAGE_JOBS) for n in range(PAGE_JOBS))
            log.note("page", batch.id)


async def serve(url: str, log: Log, settings: dict[str, Any]) -> None:
    if (closes := settings.pop("closes", None)) is None:
        await make(url, log, **settings).worker().run()
    else:
        await make_batch(make(url), log, closes=closes)


def main() -> None:
    asyncio.run(serve(*arguments()))
