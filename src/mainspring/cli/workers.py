"""mainspring workers: lists live workers, and gives them orders."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ..app import Mainspring
from ..control.workers import MAX_CONCURRENCY, refusal
from ..records.worker import WorkerCommand
from .app_loader import store_name, with_app
from .confirm import confirm
from .json_output import job_record, print_json, worker_record
from .messages import clean, hint
from .options import as_json, yes

NO_WORKERS = "no worker of {} is alive; start one: mainspring worker MODULE:ATTR"


class ListByDefault(click.Group):
    """A group whose default command is `list`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group(cls=ListByDefault)
def workers() -> None:
    """List, resize, drain, resume and stop workers.

    Without a command it is `list`. Name a worker by its id, or by the beginning of it if no other has the same.
    Orders take effect at its next heartbeat, and last until the worker exits.
    """


@workers.command("list")
@as_json
@with_app
async def list_(app: Mainspring, as_json: bool) -> None:
    """List live workers: their slots, and what they run."""
    found, now = await app.workers.list(), app.clock.now()
    if as_json:
        return print_json([worker_record(worker) for worker in found])
    if not found:
        return hint(NO_WORKERS.format(store_name(app)))
    from . import render, worker_page

    return render.show(worker_page.worker_table(found, now))


@workers.command()
@click.argument("id")
@as_json
@with_app
async def show(app: Mainspring, id: str, as_json: bool) -> None:
    """Show one worker, and what it runs."""
    worker = await app.workers.get(id)
    jobs, now = await app.workers.running(worker.info.id), app.clock.now()
    if as_json:
        runs = [job_record(job, now) for job in jobs]
        return print_json(worker_record(worker) | {"jobs": runs})
    from . import render, worker_page

    return render.show(*worker_page.worker_page(worker, jobs, now))


@workers.command()
@click.argument("words", nargs=-1, metavar="[ID] N|default")
@click.option("--all", "every", is_flag=True, help="All live workers.")
@as_json
@with_app
async def resize(app: Mainspring, words: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Give a worker N slots, or the number that it was started with.

    Running jobs finish: a worker with more jobs than slots takes none until enough have ended.
    """
    if len(words) != (1 if every else 2):
        raise click.UsageError("give a worker and its slots: ID N, or ID default; or --all and the slots")
    slots = _parse_slots(words[-1])
    ordered = await app.workers.resize(None if every else words[0], slots)
    size = "the slots it was started with" if slots is None else f"{slots:,} slot{'s' * (slots != 1)}"
    _print_ordered(app, ordered, f"will have {size} from its next beat on", as_json)


@workers.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "every", is_flag=True, help="All live workers.")
@yes
@as_json
@with_app
async def drain(app: Mainspring, ids: tuple[str, ...], every: bool, yes: bool, as_json: bool) -> None:
    """Drain workers: they start no new jobs.

    Running jobs finish, and the workers stay alive until they are resumed or stopped.
    """
    named = await _checked_ids(app, "drain", ids, every)
    if every and named and not yes:
        confirm(f"drain {_workers_text(app, named)}, so that nothing more is started?")
    ordered = [id for one in named for id in await app.workers.drain(one)]
    _print_ordered(app, ordered, "takes no more jobs from its next beat on", as_json)
    if ordered and not as_json:
        hint(f"to go on: mainspring workers resume {'--all' if every else ' '.join(ordered)}")


@workers.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "every", is_flag=True, help="All live workers.")
@as_json
@with_app
async def resume(app: Mainspring, ids: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Resume drained workers."""
    ordered = [id for one in await _checked_ids(app, "resume", ids, every) for id in await app.workers.resume(one)]
    _print_ordered(app, ordered, "takes jobs again from its next beat on", as_json)


@workers.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "every", is_flag=True, help="All live workers.")
@yes
@as_json
@with_app
async def stop(app: Mainspring, ids: tuple[str, ...], every: bool, yes: bool, as_json: bool) -> None:
    """Stop workers, as SIGTERM does.

    They start no new jobs; running jobs may finish within the grace period, and other workers run the rest. A process
    manager may start the workers again; a supervisor (--workers) does.
    """
    named = await _checked_ids(app, "stop", ids, every)
    if every and named and not yes:
        confirm(f"stop {_workers_text(app, named)}, so that nothing runs until others are started?")
    ordered = [id for one in named for id in await app.workers.stop(one)]
    _print_ordered(app, ordered, "stops from its next beat on", as_json)


def _parse_slots(text: str) -> int | None:
    if text == "default":
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= MAX_CONCURRENCY):
        raise click.UsageError(
            f"slots are from 1 to {MAX_CONCURRENCY:,}, or `default` for those it was started with; got {text!r}"
        )
    return int(text)


def _workers_text(app: Mainspring, named: Sequence[str]) -> str:
    return (
        f"the only worker of {store_name(app)}"
        if len(named) == 1
        else f"all {len(named):,} workers of {store_name(app)}"
    )


async def _checked_ids(app: Mainspring, action: WorkerCommand, ids: tuple[str, ...], every: bool) -> list[str]:
    """The full ids of the chosen workers.

    Raises WorkerNotFound or InvalidTransition before any of them gets an order.
    """
    if every == bool(ids):
        raise click.UsageError("which workers? Give ids, or --all")
    if every:
        return [worker.info.id for worker in await app.workers.list() if refusal(worker, action) is None]
    found = {worker.info.id: worker for worker in [await app.workers.get(id) for id in ids]}
    for worker in found.values():
        if (refused := refusal(worker, action)) is not None:
            raise refused
    return list(found)


def _print_ordered(app: Mainspring, ordered: Sequence[str], effect: str, as_json: bool) -> None:
    if as_json:
        return print_json({"ordered": ordered})
    if not ordered:
        return hint(NO_WORKERS.format(store_name(app)))
    for id in ordered:
        click.echo(f"worker {clean(id)} {effect}")
    return None
