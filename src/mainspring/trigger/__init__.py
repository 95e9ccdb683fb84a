"""Triggers: cron, interval, calendar and one-time rules that define the ticks of schedules."""

from .at import At, at
from .calendar import Calendar
from .cron import Cron, cron
from .cron_clock_changes import Effect
from .every import Every
from .period import every
from .timetable import Omitted, Timetable
from .trigger import Preview, Trigger
from .window import Window

AnyTrigger = At | Calendar | Cron | Every

__all__ = [
    "AnyTrigger", "At", "Calendar", "Cron", "Effect", "Every", "Omitted", "Preview", "Timetable", "Trigger", "Window",
    "at", "cron", "every",
]  # fmt: skip
