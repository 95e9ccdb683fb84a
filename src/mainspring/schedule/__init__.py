"""Schedules: their records, options and status, and the pure functions that plan and edit them."""

from .record import Tick

__all__ = ["Tick"]
