"""mainspring schedules spread: the distribution of ticks over a day, and the rebalancing of intervals."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import click
import msgspec

from ..app import Mainspring
from ..schedule.balance.distribution import Distribution
from ..schedule.balance.spread import Rebalance
from .app_loader import store_name, with_app
from .confirm import confirm
from .json_output import print_json
from .messages import clean, hint
from .options import as_json, yes

BAR_COLUMNS = 50
MAX_MOVES_SHOWN = 20
_WHY = {"running": "running", "imminent": "about to run", "fresh": "moved lately"}


@click.command()
@click.option("--rebalance", is_flag=True, help="Move intervals with spread=True to times with fewer ticks.")
@yes
@as_json
@with_app
async def spread(app: Mainspring, rebalance: bool, yes: bool, as_json: bool) -> None:
    """Show how many ticks there are in each of the next 24 hours.

    --rebalance shows what it would move, and asks. Schedules that are running, or about to tick, are not moved.
    """
    if not rebalance:
        return _show(app, await app.schedules.distribution(), as_json)
    planned = await app.schedules.rebalance(dry_run=True)
    if not as_json:
        _print_plan(planned, "would move")
    if planned.moves:
        if not yes:
            confirm(f"move {_schedules_text(len(planned.moves))} in {store_name(app)}?")
        planned = await app.schedules.rebalance()
    if as_json:
        return print_json(msgspec.to_builtins(planned))
    return _print_done(planned)


def _show(app: Mainspring, found: Distribution, as_json: bool) -> None:
    if as_json:
        return print_json(msgspec.to_builtins(found) | {"total": found.total})
    if found.peak is None:
        return hint(f"no schedule of {store_name(app)} has a tick in the next 24 hours")
    click.echo(f"{found.total:,} ticks of {_schedules_text(found.schedules)} in 24 hours; score {found.score:.2f} of 1")
    for line in histogram(found):
        click.echo(line)
    click.echo(f"peak: {found.peak.count:,} in the minute {found.peak.at:%Y-%m-%d %H:%M}Z")
    if found.unseen:
        hint(f"{_schedules_text(found.unseen)} not counted: their ticks are too many to look up")
    return None


def histogram(found: Distribution) -> list[str]:
    """A line per hour; the longest bar has BAR_COLUMNS, and any count above 0 is visible."""
    peak = max(found.hours) or 1
    digits = len(f"{peak:,}")
    lines = []
    for n, count in enumerate(found.hours):
        bar = "█" * max(round(count / peak * BAR_COLUMNS), count > 0)
        lines.append(f"{found.since + timedelta(hours=n):%H:%M}Z {count:>{digits},} {bar}".rstrip())
    return lines


def _print_plan(planned: Rebalance, verb: str) -> None:
    click.echo(f"{_schedules_text(len(planned.moves))} {verb}; score {planned.before:.2f} -> {planned.after:.2f}")
    for move in planned.moves[:MAX_MOVES_SHOWN]:
        click.echo(f"  {clean(move.name)}: next {move.from_at:%m-%d %H:%M:%S}Z -> {move.to_at:%m-%d %H:%M:%S}Z")
    if len(planned.moves) > MAX_MOVES_SHOWN:
        click.echo(f"  … and {len(planned.moves) - MAX_MOVES_SHOWN:,} more; --json has all")
    for why, count in sorted(Counter(stay.why for stay in planned.left).items()):
        click.echo(f"  {_schedules_text(count)} left alone: {_WHY[why]}")


def _print_done(done: Rebalance) -> None:
    if not done.dry_run:
        click.echo(f"{_schedules_text(len(done.moves))} moved")
    for name in done.changed:
        hint(f"schedule {name!r} was changed by others meanwhile, so it was left alone")


def _schedules_text(count: int) -> str:
    return f"{count:,} schedule{'s' * (count != 1)}"
