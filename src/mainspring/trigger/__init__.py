"""Triggers: rules about time, from which schedules get their ticks."""

from .at import At, at
from .builder import every
from .calendar import Calendar
from .every import Every
from .rule import Preview, Trigger

__all__ = ["At", "Calendar", "Every", "Preview", "Trigger", "at", "every"]
