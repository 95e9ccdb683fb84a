"""Puts something else in the place of an attribute, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def swap(owner: Any, name: str, other: Any) -> Iterator[None]:
    mine = getattr(owner, name)
    setattr(owner, name, other)
    try:
        yield
    finally:
        setattr(owner, name, mine)
