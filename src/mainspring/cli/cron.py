"""mainspring cron: explains an expression, its next runs, and how clock changes affect them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal

import click

from ..clock import SystemClock
from ..trigger import Cron, Effect, Preview
from ..trigger import cron as parse_cron
from .json_output import print_json
from .options import as_json, instant

if TYPE_CHECKING:
    from rich.console import RenderableType

MAX_RUNS_SHOWN = 1000


@click.command()
@click.argument("expr")
@click.option("--tz", metavar="ZONE", default="UTC", show_default=True, help="The time zone: Europe/London.")
@click.option("--count", type=click.IntRange(1, MAX_RUNS_SHOWN), default=5, show_default=True, help="Runs to show.")
@click.option("--from", "start", metavar="INSTANT", help="Runs after this instant, instead of now.")
@click.option(
    "--day-match",
    type=click.Choice(("or", "and")),
    default="or",
    show_default=True,
    help="How day of month and day of week combine.",
)
@click.option("--name", default="", help="The schedule's name, from which H is computed.")
@as_json
def cron(
    expr: str, tz: str, count: int, start: str | None, day_match: Literal["or", "and"], name: str, as_json: bool
) -> None:
    """Explain a cron expression and show its next runs.

    Five fields, or six with seconds first. Shows the effects of daylight saving time in the next
    year.
    """
    now = SystemClock().now()
    after = now if start is None else instant(start)
    rule = parse_cron(expr, tz=tz, day_match=day_match).named(name)
    runs, effects = rule.preview(count, after=after), rule.effects(after=after)
    if as_json:
        return print_json(_record(rule, runs, effects))
    return _show(rule, runs, effects, now)


def _record(rule: Cron, runs: list[Preview], effects: list[Effect]) -> dict[str, object]:
    return {
        "expr": rule.expr,
        "tz": rule.tz,
        "day_match": rule.day_match,
        "meaning": rule.explain(),
        "next": [{"at": run.at, "local": run.local.isoformat(), "note": run.note} for run in runs],
        "clock_changes": [effect._asdict() for effect in effects],
        "warnings": rule.warnings(),
    }


def _show(rule: Cron, runs: list[Preview], effects: list[Effect], now: datetime) -> None:
    from rich.text import Text

    from . import render

    page: list[RenderableType] = [Text(rule.explain(), style="bold"), Text()]
    noted = any(run.note for run in runs)
    table = render.grid(f"next, {rule.tz}", "utc", "when", *(["note"] if noted else []), cut=("note",))
    for run in runs:
        instants = f"{run.local:%a %Y-%m-%d %H:%M:%S %z}", f"{run.at:%Y-%m-%d %H:%M:%S}Z", render.when(run.at, now)
        table.add_row(*instants, *([Text(run.note, style="yellow")] if noted else []))
    page.append(table if runs else Text("it does not run again before the year 10000"))
    for title, lines in (("clock changes", [effect.note for effect in effects]), ("warnings", rule.warnings())):
        if lines:
            page += render.section(title, "\n".join(lines))
    render.show(*page)
