"""Scenarios on PostgreSQL: the questions, and on which systems each is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from . import pickup
from . import postgres_measures as measures
from .harness import Case, Figure, Scenario
from .postgres_measures import Engine, chancy, graphile, mainspring, pgqueuer, procrastinate, saq
from .postgres_rows import DAYS, QUEUES, TASKS
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
    many: int = 10_000_000
    future: int = 1_000_000
    finished: int = 5_000_000
    claims: int = 200
    looks: int = 30
    horizon: int = 500_000


FULL = Sizes()
QUICK = Sizes(
    drain=20_000, slow=1_000, raw=50_000, bulk=20_000, single=1_000, latency=60, idle_seconds=20, peer_idle_seconds=10,
    many=1_000_000, future=100_000, finished=500_000, claims=100, looks=10, horizon=50_000,
)  # fmt: skip


def scenarios(sizes: Sizes) -> list[Scenario]:
    return [make(sizes) for make in (drain1, drain2, bulk, single, latency, idle, claim, look, horizon)]


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
    jobs, batches = sizes.bulk, (1_000, 5_000)

    def named(name: str) -> tuple[str, ...]:
        return tuple(f"{name}, batches of {batch:,}" for batch in batches)

    def cases(name: str, engine: Engine, make: Callable[..., Case] = other) -> Iterator[Case]:
        for system, batch in zip(named(name), batches, strict=True):
            yield make(system, measures.enqueue, engine=engine, way="fill", jobs=jobs, batch=batch)

    return Scenario(
        "pg-bulk",
        f"{jobs:,} jobs enqueued together, building them included. SAQ has no bulk call.",
        RATE,
        (
            *cases("Mainspring", mainspring(1), ours),
            *cases("PgQueuer", pgqueuer(1)),
            *cases("graphile-worker", graphile(1)),
            *cases("Procrastinate", procrastinate(1)),
            next(cases("Chancy", chancy(1))),
            other("raw asyncpg, unnest of 1,000", measures.raw_insert, jobs=jobs, batch=1_000),
            other("raw asyncpg, one COPY", measures.raw_insert, jobs=jobs, batch=0),
        ),
        {
            "PgQueuer": named("PgQueuer"),
            "graphile-worker": named("graphile-worker"),
            "raw unnest": ("raw asyncpg, unnest of 1,000",),
            "raw COPY": ("raw asyncpg, one COPY",),
        },
        store=STORE,
    )


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
        f"An idle worker in another process, {jobs} jobs 25 to 75 ms apart, after {pickup.COLD} that do not count: "
        "from just before the enqueue to the start of the job. Workers with the settings of `pg-drain1`.",
        DELAY,
        (
            ours("Mainspring", pickup.latency, engine=mainspring(100), jobs=jobs),
            *_peers(pickup.latency, jobs=jobs),
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


def claim(sizes: Sizes) -> Scenario:
    many, ahead, past = sizes.many, sizes.future, sizes.finished
    rows = {
        "nothing else": {},
        f"{many:,} due in other queues": {"other": many},
        f"{many:,} due in the same queue": {"same": many},
        f"{ahead:,} in the future": {"future": ahead},
        f"{past:,} finished": {"finished": past},
    }
    cases = [
        ours(f"{beside}{known}", measures.claim, analysed=not known, calls=sizes.claims, **kinds)
        for beside, kinds in rows.items()
        for known in ("", ", never analysed")
    ]
    return Scenario(
        "pg-claim",
        f"What one call that claims 100 jobs costs, and the one that finishes them, {sizes.claims} calls, beside other "
        "rows. *Never analysed*: the planner knows nothing of the tables, as right after a flood.",
        (*DELAY, Figure("finish, p50", "ms"), Figure("finish, p99", "ms")),
        tuple(cases),
        {"nothing else": ("nothing else",)},
        store=STORE,
        rounds=3,
    )


LOOKS = (
    "newest", "pending", "scheduled", "completed", "dead", "dead, grouped", "one queue", "a rare queue", "one task",
    "a rare task", "a rare task's dead", "a rare tag", "a tag nobody has", "next due", "last finished", "counts",
    "queues", "stats, an hour", "stats, a day", "stats, 30 days",
)  # fmt: skip


def look(sizes: Sizes) -> Scenario:
    rows = {"other": sizes.many, "future": sizes.future, "finished": sizes.finished}
    return Scenario(
        "pg-looks",
        f"What people and dashboards ask, {sizes.looks} calls each, of {sizes.many:,} jobs due, {sizes.future:,} ahead "
        f"and {sizes.finished:,} finished in {DAYS} days, of {TASKS} tasks in {QUEUES} queues; one in a hundred of the "
        "finished is dead, one in a thousand has the rare tag, one in 100,000 is of the rare task in the rare queue: "
        "pages of 100, counts and statistics.",
        DELAY,
        tuple(ours(each, measures.look, look=each, calls=sizes.looks, **rows) for each in LOOKS),
        {"newest": ("newest",)},
        store=STORE,
        rounds=3,
    )


def horizon(sizes: Sizes) -> Scenario:
    def case(system: str, held: bool) -> Case:
        return ours(system, measures.horizon, slots=500, jobs=sizes.horizon, held=held, calls=sizes.claims)

    return Scenario(
        "pg-horizon",
        f"{sizes.horizon:,} jobs pass through one worker of 500 slots while a REPEATABLE READ transaction is held open "
        "(no dead row can be cleaned away), and while none is: jobs per second; how long the worker's own claims took, "
        f"which share its loop with the jobs; how long they took at the server; then {sizes.claims} claims of 100 jobs "
        "with nothing beside them.",
        (
            *RATE, Figure("worker's claims, p50", "ms"), Figure("worker's claims, p99", "ms"),
            Figure("at the server, mean", "ms"), Figure("at the server, longest", "ms"),
            Figure("claims after it, p99", "ms"),
        ),
        (case("no transaction", False), case("a transaction held open", True)),
        {"no transaction": ("no transaction",)},
        store=STORE,
        rounds=3,
    )  # fmt: skip


def _peers(measure: Any, **settings: Any) -> tuple[Case, ...]:
    engines = (pgqueuer(500), graphile(500), chancy(500), saq(20), procrastinate(10))
    return tuple(other(name, measure, engine=engine, **settings) for name, engine in zip(PEERS, engines, strict=True))
