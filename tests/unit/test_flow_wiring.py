"""The wiring of a flow: which types go where, and the types of parts of values."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Protocol, TypedDict, TypeVar
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, RootModel, computed_field, model_validator
from pydantic import Field as ModelField

from mainspring.errors import BadFlow
from mainspring.flow.json_types import accepts_none, shown
from mainspring.flow.wiring import is_assignable, part_of

T = TypeVar("T")
UserId = NewType("UserId", int)


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


@dataclass
class Order:
    id: int
    items: list[str] = field(default_factory=list)


@dataclass
class OnlyId:
    id: int


@dataclass
class Other:
    txn: str


@dataclass
class Node:
    children: list[Node]


@dataclass
class Leaf:
    children: list[Leaf]


class Camel(msgspec.Struct, rename="camel"):
    order_id: int


class Row(msgspec.Struct, array_like=True, tag=True):
    name: str
    size: int


class Item(TypedDict):
    id: int
    note: NotRequired[str]


class Pair(NamedTuple):
    left: int
    right: str


class Model(BaseModel):
    id: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return 2 * self.id


class OpenModel(BaseModel):
    model_config = ConfigDict(extra="allow")
    id: int


class Lenient(BaseModel):
    id: int

    @model_validator(mode="before")
    @classmethod
    def any_form(cls, data: Any) -> Any:
        return data


class Renamed(BaseModel):
    id: int = ModelField(validation_alias="identity")


class Names(RootModel[list[str]]):
    pass


class Shape(Protocol):
    id: int


class Opaque:
    pass


FITS = [
    (int, int), (int, float), (int, Decimal), (float, Decimal), (bool, bool), (UserId, int), (int, UserId),
    (str, datetime), (datetime, str), (UUID, str), (timedelta, str), (bytes, str), (Colour, str), (str, Colour),
    (Level, int), (Literal["a"], str), (str, Literal["a"]), (Literal["a", "b"], Literal["b"]), (date, datetime),
    (list[int], list[float]), (list[int], Sequence[int]), (tuple[int, ...], list[int]), (set[int], list[int]),
    (list, list[int]), (list[int], list), (list[str | None], list[str]), (Pair, list[Any]), (tuple[int, str], Pair),
    (AsyncIterator[int], list[int]), (Order, Order), (Order, OnlyId), (Item, OnlyId), (Order, Item), (Model, OnlyId),
    (OnlyId, Model), (Order, dict), (OnlyId, dict[str, int]), (dict[str, int], OnlyId), (dict, Order),
    (dict[str, int], Mapping[str, float]), (str | None, str), (str, str | None), (str | None, str | None),
    (str | int, int), (None, str | None), (None, None), (Any, int), (int, Any), (object, int), (int, object),
    (T, int), (int, T), (Shape, int), (int, Shape), (Opaque, int), (int, Opaque), (Callable[[], int], int),
    (Annotated[int, "x"], int), (Other, Lenient), (Other, Renamed), (list[int], Names), (Names, list[int]),
    (Node, Node), (Node, Leaf), (Row, list[Any]), (Camel, dict[str, int]), (list[Order], list[OnlyId]),
]  # fmt: skip
MISFITS = [
    (int, str), (str, int), (float, int), (bool, int), (int, bool), (Decimal, float), (datetime, int), (UUID, int),
    (Colour, int), (Level, str), (Literal["a"], Literal["b"]), (Literal[1], str), (list[int], list[str]), (int, list),
    (list[int], int), (list[list[int]], list[int]), (AsyncIterator[int], list[str]), (dict[str, int], list[int]),
    (dict[str, int], dict[str, str]), (Order, Other), (OnlyId, Other), (Other, Order), (Item, Other), (Order, int),
    (int, Order), (Order, list[Any]), (Order, dict[str, int]), (Other, Model), (Model, Other), (str | None, int | None),
    (None, str), (None, int), (str | bytes, int), (Annotated[int, "x"], str), (UserId, str), (list[Order], list[Other]),
    (Other, Order | OnlyId), (Row, dict[str, Any]), (Camel, Order), (int, Model),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target"), FITS, ids=str)
def test_value_that_may_fit_passes(source: Any, target: Any) -> None:
    assert is_assignable(source, target)


@pytest.mark.parametrize(("source", "target"), MISFITS, ids=str)
def test_value_that_cannot_fit_is_refused(source: Any, target: Any) -> None:
    assert not is_assignable(source, target)


@pytest.mark.parametrize(
    ("hint", "key", "found"),
    [
        (Order, "id", ("id", int)),
        (Order | None, "id", ("id", int)),
        (Camel, "order_id", ("orderId", int)),
        (Row, "size", (2, int)),
        (Item, "note", ("note", NotRequired[str])),
        (Model, "id", ("id", int)),
        (Model, "twice", ("twice", int)),
        (OpenModel, "more", ("more", Any)),
        (Pair, "right", (1, Any)),
        (dict[str, Order], "a", ("a", Order)),
        (Opaque, "a", ("a", Any)),
        (Any, "a", ("a", Any)),
    ],
    ids=str,
)
def test_part_by_attribute_has_the_type_of_its_field(hint: Any, key: str, found: Any) -> None:
    part = part_of(hint, key, attribute=True)
    assert (part.key, part.type) == found


@pytest.mark.parametrize(
    ("hint", "key", "found"),
    [
        (list[Order], 0, Order),
        (tuple[int, str], 1, str),
        (tuple[int, str], -2, int),
        (tuple[int, ...], 7, int),
        (dict[str, int], "a", int),
        (Camel, "orderId", int),
        (Order, "id", int),
    ],
    ids=str,
)
def test_part_by_item_has_the_type_of_its_element(hint: Any, key: Any, found: Any) -> None:
    assert part_of(hint, key, attribute=False).type == found


@pytest.mark.parametrize(
    ("hint", "key", "text"),
    [
        (Order, "ids", "Order has no field 'ids'; did you mean 'id'"),
        (Order | None, "ids", "no field 'ids'"),
        (Camel, "orderid", "no field"),
        (Model, "name", "Model has no field 'name'"),
        (Item, "name", "Item has no field"),
        (Pair, "middle", "no field 'middle'"),
        (tuple[int, str], 2, "has 2 parts"),
        (list[int], "x", "by its number"),
        (dict[str, int], 5, "no part of number 5"),
        (int, "real", "int has no parts"),
        (str, "title", "str has no parts"),
        (None, "x", "None has no part"),
    ],
    ids=str,
)
def test_part_that_is_not_there_is_refused(hint: Any, key: Any, text: str) -> None:
    with pytest.raises(BadFlow, match=text):
        part_of(hint, key, attribute=isinstance(key, str))


def test_only_none_in_the_annotation_accepts_none() -> None:
    assert accepts_none(str | None)
    assert accepts_none(None)
    assert not any(map(accepts_none, (str, Any, object, T)))


def test_types_are_shown_as_they_are_written() -> None:
    found = [shown(one) for one in (Order, list[Order], str | None, type(None), Literal["a.b"])]
    assert found == ["Order", "list[Order]", "str | None", "None", "Literal['a.b']"]
