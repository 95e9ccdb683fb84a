"""Results: a task reads the results of a map in pages, with `async for` and with `for`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from mainspring import BadInput, Failure, Results
from mainspring.task.results import PAGE_ITEMS, Page

DEAD = Failure("ValueError", "no")


@dataclass
class Point:
    x: int


class Reader:
    """Pages of stored items, and how they were asked for."""

    def __init__(self, *items: str | Failure) -> None:
        self.items = list(enumerate(items))
        self.asked: list[tuple[int, int]] = []

    async def __call__(self, after: int, limit: int) -> Page:
        self.asked.append((after, limit))
        return [(n, item) for n, item in self.items if n > after][:limit]


@pytest.fixture
def reader() -> Reader:
    return Reader("1", DEAD, "3")


async def test_async_for_gives_the_values_of_completed_items(reader: Reader) -> None:
    assert [value async for value in Results[int](reader, int)] == [1, 3]


async def test_items_come_with_their_indices(reader: Reader) -> None:
    assert [item async for item in Results[int](reader, int).items()] == [(0, 1), (2, 3)]


async def test_failures_come_with_their_indices(reader: Reader) -> None:
    assert [item async for item in Results[int](reader, int).failures()] == [(1, DEAD)]


async def test_values_have_the_type_of_the_parameter() -> None:
    assert [value async for value in Results[Point](Reader('{"x":1}'), Point)] == [Point(1)]


async def test_results_are_read_in_pages_until_one_is_empty() -> None:
    reader = Reader(*map(str, range(2 * PAGE_ITEMS + 1)))
    assert [value async for value in Results[int](reader, int)] == list(range(2 * PAGE_ITEMS + 1))
    assert reader.asked == [(after, PAGE_ITEMS) for after in (-1, PAGE_ITEMS - 1, 2 * PAGE_ITEMS - 1, 2 * PAGE_ITEMS)]


async def test_each_loop_reads_again(reader: Reader) -> None:
    results: Results[int] = Results(reader, int)
    assert [value async for value in results] == [value async for value in results]


async def test_empty_map_has_no_values() -> None:
    assert [value async for value in Results[int](Reader(), int)] == []


async def test_plain_function_in_a_thread_reads_on_the_loop_of_the_worker() -> None:
    loops: list[Any] = []

    async def read(after: int, limit: int) -> Page:
        loops.append(asyncio.get_running_loop())
        return [(after + 1, "5")] if after < 1 else []

    results: Results[int] = Results(read, int)
    found = await asyncio.to_thread(lambda: (list(results), list(results.items()), list(results.failures())))
    assert found == ([5, 5], [(0, 5), (1, 5)], [])
    assert set(loops) == {asyncio.get_running_loop()}


def test_results_without_a_loop_are_read_too(reader: Reader) -> None:
    assert list(Results[int](reader, int)) == [1, 3]


async def test_for_in_a_coroutine_function_is_refused(reader: Reader) -> None:
    with pytest.raises(BadInput, match="`async for`"):
        list(Results[int](reader, int))
