"""Logging: formatters of log records, and log lines for events."""

from .formatters import JsonFormatter, RunFilter

__all__ = ["JsonFormatter", "RunFilter"]
