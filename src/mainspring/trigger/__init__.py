"""Triggers: rules about time, from which schedules get their ticks."""

from .cron import Cron, cron
from .cron_effects import Effect
from .rule import Preview, Trigger

__all__ = ["Cron", "Effect", "Preview", "Trigger", "cron"]
