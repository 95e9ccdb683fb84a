"""mainspring settings: what this app would be started with here."""

from __future__ import annotations

import click
import msgspec

from ..app import Mainspring
from ..insight.settings_report import Setting, report
from .app_loader import with_closed_app
from .json_output import print_json
from .messages import hint
from .options import as_json


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--changed", is_flag=True, help="Only settings that differ from their default.")
@as_json
@with_closed_app
async def settings(app: Mainspring, names: tuple[str, ...], changed: bool, as_json: bool) -> None:
    """List settings, where each value comes from, and what it does."""
    found = report(app.settings, app.setting_sources)
    unknown = set(names) - {one.name for one in found}
    if unknown:
        from ..suggest import did_you_mean

        name = min(unknown)
        raise click.UsageError(f"there is no setting {name!r}; {did_you_mean(name, [one.name for one in found])}")
    found = [one for one in found if (not names or one.name in names) and (not changed or one.source != "default")]
    if as_json:
        return print_json(msgspec.to_builtins(found))
    if not found:
        return hint("every setting is at its default")
    return _show(found)


def _show(found: list[Setting]) -> None:
    from rich.text import Text

    from . import render

    table = render.grid("setting", "value", "from", "what it does", cut=("value", "what it does"))
    for one in found:
        source = one.variable if one.source == "environment" else one.source
        style = "dim" if one.source == "default" else "bold"
        table.add_row(one.name, render.line(_words(one)), Text(source, style), render.line(one.meaning))
    render.show(table)


def _words(one: Setting) -> str:
    value = one.value
    if one.unit is not None:
        figure = f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"
        return f"{figure} {one.unit[:-1] if value == 1 else one.unit}"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ", ".join(value) or "empty"
    return f"{value:g}" if isinstance(value, float) else str(value) or "empty"
