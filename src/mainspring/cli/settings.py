"""mainspring settings: the settings of an app as it would start here."""

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
    unknown = set(names) - {setting.name for setting in found}
    if unknown:
        from ..suggest import did_you_mean

        name = min(unknown)
        raise click.UsageError(
            f"there is no setting {name!r}; {did_you_mean(name, [setting.name for setting in found])}"
        )
    found = [
        setting
        for setting in found
        if (not names or setting.name in names) and (not changed or setting.source != "default")
    ]
    if as_json:
        return print_json(msgspec.to_builtins(found))
    if not found:
        return hint("every setting is at its default")
    return _show(found)


def _show(found: list[Setting]) -> None:
    from rich.text import Text

    from . import render

    table = render.grid("setting", "value", "from", "what it does", cut=("value", "what it does"))
    for setting in found:
        source = setting.variable if setting.source == "environment" else setting.source
        style = "dim" if setting.source == "default" else "bold"
        table.add_row(
            setting.name, render.line(_value_text(setting)), Text(source, style), render.line(setting.meaning)
        )
    render.show(table)


def _value_text(setting: Setting) -> str:
    value = setting.value
    if setting.unit is not None:
        figure = f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"
        return f"{figure} {setting.unit[:-1] if value == 1 else setting.unit}"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ", ".join(value) or "empty"
    return f"{value:g}" if isinstance(value, float) else str(value) or "empty"
