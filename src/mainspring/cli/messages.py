"""Messages on stderr: errors, notes, hints and log lines; and text that is safe to show."""

from __future__ import annotations

import logging
import os
from typing import IO, Any

import click

from ..config import LEVELS, LogFormat
from ..logs.formatters import JsonFormatter, RunFilter, TextFormatter
from ..logs.formatters import printable as clean
from ..mask import mask_text as redacted

__all__ = ["Failed", "clean", "hint", "log_option", "log_to_stderr", "note", "redacted", "safe"]

log_option = click.option("--log-level", type=click.Choice(LEVELS, case_sensitive=False), help="Default: the app's.")


def safe(text: str) -> str:
    """The text without passwords and without control characters."""
    return clean(redacted(text))


class Failed(click.ClickException):
    """A command failed: prints `error: …` on stderr, below `detail` if there is any, and exits with code 1."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail

    def show(self, file: IO[Any] | None = None) -> None:
        if self.detail:
            hint(self.detail.rstrip())
        note("error", self.message, "red")


def note(word: str, text: str, colour: str) -> None:
    """Prints a line on stderr that begins with a coloured word."""
    prefix = f"{word}:" if os.environ.get("NO_COLOR") else click.style(f"{word}:", fg=colour, bold=True)
    click.echo(f"{prefix} {safe(text)}", err=True)


def hint(text: str) -> None:
    """Prints what to know or to do next. It goes to stderr, so that pipes get data only."""
    click.echo(safe(text), err=True)


def log_to_stderr(level: str, form: LogFormat = "console", process: int | None = None) -> None:
    """Sends log lines to stderr, unless the app's module has configured logging.

    `process` is the number of a supervised process.
    """
    logging.getLogger("mainspring").setLevel(level.upper())
    handler = logging.StreamHandler()
    mark = "" if process is None else f" [{process}]"
    handler.setFormatter(JsonFormatter(process) if form == "json" else TextFormatter(mark))
    handler.addFilter(RunFilter())
    logging.basicConfig(level=level.upper(), handlers=[handler])
