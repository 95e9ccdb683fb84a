"""The circuit breaker of a task: its setting, and its state in the store."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import force_setattr

from ..ids import JobId
from ..span import Span, seconds
from ..suggest import SuggestingStructMeta


class Breaker(Struct, frozen=True, metaclass=SuggestingStructMeta):
    """Stops a task after `failures` failures in a row; after `cooldown`, a span such as 60 or "5m", one job may try."""

    failures: int = 5
    cooldown: float = 60.0

    if TYPE_CHECKING:  # kept as seconds, and given as any span

        def __init__(self, failures: int = 5, cooldown: Span = 60.0) -> None: ...

    def __post_init__(self) -> None:
        given: object = self.cooldown
        if isinstance(given, str | timedelta):
            force_setattr(self, "cooldown", seconds(given, "Breaker(cooldown=…)"))


class Circuit(Struct, frozen=True):
    """A task's breaker, as the store has it. A task without one has not failed last time."""

    task: str
    failures: int
    """In a row."""
    open_until: datetime | None = None
    """None: closed. Passed: half open, one job may try."""
    probe: JobId | None = None
    """The job that tries."""
