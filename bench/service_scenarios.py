"""Scenarios of the service: requests a second and delays over HTTP, beside a handler that does nothing."""

from __future__ import annotations

from dataclasses import dataclass

from . import service_measures as measures
from .harness import Figure, Scenario
from .scenarios import other, ours

STORE = "Service"
STORES = ("SQLite", "PostgreSQL")
BESIDE = "do-nothing handler"
# What is asked for, as it stands in the address.
LISTS = {
    "all": "",
    "one state": "&state=completed",
    "one queue": "&queue=queue3",
    "one task": "&task=task3",
    "dead": "&state=dead",
}


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    jobs: int = 1_000_000
    seconds: int = 5
    posting: int = 32
    reading: int = 4


FULL = Sizes()
QUICK = Sizes(jobs=50_000, seconds=2)


def scenarios(sizes: Sizes) -> list[Scenario]:
    return [post(sizes), *(lists(sizes, store) for store in STORES)]


def post(sizes: Sizes) -> Scenario:
    how = {"seconds": sizes.seconds, "connections": sizes.posting}
    return Scenario(
        "http-post",
        f"POST /jobs with an API key, one job a request, {sizes.posting} connections, one process of uvicorn with one "
        f"event loop, {sizes.seconds} s on an empty store: each job is durable when its answer comes. The handler "
        "that does nothing reads the same body in the same framework and process, without a key and without a store.",
        (
            Figure("rate", "requests/s", more_is_better=True),
            Figure("p99", "ms"),
            Figure("CPU", "µs a request"),
        ),
        (
            *(ours(store, measures.post, store=store, path="/api/v1/jobs", **how) for store in STORES),
            other(BESIDE, measures.post, store="SQLite", path=measures.NOTHING, **how),
        ),
        {BESIDE: (BESIDE,)},
        store=STORE,
        rounds=3,
    )


def lists(sizes: Sizes, store: str) -> Scenario:
    how = {"store": store, "jobs": sizes.jobs, "seconds": sizes.seconds, "connections": sizes.reading}
    return Scenario(
        f"http-list-{store.lower()}",
        f"GET /jobs, pages of 50 from {sizes.jobs:,} jobs of 20 tasks in 5 queues, one in a hundred dead, on {store}: "
        f"{sizes.reading} readers that ask again at once, one process. The first page, and by cursor one that half of "
        "the jobs lie before.",
        (Figure("p99", "ms"), Figure("p50", "ms"), Figure("rate", "requests/s", more_is_better=True)),
        (
            *(
                ours(f"{name}, {where}", measures.listed, query=query, deep=where == "deep", **how)
                for name, query in LISTS.items()
                for where in ("first", "deep")
            ),
            other(BESIDE, measures.listed, query=None, deep=False, **how),
        ),
        {BESIDE: (BESIDE,)},
        store=STORE,
        rounds=3,
    )
