"""A question before something that cannot be undone."""

from __future__ import annotations

import click

from .messages import Failed


def confirm(question: str) -> None:
    """Returns if the answer is yes; otherwise nothing is done."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort as abort:
        if isinstance(abort.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        click.echo(err=True)
        raise Failed("nobody answered, so nothing was done: --yes goes ahead without asking") from None
    if not agreed:
        raise Failed("not confirmed, so nothing was done")
