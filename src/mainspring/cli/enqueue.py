"""mainspring enqueue: enqueues one job."""

from __future__ import annotations

import typing
from typing import Any

import click

from ..app import Mainspring
from ..codec import decode_or_text
from ..errors import ResultTimeout, UnknownTask
from ..records.job import MAX_PRIORITY, MIN_PRIORITY
from ..suggest import did_you_mean
from ..task.handle import Handle
from ..task.task import Task
from .app_loader import store_name, with_app
from .arguments import parse_args_option, parse_arguments
from .json_output import print_json
from .messages import Failed, hint, note
from .options import as_json, instant, span

PRIORITY = click.IntRange(MIN_PRIORITY, MAX_PRIORITY)


@click.command()
@click.argument("task")
@click.argument("words", metavar="[KEY=VALUE | KEY:=JSON]...", nargs=-1)
@click.option("--args", "others", metavar="JSON", help="Arguments as a JSON array, or as an object by name.")
@click.option("--queue", metavar="NAME", help="The queue. Default: the task's own.")
@click.option("--priority", type=PRIORITY, metavar="N", help="Higher runs first; negative ones last.")
@click.option("--delay", type=span, help="Run no earlier than this long from now: 90, 5m, 2h.")
@click.option("--run-at", type=instant, help="Run no earlier than this: 2030-01-31T09:00:00Z.")
@click.option("--unique-key", metavar="KEY", help="At most one unfinished job with this key.")
@click.option(
    "--idempotency-key", metavar="KEY", help="Like --unique-key, but stays taken after the job has completed."
)
@click.option("--max-retries", type=click.IntRange(0), metavar="N", help="Retries after the first attempt.")
@click.option("--timeout", type=span, help="Time limit of one attempt: 90, 5m.")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="May be repeated.")
@click.option("--metadata", metavar="KEY=VALUE", multiple=True, help="May be repeated; KEY:=JSON too.")
@click.option("--wait", type=span, help="Wait this long for the result, and print it.")
@as_json
@with_app
async def enqueue(
    app: Mainspring,
    task: str,
    words: tuple[str, ...],
    others: str | None,
    metadata: tuple[str, ...],
    wait: float | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Enqueue a job of TASK and print its id.

    KEY=VALUE is sent as text if the task accepts text, and is parsed as JSON otherwise: n=5,
    paid=true, ids=[1,2]. KEY:=JSON is always JSON. With an app the task checks its arguments before
    anything is stored; with only a store they are not checked, and KEY=VALUE is always text.
    """
    if options["delay"] is not None and options["run_at"] is not None:
        raise click.UsageError("--delay and --run-at exclude each other")
    chosen, known = task_of(app, task)
    args, named = parse_args_option(others) if others is not None else ([], {})
    if args and not known:
        raise click.UsageError("without the app's code arguments go by name: KEY=VALUE, or --args with an object")
    hints = typing.get_type_hints(chosen.fn, include_extras=True) if known else {}
    given = {name: value for name, value in options.items() if value not in (None, ())}
    if metadata:
        given["metadata"] = parse_arguments(metadata, {})
    (handle,) = await app.enqueue_by_hand(
        [chosen.using(**given).job(*args, **_merged(named, parse_arguments(words, hints)))]
    )
    if app.settings.store.startswith("memory:") and wait is None:
        note("warning", f"{store_name(app)} exists in this process only: the job is lost when it ends", "yellow")
    if not as_json:
        _print_id(handle)
    result = None if wait is None else await _result(app, handle, task, wait)
    if as_json:
        record = {"id": handle.id, "status": handle.status, "duplicate": handle.duplicate}
        print_json(record if wait is None else record | {"result": result})
    elif wait is not None:
        print_json(result)


def task_of(app: Mainspring, name: str) -> tuple[Task[..., Any], bool]:
    """The task, and whether its code is known. An app without tasks enqueues by name, without checks."""
    if name in app.tasks:
        return app.tasks[name], True
    if app.tasks:
        raise UnknownTask(f"no task {name!r} is registered in this app; {did_you_mean(name, app.tasks)}")

    def unknown(**arguments: Any) -> Any: ...

    return app.stub(name=name)(unknown), False


def _merged(named: dict[str, Any], words: dict[str, Any]) -> dict[str, Any]:
    if repeated := named.keys() & words.keys():
        raise click.UsageError(f"{min(repeated)!r} is given twice: in --args and as a word")
    return named | words


def _print_id(handle: Handle[Any]) -> None:
    click.echo(handle.id)
    if handle.duplicate:
        note(handle.status, "another job holds this key, and this is its id", "yellow")


async def _result(app: Mainspring, handle: Handle[Any], task: str, wait: float) -> Any:
    try:
        await handle.result(wait)
    except ResultTimeout as timeout:
        if not any(task in worker.info.tasks for worker in await app.workers.list()):
            hint(f"no worker that knows {task!r} is running; start one: mainspring worker module:app")
        raise Failed(str(timeout)) from None
    text = (await handle.job()).result
    return None if text is None else decode_or_text(text)
