"""/scheduler and /cron: all schedules together, and rules that are none of them yet."""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime
from typing import Annotated

from litestar import get, post
from litestar.params import JSONBody, QueryParameter
from msgspec import Meta, Struct

from ...control.computation import Computation
from ...schedule.balance.distribution import WEEK, Distribution
from ...schedule.balance.spread import Rebalance
from ...trigger import AnyTrigger, Cron, cron
from ...trigger.bounds import MAX_NAME_CHARACTERS
from ..access.authenticate import Spring, may
from ..response_cache import Lately
from .jobs import JobCounts
from .schedule_view import TickView, tick_views


class SchedulerFigures(Struct, frozen=True, kw_only=True):
    """All schedules together."""

    active: int
    paused: int
    ended: int
    late: int
    """Whose time has come and who have not fired yet."""
    fired: int
    skipped: int
    missed: int
    completed: int
    failed: int
    success_rate: float | None
    """Share of their jobs that ended well; null: none has ended."""
    under_way: int
    """Jobs of theirs that have not ended."""
    jobs: JobCounts
    """All jobs by state, those that no schedule made as well."""
    next_at: datetime | None
    as_of: datetime
    """When the schedules were counted: where there are very many, that may be some seconds ago."""
    complete: bool
    """False: they are still being counted for the first time, and the figures are of those that were read so far."""


class RebalanceWish(Struct, forbid_unknown_fields=True):
    dry_run: bool = False


class Rule(Struct, kw_only=True, forbid_unknown_fields=True):
    """A rule to be looked at."""

    trigger: AnyTrigger | str
    """A trigger with its kind, or a cron expression."""
    tz: str = "UTC"
    """For a cron expression."""
    name: Annotated[str, Meta(max_length=MAX_NAME_CHARACTERS)] = ""
    """Of the schedule it is for, which settles what depends on it."""
    count: Annotated[int, Meta(ge=1, le=1000)] = 10
    after: datetime | None = None
    """Ticks later than this, instead of now."""


class RulePreview(Struct, frozen=True, kw_only=True):
    meaning: str
    next: list[TickView]
    clock_changes: list[str]
    """What changes of the clocks do to it in the year that follows."""
    warnings: list[str]


@get("/scheduler/metrics", **may("viewer"))
async def scheduler_metrics(spring: Spring, recent: Lately) -> SchedulerFigures:
    """How many schedules and jobs there are, and how ticks and their jobs have gone."""
    now, index = spring.clock.now(), await spring.schedules.index.snapshot()
    late, sums, counts = bisect_right(index.due, now), index.sums, index.counts
    jobs, ends = await recent.get("counts", spring.jobs.counts), sums.completed + sums.failed
    return SchedulerFigures(
        active=counts["active"], paused=counts["paused"], ended=counts["ended"],
        late=late, next_at=index.due[late] if late < len(index.due) else None,
        fired=sums.fired, skipped=sums.skipped, missed=sums.missed, completed=sums.completed, failed=sums.failed,
        success_rate=sums.completed / ends if ends else None, under_way=sums.under_way, jobs=JobCounts(**jobs),
        as_of=index.as_of, complete=index.complete,
    )  # fmt: skip


@get("/scheduler/distribution", **may("viewer"))
async def scheduler_distribution(
    spring: Spring, recent: Lately, days: Annotated[int, QueryParameter(ge=1, le=WEEK)] = 1
) -> Distribution:
    """How many ticks come in each hour of the next day, or as many days, and how evenly."""
    return await recent.get(("distribution", days), lambda: spring.schedules.distribution(days=days))


@post("/scheduler/rebalance", status_code=200, **may("operator"))
async def scheduler_rebalance(spring: Spring, data: JSONBody[RebalanceWish | None] = None) -> Rebalance:
    """Moves intervals made with spread to where fewer ticks are."""
    return await spring.schedules.rebalance(dry_run=data is not None and data.dry_run)


@post("/cron/preview", status_code=200, **may("viewer", reads=True))
async def preview_rule(spring: Spring, data: JSONBody[Rule]) -> RulePreview:
    """What a rule means, when it runs next, and what clocks do to it."""
    after = data.after or spring.clock.now()
    computation = Computation(spring.clock, "the preview of this rule", kind="previews")
    return await computation.run(lambda: _previewed(data, after, computation))


def _previewed(data: Rule, after: datetime, computation: Computation) -> RulePreview:
    rule = (cron(data.trigger, tz=data.tz) if isinstance(data.trigger, str) else data.trigger).named(data.name)
    ticks = list(computation.each(rule.anchored(after).coming(data.count, after=after)))
    effects = rule.effects(after=after) if isinstance(rule, Cron) else []
    return RulePreview(
        meaning=rule.explain(), next=tick_views(ticks),
        clock_changes=[effect.note for effect in effects], warnings=rule.warnings(),
    )  # fmt: skip


ROUTES = [scheduler_metrics, scheduler_distribution, scheduler_rebalance, preview_rule]
