"""Interruptions: exceptions of a task that is interrupted, or that tries to exit the process."""

from __future__ import annotations


class Interrupted(BaseException):
    """Raised inside a synchronous task, at its next bytecode, when it is cancelled or timed out."""


class TaskExit(Exception):
    """Replaces SystemExit, KeyboardInterrupt and the like if a task raises them."""
