"""The orders of the example shop: a flow that copies clips to a disc, charges, burns and delivers it."""

from __future__ import annotations

import random
from datetime import datetime
from itertools import count

from msgspec import Struct

from .. import Backoff, Discard, Results
from ..app import Mainspring

CLIPS = ("big-buck-bunny", "sintel", "tears-of-steel", "spring", "agent-327", "charge", "wing-it", "sprite-fright")
# The share of orders whose disc cannot be burned, and of copies and payments that fail and are tried again.
BAD_DISC_RATIO, RETRY_RATIO = 0.12, 0.1


class DiscOrder(Struct, frozen=True):
    """What a customer orders."""

    id: int
    clips: tuple[str, ...]
    cents: int
    gift: bool = False


class OrderCheck(Struct, frozen=True):
    """Whether the shop accepts an order."""

    accepted: bool
    risk: int


def random_order(tick: datetime) -> dict[str, DiscOrder]:
    """The arguments of a flow: an order of a customer who comes at this tick."""
    clips = random.sample(CLIPS, random.randint(2, len(CLIPS)))
    gift, cents = random.random() < 0.4, random.randint(199, 9999)
    return {"order": DiscOrder(int(tick.timestamp()) % 1_000_000, tuple(clips), cents, gift)}


def sell_discs(app: Mainspring) -> None:
    """Registers the flow `fulfil_order`, the tasks of its steps, and a schedule that makes an order now and then."""
    parcels = count(1)

    @app.task(queue="orders")
    async def check_order(order: DiscOrder) -> OrderCheck:
        await app.clock.sleep(random.uniform(0.2, 0.8))
        return OrderCheck(accepted=order.cents >= 500, risk=random.choice((0, 0, 0, 0, 1, 1, 2, 4)))

    @app.task(queue="media", max_retries=3, backoff=Backoff(initial=1))
    async def copy_clip(clip: str, order: int) -> str:
        await app.clock.sleep(random.uniform(0.5, 3))
        if random.random() < RETRY_RATIO:
            raise OSError(f"{clip}: the card reader is busy")
        return f"{order}/{clip}.mp4"

    @app.task(queue="orders", max_retries=4, backoff=Backoff(initial=0.5, max=4))
    async def charge_order(order: DiscOrder) -> str:
        await app.clock.sleep(random.uniform(0.3, 1))
        if random.random() < RETRY_RATIO:
            raise ConnectionError("the bank timed out")
        return f"txn-{order.id}"

    @app.task(queue="orders")
    async def wrap_gift(order: DiscOrder) -> str:
        await app.clock.sleep(random.uniform(0.5, 1.5))
        return "in blue paper"

    @app.task(queue="media")
    async def burn_disc(order: int, copies: Results[str]) -> str:
        await app.clock.sleep(random.uniform(1, 3))
        if random.random() < BAD_DISC_RATIO:
            raise Discard(f"disc of order {order}: the burner reports a bad block")
        return f"disc-{order}: {len([copy async for copy in copies])} clips"

    @app.task(queue="orders")
    async def book_courier(disc: str) -> str:
        await app.clock.sleep(random.uniform(0.2, 1))
        return f"parcel-{next(parcels)}"

    @app.task(queue="orders")
    async def hand_over(parcel: str, wrapping: str | None) -> str:
        await app.clock.sleep(random.uniform(0.5, 2))
        return f"{parcel} {wrapping or 'as it is'}"

    @app.task(queue="orders")
    async def refund_order(order: DiscOrder, txn: str | None) -> str:
        await app.clock.sleep(random.uniform(0.2, 0.6))
        return "nothing was charged" if txn is None else f"{txn} is refunded"

    @app.task(queue="mail")
    async def answer_customer(order: DiscOrder, parcel: str | None) -> str:
        await app.clock.sleep(random.uniform(0.1, 0.4))
        return f"order {order.id}: {parcel or 'not accepted'}"

    @app.task(queue="reports")
    async def file_order(order: DiscOrder) -> None:
        await app.clock.sleep(random.uniform(0.1, 0.3))

    @app.flow(queue="orders")
    def deliver_disc(disc: str, wrapping: str | None) -> str:
        return hand_over.step(book_courier.step(disc), wrapping)

    @app.every(seconds=15, input=random_order, overlap="allow", run_on_start=True)
    @app.flow(queue="orders")
    def fulfil_order(order: DiscOrder) -> str:
        checked = check_order.step(order)
        accepted = checked.accepted & (checked.risk < 4)
        copies = copy_clip.using(when=accepted).map(order.clips, order.id)  # a job for each clip
        txn = charge_order.using(when=accepted).step(order)
        wrapping = wrap_gift.using(after=txn).step(order) if order.gift else None
        disc = burn_disc.using(after=txn).step(order.id, copies)
        parcel = deliver_disc.step(disc, wrapping)  # a flow in a step
        refund_order.using(on="failure", after=parcel).step(order, txn)
        file_order.using(on="end", after=parcel).step(order)
        return answer_customer.using(after=checked).step(order, parcel)
