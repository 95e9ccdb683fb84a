"""The answers of two stores in the twin test, in a form in which they can be compared."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import asdict

from ..ids import Lease
from ..store import Store

T = TypeVar("T")
Verb = Callable[[Store], Awaitable[T]]


async def each(verb: Verb[T], stores: Sequence[Store]) -> list[T]:
    return [await verb(store) for store in stores]


def plain(answer: Any, aliases: Mapping[Lease, str]) -> Any:
    """An answer as builtins that can be compared, with each lease replaced by its alias."""
    match answer:
        case Struct():
            return {"": type(answer).__name__, **plain(asdict(answer), aliases)}
        case dict():
            return {name: plain(value, aliases) for name, value in answer.items()}
        case list() | tuple():
            return [plain(value, aliases) for value in answer]
        case str():
            return aliases.get(answer, answer)
        case _:
            return answer
