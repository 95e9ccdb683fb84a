"""A running count while many jobs go by."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from ..app import Mainspring
from ..events import JobsChanged, JobsPruned

# Fewer are done before anybody has read it.
MANY = 1000


@contextmanager
def counting(app: Mainspring, kind: type[JobsChanged | JobsPruned], verb: str) -> Iterator[None]:
    """On stderr, for as long as it takes, if that is a terminal."""
    count = 0

    def tick(event: JobsChanged | JobsPruned) -> None:
        nonlocal count
        count += len(event.ids)
        if count >= MANY:
            click.echo(f"\r{verb}: {count:,} jobs …", nl=False, err=True)

    if not sys.stderr.isatty():
        yield
        return
    app.events.subscribe(kind, tick)
    try:
        yield
    finally:
        app.events.unsubscribe(kind, tick)
        if count >= MANY:
            click.echo("\r\x1b[K", nl=False, err=True)
