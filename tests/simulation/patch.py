"""Replaces an attribute for the duration of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def patch(owner: Any, name: str, other: Any) -> Iterator[None]:
    mine, inherited = getattr(owner, name), name not in vars(owner)
    setattr(owner, name, other)
    try:
        yield
    finally:
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, mine)
