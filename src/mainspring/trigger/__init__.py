"""Triggers: rules about time, from which schedules get their ticks."""

from .rule import Preview, Trigger

__all__ = ["Preview", "Trigger"]
