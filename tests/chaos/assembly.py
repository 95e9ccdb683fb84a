"""The flows that chaos tests run, and their worker (`main`, started by forked.py)."""

from __future__ import annotations

import asyncio
from typing import Any

import victim
from audit import Log

from mainspring import Mainspring, Results, first
from mainspring.store import Store

# Each kind of job is claimed by workers of its queue: the flows' own jobs, the items of maps, and all other steps.
OWN, STEPS, ITEMS = "own", "steps", "items"
# More than the engine makes without a job of its own.
LARGE = 250


def make(url: str, log: Log | None = None, *, store: Store | None = None, **settings: Any) -> Mainspring:
    app = victim.make(url, log, store=store, **settings)

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

    @app.task(queue=STEPS)
    async def archive(n: int | None) -> None: ...

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
        whole = total.step(squares, inner)
        archive.using(on="end").step(whole)
        return [whole, first(risky, repaired)]

    @app.flow(queue=OWN)
    def large(n: int) -> int:
        return total.step(square.map(list(range(LARGE))), n)

    return app


def main() -> None:
    url, log, settings = victim.arguments()
    queues = settings.pop("queues", None)
    asyncio.run(make(url, log, **settings).worker(queues=queues).run())
