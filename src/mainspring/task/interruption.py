"""How the function of a task ends when it neither returns nor raises an ordinary exception."""

from __future__ import annotations


class Interrupted(BaseException):
    """Raised inside a synchronous task at its next bytecode, when it is cancelled or out of time."""


class TaskExit(Exception):
    """A task raised SystemExit, KeyboardInterrupt or the like."""
