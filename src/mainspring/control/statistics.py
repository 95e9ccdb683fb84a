"""app.stats(): statistics of jobs and runs, read from the store."""

from __future__ import annotations

import math
from asyncio import gather
from datetime import timedelta
from typing import TYPE_CHECKING

from ..clock import EPOCH
from ..errors import BadInput
from ..insight.stats import (
    MAX_WINDOW,
    Point,
    Stats,
    figures_by,
    filter_tallies,
    resolution,
    runs_per_minute,
    sum_tallies,
    time_series,
    top_errors,
    total_figures,
)
from ..records.tally import SPAN_SECONDS, Tally, span_start
from ..span import Span, seconds
from .queues import with_pauses

if TYPE_CHECKING:
    from ..engine import Engine


class Statistics:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def read(self, window: Span | None, *, queue: str | None, task: str | None) -> Stats:
        """Jobs by state, and the runs of the last `window` (None: all). See app.stats()."""
        span = None if window is None else timedelta(seconds=seconds(window, "stats()", math.inf))
        if span is not None and not timedelta(0) < span <= MAX_WINDOW:
            raise BadInput(f"statistics reach back up to {MAX_WINDOW.days} days, or for ever (None); got {span}")
        return await self._read(span, queue, task)

    async def _read(self, window: timedelta | None, queue: str | None, task: str | None) -> Stats:
        store, now = await self._engine.connect(), self._engine.clock.now()
        span = resolution(window)
        since = EPOCH if window is None else span_start(now - window, span)
        step = timedelta(seconds=SPAN_SECONDS[span])

        async def sums() -> tuple[list[Tally], list[Point]]:
            tallies = filter_tallies(await store.tallies(span, since=since), queue, task)
            return sum_tallies(tallies), time_series(tallies, since, now, step) if step else []

        # Together: the sums are computed while the store counts.
        (whole, points), overview = await gather(sums(), store.overview(now=now))
        return Stats(
            queues=await with_pauses(store, overview.queues, now),
            window=window,
            total=total_figures(whole),
            by_task=figures_by(whole, "task"),
            by_queue=figures_by(whole, "queue"),
            series=points,
            per_minute=runs_per_minute(points, now, step),
            errors=top_errors(whole),
            **{str(state): n for state, n in overview.states.items()},
        )
