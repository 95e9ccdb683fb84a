"""Tasks that yield: what they yield are the items of maps."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from typing import Any, get_origin

# Why such a task is no job of its own.
NO_MAP_TAKES_ITEMS = (
    "yields items, and no map takes them: in a function with @app.flow, pass its step to .map() of a task"
)
_ITERATORS = (AsyncIterator, AsyncGenerator, Iterator, Generator)


def does_yield(fn: Callable[..., Any], stub: bool, result: Any) -> bool:
    """Whether the function yields; a stub, which has no code, says so with its return annotation."""
    return is_generator(fn) or is_async_generator(fn) or (stub and (get_origin(result) or result) in _ITERATORS)


def is_generator(fn: Callable[..., Any]) -> bool:
    """Whether calling the function returns a generator."""
    return inspect.isgeneratorfunction(fn) or inspect.isgeneratorfunction(getattr(fn, "__call__", None))  # noqa: B004


def is_async_generator(fn: Callable[..., Any]) -> bool:
    return inspect.isasyncgenfunction(fn) or inspect.isasyncgenfunction(getattr(fn, "__call__", None))  # noqa: B004
