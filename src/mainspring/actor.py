"""The actor: in whose name changes are made, for the audit log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .errors import BadInput

_actor: ContextVar[str | None] = ContextVar("mainspring.actor", default=None)


@contextmanager
def act_as(who: str | None) -> Iterator[None]:
    """Records changes made in the block, through app.jobs, app.schedules, app.queues and so on, under this name.

    Without a name, or with None, nothing is recorded. asyncio tasks that are started in the block inherit the name.
    Blocks may be nested: the innermost name counts.
    """
    if who is not None and (not isinstance(who, str) or not who.strip()):
        raise BadInput(f"act_as() takes a name, such as 'ada', or None; got {who!r:.80}")
    token = _actor.set(who)
    try:
        yield
    finally:
        _actor.reset(token)


def current_actor() -> str | None:
    """The name that changes are recorded under now. None if there is none."""
    return _actor.get()
