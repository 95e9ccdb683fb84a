"""In whose name changes are made, for the audit trail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_actor: ContextVar[str | None] = ContextVar("mainspring.actor", default=None)


@contextmanager
def acting(who: str | None) -> Iterator[None]:
    """Changes made inside are recorded under this name; where nobody is named, nothing is."""
    token = _actor.set(who)
    try:
        yield
    finally:
        _actor.reset(token)


def actor() -> str | None:
    return _actor.get()
