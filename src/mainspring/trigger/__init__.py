"""Triggers: rules about time, from which schedules get their ticks."""

from .cron import Cron, cron
from .rule import Preview, Trigger

__all__ = ["Cron", "Preview", "Trigger", "cron"]
