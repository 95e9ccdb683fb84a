"""Triggers: rules about time, from which schedules get their ticks."""

from .at import At, at
from .calendar import Calendar
from .every import Every
from .period import every
from .rule import Preview, Trigger
from .timetable import Omitted, Timetable
from .window import Window

__all__ = ["At", "Calendar", "Every", "Omitted", "Preview", "Timetable", "Trigger", "Window", "at", "every"]
