"""Triggers: rules about time, from which schedules get their ticks."""

from .at import At, at
from .builder import every
from .calendar import Calendar
from .cron import Cron, cron
from .every import Every
from .rule import Preview, Trigger

__all__ = ["At", "Calendar", "Cron", "Every", "Preview", "Trigger", "at", "cron", "every"]
