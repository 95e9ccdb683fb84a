"""A confirmation question, before changes that cannot be undone."""

from __future__ import annotations

import click

from .messages import Failed


def confirm(question: str) -> None:
    """Returns if the answer is yes. Raises Failed if it is no, or if there is no answer."""
    try:
        confirmed = click.confirm(question, err=True)
    except click.Abort as abort:
        if isinstance(abort.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        click.echo(err=True)
        raise Failed("there was no answer, so nothing was done: --yes goes ahead without asking") from None
    if not confirmed:
        raise Failed("not confirmed, so nothing was done")
