"""Later: after a delay, at an instant, and not at all once it is too late.

Prints:
    now, after a delay, at an instant
    none was early
    too late: JobExpired
"""

import asyncio
from datetime import UTC, datetime, timedelta

from mainspring import Context, JobExpired, Mainspring

app = Mainspring("memory://")
ran: list[tuple[str, bool]] = []


@app.task
async def note(ctx: Context, text: str) -> None:
    ran.append((text, datetime.now(UTC) < ctx.job.run_at))


async def main() -> None:
    async with app:
        # Not started within 0.05 s, because no worker is there yet: it will never run.
        stale = await note.using(expires=0.05).enqueue("too late")
        await asyncio.sleep(0.1)
        soon = datetime.now(UTC) + timedelta(seconds=0.4)
        jobs = [
            await note.using(run_at=soon).enqueue("at an instant"),
            await note.using(delay=0.2).enqueue("after a delay"),
            await note.enqueue("now"),
        ]
        async with app.worker():
            for job in jobs:
                await job.result(timeout=10)
            try:
                await stale.result(timeout=10)
            except JobExpired as expired:
                end = type(expired).__name__
    print(", ".join(text for text, _ in ran))
    print("some were early" if any(early for _, early in ran) else "none was early")
    print(f"too late: {end}")


if __name__ == "__main__":
    asyncio.run(main())
