"""In whose name changes are made, for the audit trail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .errors import BadInput

_actor: ContextVar[str | None] = ContextVar("mainspring.actor", default=None)


@contextmanager
def act_as(who: str | None) -> Iterator[None]:
    """What is changed inside, through app.jobs, app.schedules, app.queues and so on, is recorded under this name.

    Where nobody is named, or None, nothing is recorded. The name goes along with the code: tasks that are started
    inside have it too. The innermost one counts.
    """
    if who is not None and (not isinstance(who, str) or not who.strip()):
        raise BadInput(f"whoever acts is given by name, such as 'ada'; got {who!r:.80}")
    token = _actor.set(who)
    try:
        yield
    finally:
        _actor.reset(token)


def current_actor() -> str | None:
    """None: nobody is named."""
    return _actor.get()
