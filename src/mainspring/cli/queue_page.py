"""The depth of queues over time, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from rich.table import Table
from rich.text import Text

from ..insight.queue_depth import Depth, DepthSample, grid_of
from . import render
from .sparkline import trail
from .stats_page import duration

# Blocks in a row: in an hour one per two minutes, including both ends.
TRAIL_BLOCKS = 31
Depths = Mapping[datetime, Depth]


def depth_table(samples: Sequence[DepthSample], window: timedelta, now: datetime) -> Table:
    """Pending jobs over time, deepest queue first; a total below if there are several."""
    grid = grid_of(window)
    steps = [grid.begin(now - window) + n * grid.step for n in range(window // grid.step + 1)]
    by_time = {grid.begin(sample.at): sample for sample in samples}
    names = {name for sample in samples for name in sample.queues}
    queues = {name: {at: one.queues.get(name, Depth()) for at, one in by_time.items()} for name in names}
    table = render.grid("queue", "pending", "now", "most", "oldest", cut=("queue",))
    for column in table.columns[2:]:
        column.justify = "right"
    for name in sorted(names, key=lambda name: (-_peak(queues[name]), name)):
        table.add_row(render.line(name), *_cells(queues[name], steps))
    if len(names) != 1:
        table.add_row(Text("all", "bold"), *_cells({at: one.total for at, one in by_time.items()}, steps))
    return table


def _cells(depths: Depths, steps: Sequence[datetime]) -> list[str]:
    newest = depths[max(depths)]
    row = trail([depths[at].pending if at in depths else None for at in steps], TRAIL_BLOCKS)
    return [row, f"{newest.pending:,}", f"{_peak(depths):,}", duration(newest.oldest)]


def _peak(depths: Depths) -> int:
    return max(one.pending for one in depths.values())
