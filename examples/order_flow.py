"""An order as a flow: checked, put aside, paid and shipped; what was paid is paid back if a later step fails.

Prints:
    order 1: completed, shipped with txn-1 and 2 parcels
    order 2: completed, not accepted
    refund: order 3, txn-3
    order 3: dead, dead step: ship (ConnectionError: the depot is closed, job …)
    check completed, reserve completed, charge completed, ship dead, refund completed, answer not_run
    order 3 after a retry: completed, shipped with txn-3 and 1 parcels
    charged: [1, 3]
"""

import asyncio
import logging
from dataclasses import dataclass

from mainspring import FlowFailure, Mainspring, State

logging.getLogger("mainspring").setLevel(logging.CRITICAL)
app = Mainspring("memory://")
charged: list[int] = []
closed = True


@dataclass
class Order:
    id: int
    items: list[str]
    amount: int


@dataclass
class Check:
    ok: bool
    risk: int


@app.task
async def check(order: Order) -> Check:
    return Check(ok=order.amount > 0, risk=order.amount // 1000)


@app.task(queue="stock")
async def reserve(item: str, order_id: int) -> str:
    return f"{item} of order {order_id}"


@app.task(queue="pay", max_retries=8)
async def charge(order: Order) -> str:
    charged.append(order.id)
    return f"txn-{order.id}"


@app.task(max_retries=0)
async def ship(order: Order, txn: str, parcels: list[str]) -> str:
    if order.id == 3 and closed:
        raise ConnectionError("the depot is closed")
    return f"shipped with {txn} and {len(parcels)} parcels"


@app.task
async def refund(order: Order, txn: str | None) -> None:
    if txn is not None:
        print(f"refund: order {order.id}, {txn}")


@app.task
async def answer(shipped: str | None) -> str:
    return shipped or "not accepted"


@app.task
async def alert(failure: FlowFailure) -> None:
    """Receives a dead flow with its dead steps; here `main` prints the same."""


@app.flow(on_failure=alert)
def fulfil(order: Order) -> str:
    checked = check.step(order)
    parcels = reserve.using(when=checked.ok).map(order.items, order.id)  # one job for each item, at the same time
    txn = charge.using(when=checked.ok & (checked.risk < 5), after=parcels).step(order)
    shipped = ship.step(order, txn, parcels)  # skipped with what it needs
    refund.using(on="failure", after=shipped).step(order, txn)
    return answer.using(after=checked).step(shipped)


async def main() -> None:
    global closed
    async with app:
        orders = [Order(1, ["tea", "cups"], 40), Order(2, ["pot"], 9000), Order(3, ["tray"], 15)]
        for order in orders:
            run = await fulfil.enqueue(order)
            await app.drain()
            job = await run.job()
            why = job.failure.message if job.failure else await run.result()
            print(f"order {order.id}: {job.state}, {why}")
        print(", ".join(f"{step.name} {step.state}" for step in await app.flows.steps(run.id)))
        closed = False
        await app.flows.retry(run.id)  # the dead step alone, and what depends on it: nothing is paid twice
        await app.drain()
        assert (await run.job()).state is State.COMPLETED
        print(f"order 3 after a retry: {(await run.job()).state}, {await run.result()}")
        print(f"charged: {charged}")


if __name__ == "__main__":
    asyncio.run(main())
