"""Scenarios on PostgreSQL: the questions, and on which systems each is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import postgres_measures as measures
from .harness import Case, Figure, Scenario
from .postgres_measures import chancy, graphile, mainspring, pgqueuer, procrastinate, saq
from .scenarios import DELAY, RATE, other, ours

STORE = "PostgreSQL"
PEERS = ("PgQueuer", "graphile-worker", "Chancy", "SAQ", "Procrastinate")


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    drain: int = 50_000
    slow: int = 5_000
    raw: int = 200_000
    bulk: int = 100_000
    single: int = 3_000
    latency: int = 200
    idle_seconds: float = 60
    peer_idle_seconds: float = 20


FULL = Sizes()
QUICK = Sizes(
    drain=20_000, slow=1_000, raw=50_000, bulk=20_000, single=1_000, latency=60, idle_seconds=20, peer_idle_seconds=10
)


def scenarios(sizes: Sizes) -> list[Scenario]:
    return [make(sizes) for make in (drain1, drain2, bulk, single, latency, idle)]


def drain1(sizes: Sizes) -> Scenario:
    return _drain(sizes, "pg-drain1", "One worker process", 1)


def drain2(sizes: Sizes) -> Scenario:
    return _drain(sizes, "pg-drain2", "Two worker processes", 2)


def _drain(sizes: Sizes, name: str, who: str, workers: int) -> Scenario:
    jobs, slow = {"jobs": sizes.drain, "workers": workers}, {"jobs": sizes.slow, "workers": workers}
    return Scenario(
        name,
        f"{who}, {sizes.drain:,} no-op jobs enqueued before the start ({sizes.slow:,} for SAQ and Procrastinate, "
        f"{sizes.raw:,} rows for the raw loop): jobs per second from the first start to when the tables show that "
        "nothing is left. Mainspring fences every finish and keeps each job as a row of history.",
        RATE,
        (
            ours("Mainspring, 100 slots", measures.drain, engine=mainspring(100), **jobs),
            ours("Mainspring, 500 slots", measures.drain, engine=mainspring(500), **jobs),
            ours("Mainspring, 1,000 slots", measures.drain, engine=mainspring(1_000), **jobs),
            other("PgQueuer, batches of 500", measures.drain, engine=pgqueuer(500), **jobs),
            other("PgQueuer, batches of 10 (default)", measures.drain, engine=pgqueuer(10), **jobs),
            other("graphile-worker, batched", measures.drain, engine=graphile(500), **jobs),
            other("Chancy, 500 slots", measures.drain, engine=chancy(500), **jobs),
            other("SAQ, 20 slots", measures.drain, engine=saq(20), **slow),
            other("Procrastinate, 10 slots", measures.drain, engine=procrastinate(10), **slow),
            other("raw asyncpg, batches of 500", measures.raw_drain, jobs=sizes.raw, batch=500, workers=workers),
        ),
        {
            "PgQueuer": ("PgQueuer, batches of 500", "PgQueuer, batches of 10 (default)"),
            "graphile-worker": ("graphile-worker, batched",),
            "Chancy": ("Chancy, 500 slots",),
            "Procrastinate": ("Procrastinate, 10 slots",),
            "raw asyncpg": ("raw asyncpg, batches of 500",),
        },
        store=STORE,
    )


def bulk(sizes: Sizes) -> Scenario:
    jobs, thousands = sizes.bulk, "batches of 1,000"

    def mine(batch: int) -> Case:
        system = f"Mainspring, batches of {batch:,}"
        return ours(system, measures.enqueue, engine=mainspring(1), way="bulk", jobs=jobs, batch=batch)

    peers = {
        "PgQueuer": pgqueuer(1), "graphile-worker": graphile(1), "Procrastinate": procrastinate(1), "Chancy": chancy(1)
    }  # fmt: skip
    return Scenario(
        "pg-bulk",
        f"{jobs:,} jobs enqueued together, building them included. SAQ has no bulk call.",
        RATE,
        (
            mine(1_000),
            mine(5_000),
            *(other(f"{name}, {thousands}", measures.enqueue, engine=engine, way="fill", jobs=jobs)
              for name, engine in peers.items()),
            other(f"raw asyncpg, unnest, {thousands}", measures.raw_insert, jobs=jobs, batch=1_000),
            other("raw asyncpg, one COPY", measures.raw_insert, jobs=jobs, batch=0),
        ),
        {
            "PgQueuer": (f"PgQueuer, {thousands}",),
            "graphile-worker": (f"graphile-worker, {thousands}",),
            "raw unnest": (f"raw asyncpg, unnest, {thousands}",),
            "raw COPY": ("raw asyncpg, one COPY",),
        },
        store=STORE,
    )  # fmt: skip


def single(sizes: Sizes) -> Scenario:
    jobs = sizes.single
    return Scenario(
        "pg-single",
        f"One caller, {jobs:,} jobs, each awaited and durable when its call returns.",
        RATE,
        (
            ours("Mainspring", measures.enqueue, engine=mainspring(1), way="single", jobs=jobs, callers=1),
            *_peers(measures.enqueue, way="single", jobs=jobs),
            other("raw asyncpg", measures.raw_insert, jobs=jobs, batch=1),
        ),
        {"best peer": PEERS, "raw asyncpg": ("raw asyncpg",)},
        store=STORE,
    )


def latency(sizes: Sizes) -> Scenario:
    jobs = sizes.latency
    return Scenario(
        "pg-latency",
        f"An idle worker in another process, {jobs} jobs 25 to 75 ms apart: from just before the enqueue to the start "
        "of the job. Workers with the settings of `pg-drain1`.",
        DELAY,
        (
            ours("Mainspring", measures.latency, engine=mainspring(100), jobs=jobs),
            *_peers(measures.latency, jobs=jobs),
        ),
        {"best peer": PEERS},
        store=STORE,
    )


def idle(sizes: Sizes) -> Scenario:
    long, short = sizes.idle_seconds, sizes.peer_idle_seconds
    return Scenario(
        "pg-idle",
        f"A worker with nothing to do, watched for {long:g} s (peers {short:g} s): its CPU and memory, the statements "
        "it sends, and those of them that are not its beat, which says that it lives and hears of cancels.",
        (
            Figure("CPU", "% of a core"), Figure("memory", "MB"), Figure("statements", "a minute"),
            Figure("beyond its beat", "a minute"),
        ),
        (
            ours("Mainspring", measures.idle, engine=mainspring(100), seconds=long),
            *_peers(measures.idle, seconds=short),
        ),
        {"best peer": PEERS},
        store=STORE,
        rounds=2,
    )  # fmt: skip


def _peers(measure: Any, **settings: Any) -> tuple[Case, ...]:
    engines = (pgqueuer(500), graphile(500), chancy(500), saq(20), procrastinate(10))
    return tuple(other(name, measure, engine=engine, **settings) for name, engine in zip(PEERS, engines, strict=True))
