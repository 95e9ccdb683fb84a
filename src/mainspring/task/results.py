"""Results: the results of a map, which a task reads in pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from ..codec import ResultCodec
from ..errors import BadInput
from ..records.run import Failure

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")
# Results that are read at once.
PAGE_ITEMS = 1000

Page = Sequence[tuple[int, "str | Failure"]]
"""Items of a map by their index, from 0 on: the JSON text of each result, or why the item has none."""
PageReader = Callable[[int, int], Awaitable[Page]]
"""(after_index, limit): the next items in order, at most `limit`. After -1 the first ones; an empty page is the end."""


class Pages(Generic[T_co]):
    """Values that are read in pages: `async for`, or `for` in a plain function. Each loop reads them again."""

    def __init__(
        self, read: PageReader, convert: Callable[[int, str | Failure], Iterator[Any]], loop: AbstractEventLoop | None
    ) -> None:
        """`convert` yields the values of an item, none or one. `loop` runs the reader for plain functions."""
        self._read, self._convert, self._loop = read, convert, loop

    async def __aiter__(self) -> AsyncIterator[T_co]:
        after = -1
        while page := await self._read(after, PAGE_ITEMS):
            for index, found in page:
                for value in self._convert(index, found):
                    yield value
            after = page[-1][0]

    def __iter__(self) -> Iterator[T_co]:
        after = -1
        while page := self._wait(after):
            for index, found in page:
                yield from self._convert(index, found)
            after = page[-1][0]

    def _wait(self, after: int) -> Page:
        """The next page, for a caller that does not await."""
        import asyncio

        async def read() -> Page:
            return await self._read(after, PAGE_ITEMS)

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            if self._loop is None:
                from ..sync import run

                return run(read())
            return asyncio.run_coroutine_threadsafe(read(), self._loop).result()
        raise BadInput("results are read with `async for` in a coroutine function: `for` would block its event loop")


class Results(Pages[T_co]):
    """The type of a parameter that reads the results of a map in pages, in order of its items.

    A loop over it gives the values of the items that completed. `list[T]` would be loaded whole.
    """

    _refusal: ClassVar[str] = "the results of a map are passed to a task in a flow only: total.step(parts)"
    """Why the codec makes none from JSON."""

    def __init__(self, read: PageReader, item_type: Any = Any) -> None:
        """A worker makes it, on its event loop."""
        self._codec = ResultCodec(None, "", item_type)
        super().__init__(read, self._values, _running_loop())

    def items(self) -> Pages[tuple[int, T_co]]:
        """The values with their items' indices, from 0 on."""
        return Pages(self._read, self._indexed_values, self._loop)

    def failures(self) -> Pages[tuple[int, Failure]]:
        """Why items have no value, with their indices."""
        return Pages(self._read, _failures, self._loop)

    def _values(self, index: int, found: str | Failure) -> Iterator[Any]:
        if isinstance(found, str):
            yield self._codec.decode(found)

    def _indexed_values(self, index: int, found: str | Failure) -> Iterator[tuple[int, Any]]:
        if isinstance(found, str):
            yield index, self._codec.decode(found)


if TYPE_CHECKING:

    class MapValue(list[R], Results[R]):
        """What a map returns, for type checkers: it goes into a parameter `list[R]` and into one of `Results[R]`."""


def _failures(index: int, found: str | Failure) -> Iterator[tuple[int, Failure]]:
    if isinstance(found, Failure):
        yield index, found


def _running_loop() -> AbstractEventLoop | None:
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
