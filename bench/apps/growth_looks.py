"""What the dashboard's pages ask of a store with millions of jobs: pages of 50 by every filter, counts, statistics."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from growth_seed import WORKER
from meter import answer, percentile

from mainspring import Filter, Mainspring

STORE = os.environ["BENCH_STORE"]
PAGE_JOBS, WARM_UP = 50, 2
# Seconds for the calls of one look.
BUDGET_SECONDS = float(os.environ.get("BENCH_BUDGET", "10"))
NOW = datetime.now(UTC)
Look = Callable[[Mainspring], Awaitable[Any]]
STATES = (
    "pending", "scheduled", "retrying", "running", "waiting", "paused", "completed", "dead", "cancelled", "expired",
)  # fmt: skip
# A filter of each kind that the page of jobs offers. The last tasks have the fewest jobs.
FILTERS: dict[str, dict[str, Any]] = {
    "one queue": {"queues": ("queue-03",)},
    "a task with many jobs": {"tasks": ("task-00",)},
    "a task with few jobs": {"tasks": ("task-49",)},
    "a common tag": {"tags": ("common",)},
    "a rare tag": {"tags": ("rare",)},
    "one schedule": {"schedules": ("schedule-11",)},
    "one worker": {"workers": (WORKER,)},
    "one error": {"errors": ("ValueError: no a",)},
    "partial outcome": {"outcome": "partial"},
    "key prefix": {"key_prefix": "order-1"},
    "created in one hour": {
        "created_after": NOW - timedelta(days=15), "created_before": NOW - timedelta(days=15, hours=-1),
    },
    "created in 31 days": {"created_after": NOW - timedelta(days=31)},
}  # fmt: skip
PAIRED = ("one queue", "a task with many jobs", "a task with few jobs", "a common tag", "created in 31 days")


def page(after_pages: int = 0, *, sort: Any = None, newest: bool = True, **which: Any) -> Look:
    """A page of the list, after this number of pages: these are not timed, since each page is a request of its own."""
    which_jobs, after = Filter(**which), dict[int, str | None]()

    async def look(app: Mainspring) -> Any:
        return await app.jobs.list(
            which_jobs, limit=PAGE_JOBS, after=after.get(after_pages), sort=sort, newest=newest, brief=True
        )

    async def before(app: Mainspring) -> None:
        for n in range(1, after_pages + 1):
            found = await app.jobs.list(
                which_jobs, limit=PAGE_JOBS, after=after.get(n - 1), sort=sort, newest=newest, brief=True
            )
            after[n] = found.next or after.get(n - 1)

    look.before = before  # type: ignore[attr-defined]
    return look


def tabs(**which: Any) -> Look:
    return lambda app: app.jobs.filtered_counts(Filter(**which))


def looks() -> dict[str, Look]:
    found: dict[str, Look] = {"all jobs": page(), "all jobs, oldest": page(newest=False)}
    found["all jobs, page 2"] = page(1)
    for sort in ("due", "finished"):
        found[f"by {sort}"] = page(sort=sort)
        found[f"by {sort}, ascending"] = page(sort=sort, newest=False)
    for state in STATES:
        found[state] = page(states=(state,))
        found[f"{state}, by creation, oldest"] = page(states=(state,), sort="created", newest=False)
    for name, which in FILTERS.items():
        found[name] = page(**which)
        found[f"{name}, oldest"] = page(newest=False, **which)
        found[f"{name}, page 2"] = page(1, **which)
        found[f"{name}, page 3"] = page(2, **which)
        found[f"tabs: {name}"] = tabs(**which)
    for name in PAIRED:
        for state in STATES:
            found[f"{name}, {state}"] = page(states=(state,), **FILTERS[name])
    for task in ("task-03", "task-00"):
        found[f"queue-03 and {task}"] = page(queues=("queue-03",), tasks=(task,))
        found[f"queue-03 and {task}, completed"] = page(queues=("queue-03",), tasks=(task,), states=("completed",))
    found["one queue, next due"] = page(queues=("queue-03",), states=("pending",), sort="due", newest=False)
    found["one error's dead of a task"] = page(errors=("ValueError: no a",), tasks=("task-00",), states=("dead",))
    found["counts"] = lambda app: app.jobs.counts()
    found["queues"] = lambda app: app.queues.list()
    found["dead, grouped"] = lambda app: app.dead.groups(limit=200)
    found["workers"] = lambda app: app.workers.list()
    for name, back in (("an hour", 1), ("a day", 24), ("30 days", 720)):
        found[f"stats, {name}"] = lambda app, back=back: app.stats(timedelta(hours=back))
    return found


async def measure(calls: int, part: str) -> None:
    """Each look whose name has the part in it."""
    figures = {}
    async with Mainspring(STORE) as app:
        for name, look in looks().items():
            if part in name:
                figures[name] = await timed(app, look, calls)
                p50, p99 = figures[name]
                print(f"{name:45} {p50:9.1f} {p99:9.1f}{' *' * (p99 > 50)}", file=sys.stderr, flush=True)
    answer(**{f"{name}: {kind}": one[n] for name, one in figures.items() for n, kind in enumerate(("p50", "p99"))})


async def timed(app: Mainspring, look: Look, calls: int) -> tuple[float, float]:
    """p50 and p99 in milliseconds."""
    taken: list[float] = []
    if before := getattr(look, "before", None):
        await before(app)
    for n in range(WARM_UP + calls):
        start = time.perf_counter()
        try:
            await look(app)
        except Exception as error:  # a timeout of the store is a figure, too
            print(f"{type(error).__name__}: {error}"[:100], file=sys.stderr)
        if n >= WARM_UP:
            taken.append(1000 * (time.perf_counter() - start))
        if len(taken) > 2 and sum(taken) > 1000 * BUDGET_SECONDS:
            break
    return percentile(taken, 0.50), percentile(taken, 0.99)


def main() -> None:
    asyncio.run(measure(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""))
