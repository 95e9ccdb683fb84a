"""mainspring flows: lists, shows and changes flows; flow_plans draws and checks them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import click
import msgspec

from ..app import Mainspring
from ..errors import BadInput, InvalidTransition, JobExists, JobNotFound
from ..ids import JobId
from ..records.job import SHOWN, Shown
from ..records.query import Changed
from .app_loader import store_name, with_app
from .arguments import parse_args_option
from .flow_plans import check, draw
from .json_output import job_record, print_json
from .messages import Failed, clean, hint
from .options import as_json

_OPEN: tuple[Shown, ...] = ("pending", "scheduled", "retrying", "running", "waiting", "paused")


@click.group()
def flows() -> None:
    """List, show, draw, check and change flows."""


@flows.command("list")
@click.option("--task", "tasks", metavar="NAME", multiple=True, help="Only this flow; may be repeated.")
@click.option("--state", "states", type=click.Choice(SHOWN), multiple=True, metavar="STATE", help="May be repeated.")
@click.option("--open", "unfinished", is_flag=True, help="Only flows that have not ended.")
@click.option("--limit", type=click.IntRange(1, 1000), metavar="N", default=20, show_default=True)
@click.option("--after", metavar="CURSOR", help="Continue after the previous page, with the same options.")
@as_json
@with_app
async def list_(
    app: Mainspring,
    tasks: tuple[str, ...],
    states: tuple[Shown, ...],
    unfinished: bool,
    limit: int,
    after: str | None,
    as_json: bool,
) -> None:
    """List flows, newest first, with how far they are.

    With only a store, name the flows by --task: which tasks are flows is the app's code.
    """
    wanted: tuple[Shown, ...] = (
        tuple(state for state in _OPEN if not states or state in states) if unfinished else states
    )
    page = await app.flows.list(tasks or None, states=wanted or None, limit=limit, after=after)
    now = app.clock.now()
    if as_json:
        counts = msgspec.to_builtins(page.progress)
        print_json([job_record(job, now) | {"flow": counts.get(job.id)} for job in page])
    elif page:
        from . import flow_page, render

        render.show(flow_page.flow_table(page, page.progress, now))
    else:
        hint("no more flows" if after is not None else f"no flow in {store_name(app)} fits")
    if page.next is not None:
        hint(f"there may be more: --after {page.next}")


@flows.command()
@click.argument("id")
@as_json
@with_app
async def show(app: Mainspring, id: JobId, as_json: bool) -> None:
    """Show one flow: its steps, and why it waits.

    Each step stands below the last of those that it needs.
    """
    job, view, now = await app.jobs.get(id), await app.flows.get(id), app.clock.now()
    why = [reason for reason in await app.flows.why(id) if reason.code != "final"]
    if as_json:
        steps = msgspec.to_builtins(view.steps)
        return print_json(job_record(job, now) | {"steps": steps, "why": msgspec.to_builtins(why)})
    from . import flow_page, render

    return render.show(*flow_page.flow_page(job, view, why, now))


@flows.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--reason", help="The reason; kept with the flow.")
@as_json
@with_app
async def cancel(app: Mainspring, ids: tuple[JobId, ...], reason: str | None, as_json: bool) -> None:
    """Cancel flows.

    Steps that wait are not run, the others are cancelled. Steps that run at the end of a flow still do; a
    second cancel stops these, too.
    """

    act = app.flows.cancel if reason is None else partial(app.flows.cancel, reason=reason)
    await _change(app, "cancel", act, ids, as_json=as_json)


@flows.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@as_json
@with_app
async def retry(app: Mainspring, ids: tuple[JobId, ...], as_json: bool) -> None:
    """Put dead steps of flows back to work.

    And all that depends on them. Of a flow that has ended the cancelled steps, too. Completed steps do not run again.
    """
    await _change(app, "retry", app.flows.retry, ids, as_json=as_json)


@flows.command()
@click.argument("id")
@click.argument("step")
@click.option("--reason", default="", help="The reason; kept with the flow.")
@as_json
@with_app
async def skip(app: Mainspring, id: JobId, step: str, reason: str, as_json: bool) -> None:
    """Let a flow do without a step.

    STEP waits, was released, or is dead or cancelled. The flow goes on as if it were optional, also a flow
    that is dead of it. A running step is told to stop, and skipped when it has ended.
    """
    view = await app.flows.skip(id, step, reason)
    if as_json:
        return print_json(msgspec.to_builtins(view))
    later = "" if view.state == "skipped" else f" when it has ended; it is {view.state}"
    return click.echo(f"step {clean(view.name)} is skipped{later}")


@flows.command()
@click.argument("id")
@click.option("--from", "step", metavar="STEP", help="The step that runs again, with all behind it.")
@click.option("--args", "args", metavar="JSON", help="Arguments as a JSON object, merged over those that it had.")
@as_json
@with_app
async def replay(app: Mainspring, id: JobId, step: str | None, args: str | None, as_json: bool) -> None:
    """Enqueue a new flow that repeats one which has ended.

    It begins at its start or, with --from, at a step: the others are taken over as they ended, with their
    values. The flow itself stays as it is: to let a dead one go on, use `flows retry`.
    """
    unnamed, named = ([], None) if args is None else parse_args_option(args)
    if unnamed:
        raise click.UsageError("--args takes a JSON object here: arguments by name")
    made = await app.flows.replay(id, from_=step, arguments=named)
    if as_json:
        return print_json({"id": made.id, "of": id})
    return click.echo(made.id)


@flows.command()
@click.argument("id")
@click.argument("name")
@click.option("--value", "text", metavar="JSON", default="null", help="The value, as JSON; null without one.")
@click.option("--delivery", metavar="TEXT", help="The name of this delivery: repeated, it changes nothing.")
@as_json
@with_app
async def signal(app: Mainspring, id: JobId, name: str, text: str, delivery: str | None, as_json: bool) -> None:
    """Give a signal of a flow its value, or of another job that waits for one.

    The first value stands: another one is refused, and so is one that comes too late.
    """
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as bad:
        raise Failed(f"--value is no JSON ({bad}): text is written in quotes, as in --value '\"yes\"'") from None
    await app.flows.signal(id, name, value, delivery=delivery)
    if as_json:
        return print_json({"id": id, "signal": name})
    return click.echo(f"signal {clean(name)} is given to {clean(id)}")


_DONE = {"cancel": "is cancelled", "retry": "goes on"}


async def _change(
    app: Mainspring, action: str, act: Callable[[JobId], Awaitable[Changed]], ids: tuple[JobId, ...], *, as_json: bool
) -> None:
    """Applies the action to each flow, and reports it. Raises Failed if one is refused."""
    done: list[JobId] = []
    refused: dict[JobId, str] = {}
    for id in dict.fromkeys(ids):
        try:
            await act(id)
            done.append(id)
        except (BadInput, InvalidTransition, JobExists, JobNotFound) as error:
            refused[id] = str(error)
    if as_json:
        errors = [{"id": id, "error": error} for id, error in refused.items()]
        print_json({"action": action, "done": done, "refused": errors})
    for id in done if not as_json else ():
        job = await app.jobs.get(id)
        ending = "; it ends when its running steps have ended" if action == "cancel" and not job.state.final else ""
        click.echo(f"flow {id} ({clean(job.task)}) {_DONE[action]}{ending}")
    for why in list(refused.values())[1:] if not as_json else ():
        hint(why)
    if refused:
        raise Failed(next(iter(refused.values())))


for command in (draw, check):
    flows.add_command(command)
