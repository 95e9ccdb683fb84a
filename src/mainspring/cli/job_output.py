"""mainspring jobs output: prints what a job has written, and follows it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import click
import msgspec

from ..app import Mainspring
from ..ids import JobId
from ..records.run import OutputChunk
from .app_loader import with_app
from .json_output import print_json
from .messages import clean, hint
from .options import as_json


@click.command()
@click.argument("id")
@click.option("--follow", "-f", is_flag=True, help="Print new chunks as they come, until the job has ended.")
@click.option("--after", type=click.IntRange(0), default=0, metavar="N", help="Only chunks beyond this number.")
@click.option("--run", type=click.IntRange(1), metavar="N", help="Only this run, as `jobs show` numbers them.")
@as_json
@with_app
async def output(app: Mainspring, id: JobId, follow: bool, after: int, run: int | None, as_json: bool) -> None:
    """Print what a job's runs have written with ctx.write().

    Texts are printed as they were written, one behind the other; other values as JSON, one to a line. --follow prints
    new chunks until the job has ended, or Ctrl-C; --json then prints one JSON document per line.
    """
    chunks = _of_run(app.jobs.read(id, after=after) if follow else _stored(app, id, after), run)
    if as_json and not follow:
        return print_json([_record(chunk) async for chunk in chunks])
    if as_json:
        async for chunk in chunks:
            click.echo(msgspec.json.encode(_record(chunk)))
    else:
        await _print(chunks)
    if follow:
        hint(f"job {id} is {(await app.jobs.get(id)).shown(app.clock.now())}")
    return None


async def _stored(app: Mainspring, id: JobId, after: int) -> AsyncIterator[OutputChunk]:
    while chunks := await app.jobs.output(id, after=after):
        for chunk in chunks:
            yield chunk
        after = chunks[-1].n


async def _of_run(chunks: AsyncIterator[OutputChunk], run: int | None) -> AsyncIterator[OutputChunk]:
    async for chunk in chunks:
        if run is not None and chunk.run > run:
            return
        if run in (None, chunk.run):
            yield chunk


async def _print(chunks: AsyncIterator[OutputChunk]) -> None:
    """Prints each chunk as it comes. That another run begins, or that the output was full, goes to stderr."""
    run, last = 0, "\n"
    async for chunk in chunks:
        is_text, another = isinstance(chunk.value, str), run not in (0, chunk.run)
        if (another or not is_text) and not last.endswith("\n"):
            click.echo()
            last = "\n"
        if another:
            hint(f"run {chunk.run} {'goes on' if chunk.resumed else 'begins'}")
        if chunk.full:
            hint("the output was full: what the run wrote after this is not kept")
        text = chunk.value if is_text else "" if chunk.full else f"{chunk.text}\n"
        click.echo(clean(text), nl=False)
        run, last = chunk.run, text or last
    if not last.endswith("\n"):
        click.echo()


def _record(chunk: OutputChunk) -> dict[str, Any]:
    return {name: getattr(chunk, name) for name in ("n", "run", "at", "value", "full", "resumed")}
