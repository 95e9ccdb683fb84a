"""A schedule: its record, its options, and the pure functions that plan, edit and judge it."""

from .record import Tick

__all__ = ["Tick"]
