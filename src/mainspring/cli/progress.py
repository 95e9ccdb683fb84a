"""A running count on stderr while many jobs are changed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from ..app import Mainspring
from ..events import JobsChanged, JobsPruned

# Smaller changes are over before the count could be read.
MIN_JOBS_FOR_PROGRESS = 1000


@contextmanager
def count_on_stderr(app: Mainspring, kind: type[JobsChanged | JobsPruned], verb: str) -> Iterator[None]:
    """Shows the count during the block, if stderr is a terminal."""
    count = 0

    def add(event: JobsChanged | JobsPruned) -> None:
        nonlocal count
        count += len(event.ids)
        if count >= MIN_JOBS_FOR_PROGRESS:
            click.echo(f"\r{verb}: {count:,} jobs …", nl=False, err=True)

    if not sys.stderr.isatty():
        yield
        return
    app.events.subscribe(kind, add)
    try:
        yield
    finally:
        app.events.unsubscribe(kind, add)
        if count >= MIN_JOBS_FOR_PROGRESS:
            click.echo("\r\x1b[K", nl=False, err=True)
