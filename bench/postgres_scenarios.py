"""Scenarios on PostgreSQL: the questions, and on which systems each is asked."""

from __future__ import annotations

from dataclasses import dataclass

from . import postgres_measures as measures
from .harness import Case, Scenario
from .postgres_measures import Engine, graphile, mainspring, pgqueuer
from .scenarios import RATE, other, ours

PGQUEUER, GRAPHILE, RAW = "PgQueuer, batches of 500", "graphile-worker, batched", "raw asyncpg, batches of 500"


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    drain: int = 50_000
    bulk: int = 100_000
    single: int = 3_000


FULL = Sizes()
QUICK = Sizes(drain=20_000, bulk=20_000, single=1_000)


def scenarios(sizes: Sizes) -> list[Scenario]:
    return [make(sizes) for make in (drain1, drain2, bulk, single)]


def drain1(sizes: Sizes) -> Scenario:
    return _drain(sizes, "pg-drain1", "One worker process", 1)


def drain2(sizes: Sizes) -> Scenario:
    return _drain(sizes, "pg-drain2", "Two worker processes", 2)


def _drain(sizes: Sizes, name: str, who: str, workers: int) -> Scenario:
    jobs = sizes.drain

    def of(engine: Engine, jobs: int = jobs) -> dict[str, object]:
        return {"engine": engine, "jobs": jobs, "workers": workers}

    return Scenario(
        name,
        f"{who}, {jobs:,} no-op jobs enqueued before the start: jobs per second from the first start to when the "
        "tables show that nothing is left. Mainspring fences every finish and keeps each job as a row of history.",
        RATE,
        (
            ours("Mainspring, 100 slots", measures.drain, **of(mainspring(100))),
            ours("Mainspring, 500 slots", measures.drain, **of(mainspring(500))),
            ours("Mainspring, 1,000 slots", measures.drain, **of(mainspring(1000))),
            other(PGQUEUER, measures.drain, **of(pgqueuer(500))),
            other("PgQueuer, batches of 10", measures.drain, **of(pgqueuer(10))),
            other(GRAPHILE, measures.drain, **of(graphile(500))),
            other(RAW, measures.raw_drain, jobs=4 * jobs, batch=500, workers=workers),
        ),
        {"PgQueuer": (PGQUEUER,), "graphile-worker": (GRAPHILE,), "raw asyncpg": (RAW,)},
        store="PostgreSQL",
    )


def bulk(sizes: Sizes) -> Scenario:
    jobs = sizes.bulk
    thousands = "batches of 1,000"
    cases: tuple[Case, ...] = (
        ours(f"Mainspring, {thousands}", measures.enqueue, engine=mainspring(1), way="bulk", jobs=jobs, batch=1_000),
        ours(
            "Mainspring, batches of 5,000", measures.enqueue, engine=mainspring(1), way="bulk", jobs=jobs, batch=5_000
        ),
        other(f"PgQueuer, {thousands}", measures.enqueue, engine=pgqueuer(1), way="fill", jobs=jobs),
        other(f"graphile-worker, {thousands}", measures.enqueue, engine=graphile(1), way="fill", jobs=jobs),
        other(f"raw asyncpg, unnest, {thousands}", measures.raw_insert, jobs=jobs, batch=1_000),
        other("raw asyncpg, one COPY", measures.raw_insert, jobs=jobs, batch=0),
    )
    return Scenario(
        "pg-bulk",
        f"{jobs:,} jobs enqueued together, building them included.",
        RATE,
        cases,
        {
            "PgQueuer": (f"PgQueuer, {thousands}",),
            "graphile-worker": (f"graphile-worker, {thousands}",),
            "raw asyncpg": (f"raw asyncpg, unnest, {thousands}",),
        },
        store="PostgreSQL",
    )


def single(sizes: Sizes) -> Scenario:
    jobs = sizes.single
    return Scenario(
        "pg-single",
        f"One caller, {jobs:,} jobs, each awaited and durable when its call returns.",
        RATE,
        (
            ours("Mainspring", measures.enqueue, engine=mainspring(1), way="single", jobs=jobs, callers=1),
            other("PgQueuer", measures.enqueue, engine=pgqueuer(1), way="single", jobs=jobs),
            other("graphile-worker", measures.enqueue, engine=graphile(1), way="single", jobs=jobs),
            other("raw asyncpg", measures.raw_insert, jobs=jobs, batch=1),
        ),
        {"best peer": ("PgQueuer", "graphile-worker"), "raw asyncpg": ("raw asyncpg",)},
        store="PostgreSQL",
    )
