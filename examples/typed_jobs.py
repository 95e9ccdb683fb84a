"""Arguments travel as JSON and arrive as the types the function declares.

Prints:
    Order 7 for Ada: 2 x teapot, 39.80, ship on 2030-05-01
    refund is a UUID, opened at 2030-04-01 09:30:00+00:00
    refused: arguments of task 'ship' do not fit: …
    pydantic: …
"""

import asyncio
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

from mainspring import BadPayload, Mainspring

app = Mainspring("memory://")


@dataclass
class Line:
    product: str
    price: Decimal
    count: int = 1


@dataclass
class Order:
    number: int
    customer: str
    lines: list[Line]


@app.task
async def ship(order: Order, on: date) -> str:
    total = sum(line.price * line.count for line in order.lines)
    goods = ", ".join(f"{line.count} x {line.product}" for line in order.lines)
    return f"Order {order.number} for {order.customer}: {goods}, {total}, ship on {on}"


@app.task
async def refund(id: UUID, opened_at: datetime) -> str:
    return f"refund is a {type(id).__name__}, opened at {opened_at}"


async def main() -> None:
    order = Order(7, "Ada", [Line("teapot", Decimal("19.90"), 2)])
    async with app, app.worker():
        shipped = await ship.enqueue(order, on=date(2030, 5, 1))
        print(await shipped.result(timeout=10))
        opened_at = datetime(2030, 4, 1, 9, 30, tzinfo=UTC)
        refunded = await refund.enqueue(UUID("0195f3a0-0000-7000-8000-000000000001"), opened_at)
        print(await refunded.result(timeout=10))
        try:
            await ship.enqueue(order, on="next week")  # type: ignore[arg-type]
        except BadPayload as refused:  # before anything was stored
            print(f"refused: {refused}")
    async with app:
        await with_pydantic()


async def with_pydantic() -> None:
    try:
        from pydantic import BaseModel
    except ImportError:
        return print("pydantic: not installed here")

    class Address(BaseModel):
        street: str
        city: str = "London"

    @app.task
    async def label(to: Address) -> Address:
        return to.model_copy(update={"street": to.street.title()})

    job = await label.enqueue(Address(street="baker street"))
    await app.drain()
    return print(f"pydantic: {await job.result()!r}")


if __name__ == "__main__":
    asyncio.run(main())
