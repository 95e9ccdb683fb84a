"""Stores with flows under way: `python flows.py FOLDER` writes them with the release that is in its path."""

from __future__ import annotations

import asyncio
import gzip
import sys
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from mainspring import Mainspring, Results, first
from mainspring.testing import VirtualClock

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
OWN, STEPS, ITEMS = "own", "steps", "items"
FOLDER = Path(__file__).parent / "flows_begun"


def workshop(url: str, clock: VirtualClock) -> Mainspring:
    """The app of these stores. What it says of its tasks and flows stays."""
    app = Mainspring(url, clock=clock)

    @app.task(queue=STEPS)
    async def number(n: int) -> int:
        return n

    @app.task(queue=STEPS)
    async def numbers(n: int) -> list[int]:
        return list(range(n))

    @app.task(queue=ITEMS)
    async def square(n: int) -> int:
        return n * n

    @app.task(queue=STEPS)
    async def total(parts: Results[int], more: int = 0) -> int:
        return sum([part async for part in parts]) + more

    @app.task(queue=STEPS, max_retries=0)
    async def odd_fails(n: int) -> int:
        if n % 2:
            raise ValueError(f"{n} is odd")
        return n

    @app.task(queue=STEPS)
    async def repair(broken: int | None, n: int) -> int:
        return -n

    @app.flow(queue=OWN)
    def part(n: int) -> int:
        return total.step(square.map(list(range(n))), number.step(n))

    @app.flow(queue=OWN)
    def assembly(n: int) -> list[int]:
        size = number.step(n)
        squares = square.map(numbers.step(5))
        inner = part.using(when=size >= 0).step(3)
        risky = odd_fails.step(n)
        repaired = repair.using(on="failure", after=risky).step(risky, n)
        return [total.step(squares, inner), first(risky, repaired)]

    @app.flow(queue=OWN)
    def large(n: int) -> int:
        return total.step(square.map(list(range(250))), n)

    @app.flow(queue=OWN)
    def strict(n: int) -> int:
        return number.step(odd_fails.step(n))

    return app


async def fill(app: Mainspring) -> None:
    """Flows that have ended, that are in the middle, and that have not begun."""
    async with app:
        await app.tasks["assembly"].enqueue(1)
        await app.tasks["strict"].enqueue(3)
        await app.drain()
        for n in (2, 3):
            await app.tasks["assembly"].enqueue(n)
        await app.tasks["large"].enqueue(4)
        stopped = await app.tasks["assembly"].enqueue(5)
        await app.drain(queues=[OWN])
        await app.drain(queues=[STEPS])
        await app.flows.cancel(stopped.id)
        await app.tasks["large"].enqueue(6)
        await app.tasks["part"].enqueue(7)
        await app.drain(queues=[OWN])
        await app.tasks["assembly"].enqueue(8)


async def write(folder: Path) -> None:
    from golden import form
    from servers import Postgres, Redis

    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "golden.db")
        await fill(workshop(f"sqlite:///{path}", VirtualClock(BEGIN)))
        (folder / form.SQLITE).write_bytes(form.dump_sqlite(path))
    with closing(Postgres()) as postgres:
        await fill(workshop(postgres.own(form.SCHEMA), VirtualClock(BEGIN)))
        (folder / f"{form.POSTGRES}.gz").write_bytes(gzip.compress(form.dump_postgres(postgres).encode(), 9, mtime=0))
    with closing(Redis()) as redis:
        await fill(workshop(redis.url(form.PREFIX), VirtualClock(BEGIN)))
        (folder / f"{form.REDIS}.gz").write_bytes(gzip.compress(form.dump_redis([redis]).encode(), 9, mtime=0))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    asyncio.run(write(Path(sys.argv[1])))
