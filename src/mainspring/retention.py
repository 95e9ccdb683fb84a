"""How long finished jobs are remembered. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from .config import Settings
from .errors import BadInput
from .job import FINAL, State


class Retention(Struct, frozen=True):
    """Kept: the `keep` jobs that finished last, and all that finished less than `age` ago (None: all)."""

    keep: int = 100
    age: timedelta | None = timedelta(days=30)

    def __post_init__(self) -> None:
        if isinstance(self.keep, bool) or not isinstance(self.keep, int) or self.keep < 0:
            raise BadInput(f"Retention(keep=…) takes a whole number of 0 or more, got {self.keep!r}")
        if self.age is not None and (not isinstance(self.age, timedelta) or self.age < timedelta(0)):
            raise BadInput(f"Retention(age=…) takes a timedelta, or None to keep all; got {self.age!r}")


Rules = Mapping[tuple[State, str], tuple[int, datetime]]
"""By state and task: the `keep` jobs that finished last stay, and all that did not finish `before`."""


def retentions(value: Any) -> Mapping[State, Retention]:
    """A task's own: one for every final state, or a mapping of some of them."""
    if isinstance(value, Retention):
        return dict.fromkeys(FINAL, value)
    names = sorted(FINAL)
    if not isinstance(value, Mapping) or not all(isinstance(one, Retention) for one in value.values()):
        raise BadInput(f"takes a Retention, or a mapping of {', '.join(names)} to one; got {value!r:.80}")
    for state in value:
        if state not in names:
            raise BadInput(f"knows the states {', '.join(names)}; got {state!r}")
    return {State(state): one for state, one in value.items()}


def kept(state: State, own: Mapping[State, Retention], settings: Settings) -> Retention:
    """The rule for a task's jobs in that state: its own, or the app's."""
    if state in own:
        return own[state]
    if state is State.DEAD:
        return Retention(0, timedelta(seconds=settings.dead_retention))
    return Retention(settings.history_keep, timedelta(days=settings.history_days))
