"""mainspring batches: lists and shows batches."""

from __future__ import annotations

from datetime import datetime

import click
import msgspec

from ..app import Mainspring
from ..ids import JobId
from ..insight.batch_view import BatchView
from ..records.job import SHOWN, Shown
from .app_loader import store_name, with_app
from .json_output import print_json
from .messages import clean, hint
from .options import as_json

_OPEN: tuple[Shown, ...] = ("pending", "running", "waiting", "paused", "scheduled", "retrying")


@click.group()
def batches() -> None:
    """List and show batches."""


@batches.command("list")
@click.option("--state", "states", type=click.Choice(SHOWN), multiple=True, metavar="STATE", help="May be repeated.")
@click.option("--open", "unfinished", is_flag=True, help="Only batches that have not ended.")
@click.option("--limit", type=click.IntRange(1, 1000), metavar="N", default=20, show_default=True)
@click.option("--after", metavar="CURSOR", help="Continue after the previous page, with the same options.")
@as_json
@with_app
async def list_(
    app: Mainspring, states: tuple[Shown, ...], unfinished: bool, limit: int, after: str | None, as_json: bool
) -> None:
    """List batches, newest first, with how many of their jobs have ended."""
    wanted: tuple[Shown, ...] = (
        tuple(state for state in _OPEN if not states or state in states) if unfinished else states
    )
    page = await app.batches.list(states=wanted or None, limit=limit, after=after)
    if as_json:
        print_json(msgspec.to_builtins(list(page)))
    elif page:
        from . import render

        table = render.grid("id", "state", "batch", "ended", "of", "dead", "made", cut=("batch",))
        for column in table.columns[3:6]:
            column.justify = "right"
        now = app.clock.now()
        for view in page:
            table.add_row(*_row(view), render.when(view.created_at, now))
        render.show(table)
    else:
        hint("no more batches" if after is not None else f"no batch in {store_name(app)} fits")
    if page.next is not None:
        hint(f"there may be more: --after {page.next}")


def _row(view: BatchView) -> list[str]:
    counts = view.counts
    state = f"{view.state}, open" if view.open else view.state
    ended = f"{counts.total - counts.unfinished:,}"
    return [
        clean(view.id),
        state,
        clean(view.name),
        ended,
        f"{counts.total:,}",
        f"{counts.dead:,}" if counts.dead else "",
    ]


@batches.command()
@click.argument("id")
@as_json
@with_app
async def show(app: Mainspring, id: JobId, as_json: bool) -> None:
    """Show one batch: its counts, its callbacks, and why it waits."""
    view, now = await app.batches.show(id), app.clock.now()
    why = [reason for reason in await app.flows.why(id) if reason.code not in ("final", "step_not_run", "step_skipped")]
    if as_json:
        return print_json(msgspec.to_builtins(view) | {"why": msgspec.to_builtins(why)})
    from . import render
    from .job_page import why_lines

    page = [render.facts(_facts(view, now))]
    return render.show(*page, *([why_lines(why, now)] if why else []))


def _facts(view: BatchView, now: datetime) -> dict[str, str]:
    from .render import exact

    facts: dict[str, str] = {
        "batch": f"{clean(view.name)} {clean(view.id)}",
        "state": f"{view.state}, open: its maker may add more" if view.open else view.state,
        "jobs": str(view.counts),
        **{name: state.replace("_", " ") for name, state in view.callbacks.items()},
        "metadata": clean(msgspec.json.encode(view.metadata).decode()) if view.metadata else "",
        "reason": clean(view.reason or ""),
        "begun": exact(view.created_at, now),
    }
    return facts if view.ended_at is None else facts | {"ended": exact(view.ended_at, now)}
