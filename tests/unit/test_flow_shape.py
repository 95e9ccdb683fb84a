"""Shapes of flows: plans that do not depend on the input."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from mainspring import BadFlow, Mainspring
from mainspring.flow.document import document_of
from mainspring.flow.shape import shape_of
from mainspring.flow.values import NeedsInput

app = Mainspring("memory://")


@dataclass
class Order:
    id: int
    items: list[str]
    note: str | None = None

    @property
    def size(self) -> int:
        return len(self.items)


@app.task
async def reserve(item: str, order: int) -> str: ...  # type: ignore[empty-body]
@app.task
async def charge(order: Order, limit: int = 5) -> int: ...  # type: ignore[empty-body]
@app.task
async def ship(order: int, txn: int, reserved: list[str]) -> str: ...  # type: ignore[empty-body]


def test_a_flow_that_passes_its_input_on_has_a_shape() -> None:
    @app.flow(name="fulfil")
    def fulfil(order: Order, express: bool = False) -> str:
        reserved = reserve.map(order.items, order.id)
        txn = charge.using(delay=0 if express else 3600).step(order)
        return ship.using(when=txn < 5).step(order.id, txn, reserved)

    document = document_of(shape_of(fulfil))
    assert document["steps"] == [
        {
            "name": "reserve",
            "task": "reserve",
            "args": {"order": "<order.id>"},
            "map": {"over": "<order.items>", "item": "item"},
        },
        {"name": "charge", "task": "charge", "args": {"order": "<order>"}, "options": {"delay": 3600.0}},
        {
            "name": "ship",
            "task": "ship",
            "args": {"order": "<order.id>", "txn": {"$step": "charge"}, "reserved": {"$step": "reserve"}},
            "when": {"<": [{"$step": "charge"}, 5]},
        },
    ]  # fmt: skip


LOOKS: dict[str, Callable[[Any], Any]] = {
    "if": lambda order: charge.step(order) if order.note else None,
    "loop": lambda order: [reserve.step(item, 1) for item in order.items],
    "text": lambda order: reserve.step(f"a{order.id}", 1),
    "sum": lambda order: reserve.step("a", order.id + 1),
    "slice": lambda order: reserve.map(order.items[:2], 1),
    "length": lambda order: len(order.items),
    "comparison": lambda order: charge.step(order) if order.id > 5 else None,
    "method": lambda order: reserve.step(order.note.upper(), 1),
    "property": lambda order: reserve.step("a", order.size),
    "library": lambda order: reserve.step("a", math.gcd(order.id, 2)),
    "part of an object": lambda order: charge.step(Order(order.id, [])),
    "type": lambda order: reserve.step("a", {"1": 1}[order.note]),
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_flow_that_looks_at_its_input_has_no_shape(look: str) -> None:
    def looks(order: Order) -> None:
        LOOKS[look](order)

    with pytest.raises(NeedsInput):
        shape_of(app.flow(name=f"looks: {look}")(looks))


def test_a_wrong_flow_is_a_bad_flow_whatever_its_input() -> None:
    def miswires(order: Any) -> None:
        ship.step(order.items, charge.step(order), [])

    def misspells(order: Any) -> None:
        charge.step(order.idd)

    def fails() -> None:
        raise ValueError("no")

    miswires.__annotations__["order"] = misspells.__annotations__["order"] = Order  # type checkers would refuse both
    with pytest.raises(BadFlow, match="step 'ship': argument 'order' takes int") as bad:
        shape_of(app.flow(miswires))
    assert not isinstance(bad.value, NeedsInput)
    with pytest.raises(BadFlow, match=r"order\.idd: Order has no field 'idd'"):
        shape_of(app.flow(misspells))
    with pytest.raises(BadFlow, match="its function raises ValueError without an input: no"):
        shape_of(app.flow(fails))
    with pytest.raises(BadFlow, match="task 'charge' is no flow"):
        shape_of(charge)
