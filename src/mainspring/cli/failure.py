"""Failed: a command that could not do its job, told in one line."""

from __future__ import annotations

import os
from typing import IO, Any

import click

from .text import safe


class Failed(click.ClickException):
    """`error: …` on stderr and exit code 1; `detail` stands above it."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail

    def show(self, file: IO[Any] | None = None) -> None:
        if self.detail:
            hint(self.detail.rstrip())
        note("error", self.message, "red")


def note(word: str, text: str, colour: str) -> None:
    """A line on stderr that begins with a coloured word."""
    prefix = f"{word}:" if os.environ.get("NO_COLOR") else click.style(f"{word}:", fg=colour, bold=True)
    click.echo(f"{prefix} {safe(text)}", err=True)


def hint(text: str) -> None:
    """What to know or do next, on stderr, so that pipes get data only."""
    click.echo(safe(text), err=True)
