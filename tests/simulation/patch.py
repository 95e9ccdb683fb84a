"""Replaces an attribute for the duration of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def patch(owner: Any, name: str, other: Any) -> Iterator[None]:
    mine = getattr(owner, name)
    setattr(owner, name, other)
    try:
        yield
    finally:
        setattr(owner, name, mine)
