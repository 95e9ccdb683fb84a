"""Log lines of commands that stay, on stderr."""

from __future__ import annotations

import logging

import click

from .text import safe

LEVELS = ("debug", "info", "warning", "error")

log_option = click.option("--log-level", type=click.Choice(LEVELS, case_sensitive=False), help="Default: the app's.")


class Safe(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return safe(super().format(record))


def log_to_stderr(level: str, mark: str = "") -> None:
    """Logs go where the app's module has sent them, or else to stderr; the mark says which process it is."""
    logging.getLogger("mainspring").setLevel(level.upper())
    handler = logging.StreamHandler()
    handler.setFormatter(Safe(f"%(asctime)s %(levelname)-7s{mark} %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])
