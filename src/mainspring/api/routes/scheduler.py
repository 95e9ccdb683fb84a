"""/scheduler and /cron: metrics, distribution and rebalancing of all schedules, and previews of rules."""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime
from typing import Annotated

from litestar import get, post
from litestar.params import JSONBody, QueryParameter
from msgspec import Meta, Struct

from ...control.computation import Computation
from ...schedule.balance.distribution import DAYS_PER_WEEK, Distribution
from ...schedule.balance.spread import Rebalance
from ...trigger import AnyTrigger, Cron, cron
from ...trigger.bounds import MAX_NAME_CHARACTERS
from ..access.authenticate import App, allow
from ..response_cache import Cache
from .jobs import JobCounts
from .schedule_view import TickView, tick_views


class SchedulerMetrics(Struct, frozen=True, kw_only=True):
    """Metrics of all schedules together."""

    active: int
    paused: int
    ended: int
    late: int
    """Schedules that are due and have not fired yet."""
    fired: int
    skipped: int
    missed: int
    completed: int
    failed: int
    success_rate: float | None
    """Share of their finished jobs that completed; null if none has finished."""
    under_way: int
    """Their jobs that are not finished."""
    jobs: JobCounts
    """All jobs by state, including those that no schedule created."""
    next_at: datetime | None
    as_of: datetime
    """When the schedules were counted. If there are very many, that may be some seconds ago."""
    complete: bool
    """false while the schedules are being counted for the first time: the numbers are partial."""


class RebalanceRequest(Struct, forbid_unknown_fields=True):
    dry_run: bool = False


class RulePreviewRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A rule to preview."""

    trigger: AnyTrigger | str
    """A trigger with its kind, or a cron expression."""
    tz: str = "UTC"
    """For a cron expression."""
    name: Annotated[str, Meta(max_length=MAX_NAME_CHARACTERS)] = ""
    """Name of the schedule: the value of `H` in a cron expression depends on it."""
    count: Annotated[int, Meta(ge=1, le=1000)] = 10
    after: datetime | None = None
    """Preview the ticks after this instant instead of now."""


class RulePreview(Struct, frozen=True, kw_only=True):
    meaning: str
    next: list[TickView]
    clock_changes: list[str]
    """The effects of clock changes in the following year."""
    warnings: list[str]


@get("/scheduler/metrics", **allow("viewer"))
async def scheduler_metrics(app: App, cache: Cache) -> SchedulerMetrics:
    """Numbers of schedules and jobs, and results of ticks and their jobs."""
    now, index = app.clock.now(), await app.schedules.index.snapshot()
    late, sums, counts = bisect_right(index.due, now), index.sums, index.counts
    jobs, finished = await cache.get("counts", app.jobs.counts), sums.completed + sums.failed
    return SchedulerMetrics(
        active=counts["active"],
        paused=counts["paused"],
        ended=counts["ended"],
        late=late,
        next_at=index.due[late] if late < len(index.due) else None,
        fired=sums.fired,
        skipped=sums.skipped,
        missed=sums.missed,
        completed=sums.completed,
        failed=sums.failed,
        success_rate=sums.completed / finished if finished else None,
        under_way=sums.under_way,
        jobs=JobCounts(**jobs),
        as_of=index.as_of,
        complete=index.complete,
    )


@get("/scheduler/distribution", **allow("viewer"))
async def scheduler_distribution(
    app: App, cache: Cache, days: Annotated[int, QueryParameter(ge=1, le=DAYS_PER_WEEK)] = 1
) -> Distribution:
    """Number of ticks in each hour of the next `days` days, and how evenly they are distributed."""
    return await cache.get(("distribution", days), lambda: app.schedules.distribution(days=days))


@post("/scheduler/rebalance", status_code=200, **allow("operator"))
async def scheduler_rebalance(app: App, data: JSONBody[RebalanceRequest | None] = None) -> Rebalance:
    """Moves the ticks of interval schedules with `spread` to times with fewer ticks."""
    return await app.schedules.rebalance(dry_run=data is not None and data.dry_run)


@post("/cron/preview", status_code=200, **allow("viewer", reads=True))
async def preview_rule(app: App, data: JSONBody[RulePreviewRequest]) -> RulePreview:
    """A rule in words, its next ticks, and the effects of clock changes."""
    after = data.after or app.clock.now()
    computation = Computation(app.clock, "the preview of this rule", kind="previews")
    return await computation.run(lambda: _preview(data, after, computation))


def _preview(data: RulePreviewRequest, after: datetime, computation: Computation) -> RulePreview:
    rule = (cron(data.trigger, tz=data.tz) if isinstance(data.trigger, str) else data.trigger).named(data.name)
    ticks = list(computation.each(rule.anchored(after).coming(data.count, after=after)))
    effects = rule.effects(after=after) if isinstance(rule, Cron) else []
    return RulePreview(
        meaning=rule.explain(),
        next=tick_views(ticks),
        clock_changes=[effect.note for effect in effects],
        warnings=rule.warnings(),
    )


ROUTES = [scheduler_metrics, scheduler_distribution, scheduler_rebalance, preview_rule]
