"""mainspring flows draw and check: pictures of flows, and what is wrong with those of an app before any has run."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import click
import msgspec
from msgspec import Struct

from ..actor import act_as
from ..app import Mainspring
from ..errors import BadFlow
from ..flow.doubts import never_run, unread
from ..flow.function import plan_of
from ..flow.graph import Graph
from ..flow.shape import shape_of
from ..flow.values import NeedsInput
from ..insight.flow_drawing import conditions_of, draw_flow
from ..insight.flow_formats import FORMATS
from ..insight.flow_tree import plan_text
from ..suggest import did_you_mean
from ..task.task import Task
from .app_loader import app_name, current_user, find_app, load_app
from .arguments import parse_args_option
from .json_output import print_json
from .messages import Failed, clean, hint
from .options import as_json

Format = Literal["text", "svg", "mermaid"]
# Steps that one finding names.
MAX_NAMED_STEPS = 10


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="[APP] ID | NAME")
@click.option("--input", "given", metavar="JSON", help="The arguments of NAME, as a JSON array or object.")
@click.option("--format", "form", type=click.Choice(["text", *FORMATS]), default="text", show_default=True)
@click.option("--app", "named", metavar="MODULE:ATTR", help="The app, e.g. shop:app [$MAINSPRING_APP].")
@click.option("--store", metavar="URL", help="Only a store, without an app's code [$MAINSPRING_STORE].")
def draw(words: tuple[str, ...], given: str | None, form: Format, named: str | None, store: str | None) -> None:
    """Draw a flow.

    The flow ID as it is now; or the flow NAME of the app, before anything has run. Without --input NAME is
    drawn as it is whatever its input is, with the defaults of its parameters.
    """
    if len(words) not in (1, 2):
        raise click.UsageError("one flow at a time: give its id, or its name")
    flow = words[-1]
    app = find_app(app_name(words[0], named)[0] if len(words) > 1 else named, store)
    if flow in app.tasks or given is not None:
        click.echo(_drawn_plan(_flow_of(app, flow), given, form), nl=False)
        return
    with act_as(current_user()):
        asyncio.run(_draw_job(app, flow, form))


async def _draw_job(app: Mainspring, id: str, form: Format) -> None:
    async with app:
        if form != "text":
            click.echo(await app.flows.draw(id, form), nl=False)
            return
        job, view = await app.jobs.get(id), await app.flows.get(id)
        from . import flow_page, render

        render.show(*flow_page.flow_page(job, view, [], app.clock.now()))


def _flow_of(app: Mainspring, name: str) -> Task[Any, Any]:
    flows = [task.name for task in app.tasks.values() if task.is_flow]
    if name not in flows:
        raise Failed(f"there is no flow {name!r} in this app; {did_you_mean(name, flows)}")
    return app.tasks[name]


def _drawn_plan(task: Task[Any, Any], given: str | None, form: Format) -> str:
    try:
        plan = shape_of(task) if given is None else _planned(task, given)
    except NeedsInput as needs:
        raise Failed(f"flow {task.name!r}: {needs}; give --input JSON") from None
    except BadFlow as bad:
        raise Failed(f"flow {task.name!r}: {bad}") from None
    graph = Graph(plan)
    conditions = conditions_of(graph)
    if form == "text":
        return clean_lines(plan_text(graph, conditions))
    return FORMATS[form](draw_flow(task.name, graph, conditions))


def clean_lines(text: str) -> str:
    return "".join(f"{clean(line)}\n" for line in text.splitlines())


def _planned(task: Task[Any, Any], given: str) -> Any:
    """The plan for these arguments, decoded as a worker would."""
    args, kwargs = parse_args_option(given)
    return plan_of(task, *task.arguments.decode(task.job(*args, **kwargs).payload))


class FlowCheck(Struct):
    """What was found out about one flow without an input."""

    flow: str
    steps: int | None = None
    """None if it has no plan without its input."""
    error: str | None = None
    needs_input: str | None = None
    """Why it has no plan without its input."""
    never_run: dict[str, str] = {}
    """Steps that can never run, with the reason."""
    unread: list[str] = []
    """Steps whose value nothing reads."""

    def is_wrong(self, *, strict: bool) -> bool:
        return bool(self.error or self.never_run or (strict and self.unread))


@click.command()
@click.argument("app", required=False)
@click.option("--app", "named", metavar="MODULE:ATTR", help="The same as APP.")
@click.option("--strict", is_flag=True, help="Fail on values that nothing reads, too.")
@as_json
def check(app: str | None, named: str | None, strict: bool, as_json: bool) -> None:
    """Check the flows of an app before they run.

    Plans them without an input. Exits with 1 for types that do not fit, wrong names, and steps that can never
    run. Flows whose steps depend on their input are named, and not checked. No store is opened.
    """
    loaded = load_app(*app_name(app, named))
    found = [_checked(loaded, task) for task in loaded.tasks.values() if task.is_flow]
    if as_json:
        print_json(msgspec.to_builtins(found))
    elif not found:
        hint("this app has no flows")
    for one in found if not as_json else ():
        click.echo(clean_lines("\n".join(_lines(one))), nl=False)
    if wrong := [one.flow for one in found if one.is_wrong(strict=strict)]:
        raise Failed(f"{len(wrong)} of {len(found)} flows are wrong: {_named(wrong)}")


def _checked(app: Mainspring, task: Task[Any, Any]) -> FlowCheck:
    try:
        graph = Graph(shape_of(task))
    except NeedsInput as needs:
        return FlowCheck(task.name, needs_input=str(needs))
    except BadFlow as bad:
        return FlowCheck(task.name, error=str(bad))
    names = [step.name for step in graph.steps]

    def returns(n: int) -> bool:
        known = app.tasks.get(graph.steps[n].task)
        return known is not None and known.results.type not in (None, type(None), Any)

    return FlowCheck(
        task.name,
        steps=len(names),
        never_run={
            names[n]: f"it needs the value of {names[catch]}, which runs only if a step has failed that must complete"
            for n, catch in never_run(graph)
        },
        unread=[names[n] for n in unread(graph, returns)],
    )


def _lines(one: FlowCheck) -> list[str]:
    if one.error is not None:
        return [f"✗ {one.flow}: {one.error}"]
    if one.needs_input is not None:
        return [f"· {one.flow}: not checked, {one.needs_input}"]
    lines = [f"{'✗' if one.never_run else '✓'} {one.flow}: {one.steps:,} step{'' if one.steps == 1 else 's'}"]
    lines += [f"    {name} never runs: {why}" for name, why in one.never_run.items()]
    return lines + ([f"    nothing reads the value of {_named(one.unread)}"] if one.unread else [])


def _named(names: list[str]) -> str:
    return ", ".join(names[:MAX_NAMED_STEPS]) + (", …" if len(names) > MAX_NAMED_STEPS else "")
