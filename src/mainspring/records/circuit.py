"""The circuit breaker of a task: its options, and its state in the store."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import force_setattr

from ..ids import JobId
from ..span import Span, seconds
from ..suggest import SuggestingStructMeta


class Breaker(Struct, frozen=True, metaclass=SuggestingStructMeta):
    """Stops a task after `failures` failures in a row. After `cooldown`, a span such as 60 or "5m", it tries one."""

    failures: int = 5
    cooldown: float = 60.0

    if TYPE_CHECKING:  # stored as seconds; accepts any span

        def __init__(self, failures: int = 5, cooldown: Span = 60.0) -> None: ...

    def __post_init__(self) -> None:
        given: object = self.cooldown
        if isinstance(given, str | timedelta):
            force_setattr(self, "cooldown", seconds(given, "Breaker(cooldown=…)"))


class Circuit(Struct, frozen=True):
    """The state of a task's circuit breaker. It exists only after a failure, until the task succeeds again."""

    task: str
    failures: int
    """Failures in a row."""
    open_until: datetime | None = None
    """None: closed. In the past: half open, so that one job can probe the task."""
    probe: JobId | None = None
    """The job that probes the task."""
