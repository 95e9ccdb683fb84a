"""Retention: how long finished jobs are kept. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import force_setattr

from ..config import Settings
from ..errors import BadInput
from ..records.job import FINAL, State
from ..span import seconds
from ..suggest import SuggestingStructMeta


class Retention(Struct, frozen=True, metaclass=SuggestingStructMeta):
    """Keeps the `keep` jobs that finished last, and all jobs that finished less than `age` ago (None: all jobs).

    `age` is a timedelta or a text such as "7d".
    """

    keep: int = 100
    age: timedelta | None = timedelta(days=30)

    if TYPE_CHECKING:  # stored as a timedelta; accepts text as well

        def __init__(self, keep: int = 100, age: str | timedelta | None = timedelta(days=30)) -> None: ...

    def __post_init__(self) -> None:
        if isinstance(self.keep, bool) or not isinstance(self.keep, int) or self.keep < 0:
            raise BadInput(f"Retention(keep=…) takes a whole number of 0 or more, got {self.keep!r}")
        if isinstance(self.age, str):
            force_setattr(self, "age", timedelta(seconds=seconds(self.age, "Retention(age=…)")))
        if self.age is not None and (not isinstance(self.age, timedelta) or self.age < timedelta(0)):
            way = "takes a span such as '7d' or timedelta(days=7), or None to keep all"
            raise BadInput(f"Retention(age=…) {way}; got {self.age!r}")


Rules = Mapping[tuple[State, str], tuple[int, datetime]]
"""By state and task, (keep, before): the `keep` jobs that finished last are kept, and all that finished at `before`
or later."""


def checked_retentions(value: Any) -> Mapping[State, Retention]:
    """A task's retention by final state. `value` is one Retention for all of them, or a mapping."""
    if isinstance(value, Retention):
        return dict.fromkeys(FINAL, value)
    names = sorted(FINAL)
    if not isinstance(value, Mapping) or not all(isinstance(one, Retention) for one in value.values()):
        raise BadInput(f"takes a Retention, or a mapping of {', '.join(names)} to one; got {value!r:.80}")
    for state in value:
        if state not in names:
            raise BadInput(f"knows the states {', '.join(names)}; got {state!r}")
    return {State(state): one for state, one in value.items()}


def retention_of(state: State, own: Mapping[State, Retention], settings: Settings) -> Retention:
    """The retention of a task's jobs in that state: the task's own, or the app's."""
    if state in own:
        return own[state]
    if state is State.DEAD:
        return Retention(0, timedelta(seconds=settings.dead_retention))
    return Retention(settings.history_keep, timedelta(days=settings.history_days))
