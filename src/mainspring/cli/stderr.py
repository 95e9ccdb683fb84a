"""Log lines of commands that stay, on stderr."""

from __future__ import annotations

import logging

import click

from ..config import LEVELS, LogFormat
from ..logs.formatters import JsonFormatter, RunFilter, TextFormatter

log_option = click.option("--log-level", type=click.Choice(LEVELS, case_sensitive=False), help="Default: the app's.")


def log_to_stderr(level: str, form: LogFormat = "console", process: int | None = None) -> None:
    """Logs go where the app's module has sent them, or else to stderr; a supervised process gives its number."""
    logging.getLogger("mainspring").setLevel(level.upper())
    handler = logging.StreamHandler()
    mark = "" if process is None else f" [{process}]"
    handler.setFormatter(JsonFormatter(process) if form == "json" else TextFormatter(mark))
    handler.addFilter(RunFilter())
    logging.basicConfig(level=level.upper(), handlers=[handler])
