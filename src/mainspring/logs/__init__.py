"""Logging: formatters of log records, and log lines for events."""

from typing import TYPE_CHECKING

from ..lazy import exports

if TYPE_CHECKING:
    from .formatters import JsonFormatter, RunFilter
else:
    __getattr__, __dir__ = exports(__name__, {"formatters": ["JsonFormatter", "RunFilter"]})

__all__ = ["JsonFormatter", "RunFilter"]
