"""Log lines: their formats, and one line for each event."""

from .formatters import JsonFormatter, RunFilter

__all__ = ["JsonFormatter", "RunFilter"]
