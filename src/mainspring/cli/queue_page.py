"""How deep queues were, as people read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from rich.table import Table
from rich.text import Text

from ..insight.queue_depth import Depth, DepthSample, grid_of
from . import render
from .sparkline import trail
from .stats_page import took

# Blocks in a row: in an hour one for two minutes, its first and its last among them.
WIDTH = 31
Depths = Mapping[datetime, Depth]


def depth_table(samples: Sequence[DepthSample], window: timedelta, now: datetime) -> Table:
    """What was pending, the deepest queue first; all of them below if there is not just one."""
    grid = grid_of(window)
    steps = [grid.begin(now - window) + n * grid.step for n in range(window // grid.step + 1)]
    taken = {grid.begin(sample.at): sample for sample in samples}
    names = {name for sample in samples for name in sample.queues}
    queues = {name: {at: one.queues.get(name, Depth()) for at, one in taken.items()} for name in names}
    table = render.grid("queue", "pending", "now", "most", "oldest", cut=("queue",))
    for column in table.columns[2:]:
        column.justify = "right"
    for name in sorted(names, key=lambda name: (-_most(queues[name]), name)):
        table.add_row(render.line(name), *_cells(queues[name], steps))
    if len(names) != 1:
        table.add_row(Text("all", "bold"), *_cells({at: one.total for at, one in taken.items()}, steps))
    return table


def _cells(depths: Depths, steps: Sequence[datetime]) -> list[str]:
    newest = depths[max(depths)]
    row = trail([depths[at].pending if at in depths else None for at in steps], WIDTH)
    return [row, f"{newest.pending:,}", f"{_most(depths):,}", took(newest.oldest)]


def _most(depths: Depths) -> int:
    return max(one.pending for one in depths.values())
