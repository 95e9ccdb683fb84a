"""Helpers that write many rows with one SQLite statement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from ..rows import Row

T = TypeVar("T")
# Numbers of rows that one statement writes: few sizes, so that SQLite's cache of prepared statements holds them all.
CHUNK_ROWS = (256, 128, 64, 32, 16, 8, 4, 2, 1)


def chunks(items: Sequence[T], sizes: Sequence[int] = CHUNK_ROWS) -> Iterator[Sequence[T]]:
    """Splits the items into these sizes, largest first; the last size is 1."""
    start = 0
    for size in sizes:
        while len(items) - start >= size:
            yield items[start : start + size]
            start += size


def value_lists(rows: int, columns: int) -> str:
    """The placeholders of VALUES: `(?, ?), (?, ?)` for 2 rows of 2 columns."""
    return ", ".join([f"({', '.join('?' * columns)})"] * rows)


def flatten(rows: Iterable[Row]) -> list[Any]:
    return [value for row in rows for value in row]
