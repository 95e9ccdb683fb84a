"""Measurements on PostgreSQL: a fresh database each, work confirmed by what the tables show."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any

from .apps.meter import percentile, read_count
from .harness import Lab
from .pickup import await_runs, warm
from .postgres_rows import build, know
from .processes import (
    CHANCY,
    GRAPHILE,
    MAINSPRING,
    MAINSPRING_CLAIM,
    MAINSPRING_INSIGHT,
    PGQUEUER,
    PROCRASTINATE,
    RAW_POSTGRES,
    SAQ,
    Child,
    Failed,
    Program,
)

Figures = dict[str, float]


@dataclass(frozen=True)
class Engine:
    """A job system: its program, the setting its worker takes, and how its tables tell what is left to do."""

    program: Program
    size: int
    pending: str
    completed: str = ""
    """For one that keeps what it has done: how many jobs went well."""
    beats: str = ""
    """For one whose worker says that it lives: how often it has."""

    def ask(self, lab: Lab, home: Path, *words: object, timeout: float = 300) -> dict[str, float]:
        return self.program.ask(home, *words, timeout=timeout, BENCH_STORE=lab.postgres.dsn())

    @contextmanager
    def fresh(self, lab: Lab) -> Iterator[Path]:
        """Its tables in a new database, and a home."""
        lab.postgres.fresh()
        with lab.fresh() as home:
            self.ask(lab, home, "setup")
            yield home

    @contextmanager
    def worker(self, lab: Lab, home: Path) -> Iterator[Child]:
        home.mkdir(exist_ok=True)
        with self.program.running(home, "worker", self.size, BENCH_STORE=lab.postgres.dsn()) as child:
            yield child


def mainspring(slots: int) -> Engine:
    return Engine(
        MAINSPRING,
        slots,
        "SELECT count(*) FROM mainspring_jobs",
        "SELECT count(*) FROM mainspring_finished WHERE state = 'completed'",
        "SELECT (info::json ->> 'beats')::int FROM mainspring_workers",
    )


def pgqueuer(batch: int) -> Engine:
    return Engine(PGQUEUER, batch, "SELECT count(*) FROM pgqueuer")


def graphile(queue: int) -> Engine:
    return Engine(GRAPHILE, queue, "SELECT count(*) FROM graphile_worker._private_jobs")


def procrastinate(slots: int) -> Engine:
    unfinished = "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
    return Engine(PROCRASTINATE, slots, unfinished)


def chancy(slots: int) -> Engine:
    unfinished = "SELECT count(*) FROM chancy_jobs WHERE state NOT IN ('succeeded', 'failed')"
    return Engine(CHANCY, slots, unfinished)


def saq(slots: int) -> Engine:
    return Engine(SAQ, slots, "SELECT count(*) FROM saq_jobs")


def drain(lab: Lab, *, engine: Engine, jobs: int, workers: int) -> Figures:
    """Jobs per second from the first start to when the store shows nothing left."""
    with engine.fresh(lab) as home:
        engine.ask(lab, home, "fill", jobs)
        if (found := lab.postgres.value(engine.pending)) != jobs:
            raise Failed(f"{found} of {jobs} jobs in the store before the drain")
        lab.postgres.settle()
        homes = [home / f"worker-{n}" for n in range(workers)]
        with ExitStack() as stack:
            children = [stack.enter_context(engine.worker(lab, place)) for place in homes]
            await_runs(homes, jobs, children)
            at = lab.postgres.until(engine.pending, lambda left: left == 0, timeout=60)
        if engine.completed and (found := lab.postgres.value(engine.completed)) != jobs:
            raise Failed(f"{found} of {jobs} jobs completed")
        return {"rate": jobs / (at - min(read_count(place).first for place in homes if read_count(place).jobs))}


def idle(lab: Lab, *, engine: Engine, seconds: float) -> Figures:
    with warm(lab, engine) as (_, worker):
        time.sleep(3)  # what the last job left to do is not idling
        beats, start = _beats(lab, engine), time.monotonic()
        statements, spent = lab.postgres.statements(), worker.cpu_seconds()
        time.sleep(seconds)
        beats, span = _beats(lab, engine) - beats, time.monotonic() - start
        statements, spent = lab.postgres.statements() - statements, worker.cpu_seconds() - spent
        return {
            "CPU": 100 * spent / span, "memory": worker.resident_bytes() / 1e6, "statements": 60 * statements / span,
            "beyond its beat": 60 * (statements - beats * _a_beat(lab, engine)) / span if engine.beats else nan,
        }  # fmt: skip


def _beats(lab: Lab, engine: Engine) -> int:
    """How many the worker has sent, shortly after one: then none is under way."""
    if not engine.beats:
        return 0
    before = lab.postgres.value(engine.beats)
    lab.postgres.until(engine.beats, lambda now: now > before, timeout=30)
    time.sleep(0.5)
    return lab.postgres.value(engine.beats)


def _a_beat(lab: Lab, engine: Engine) -> float:
    """The statements of one beat, counted where there is nothing else."""
    beats = 20
    with engine.fresh(lab) as home:
        before = lab.postgres.statements()
        engine.ask(lab, home, "beats", 0)
        nothing = lab.postgres.statements() - before
        engine.ask(lab, home, "beats", beats)
        return (lab.postgres.statements() - before - 2 * nothing) / beats


def enqueue(lab: Lab, *, engine: Engine, way: str, jobs: int, **words: Any) -> Figures:
    """Jobs per second into the store: `way` is fill or single."""
    with engine.fresh(lab) as home:
        lab.postgres.settle()
        told = engine.ask(lab, home, way, jobs, *words.values())
        return {"rate": told["jobs"] / told["seconds"]}


def claim(lab: Lab, *, analysed: bool, calls: int, **rows: int) -> Figures:
    """What a claim of 100 jobs costs, and the finish of them, beside so many rows."""
    database = "_".join(["claim", *(f"{kind}_{number}" for kind, number in rows.items())])
    build(lab, database, **rows)
    know(lab, database, analysed=analysed)
    try:
        with lab.fresh() as home:
            return MAINSPRING_CLAIM.ask(home, 0, 0, calls, timeout=300, BENCH_STORE=lab.postgres.dsn(database))
    finally:
        lab.postgres.set("autovacuum", "on")


def look(lab: Lab, *, look: str, calls: int, **rows: int) -> Figures:
    build(lab, "looks", **rows)
    with lab.fresh() as home:
        return MAINSPRING_INSIGHT.ask(home, 0, look, calls, timeout=300, BENCH_STORE=lab.postgres.dsn("looks"))


def horizon(lab: Lab, *, slots: int, jobs: int, held: bool, calls: int) -> Figures:
    """A drain, and what claims cost during and after it, while somebody's transaction sees all of it or not."""
    engine = mainspring(slots)
    with engine.fresh(lab) as home:
        engine.ask(lab, home, "fill", jobs)
        lab.postgres.settle()
        lab.postgres.forget()
        with lab.postgres.snapshot() if held else nullcontext():
            with MAINSPRING.running(home, "timed", slots, BENCH_STORE=lab.postgres.dsn()) as worker:
                await_runs([home], jobs, [worker])
                at = lab.postgres.until(engine.pending, lambda left: left == 0, timeout=60)
                served, longest = lab.postgres.claims()
            after = MAINSPRING_CLAIM.ask(home, 0, 0, calls, timeout=300, BENCH_STORE=lab.postgres.dsn())
        if not (home / "claims").exists():
            raise Failed("the worker had to be killed, and could not tell how long its claims took")
        during = [float(line) for line in (home / "claims").read_text().split()]
        return {
            "rate": jobs / (at - read_count(home).first),
            "worker's claims, p50": percentile(during, 0.50), "worker's claims, p99": percentile(during, 0.99),
            "at the server, mean": served, "at the server, longest": longest, "claims after it, p99": after["p99"],
        }  # fmt: skip


# the limit: no engine, the same work


@contextmanager
def _raw(lab: Lab) -> Iterator[Path]:
    lab.postgres.fresh()
    with lab.fresh() as home:
        _ask_raw(lab, home, "setup")
        yield home


def _ask_raw(lab: Lab, home: Path, *words: object) -> dict[str, float]:
    return RAW_POSTGRES.ask(home, *words, timeout=300, BENCH_STORE=lab.postgres.dsn())


def raw_drain(lab: Lab, *, jobs: int, batch: int, workers: int) -> Figures:
    with _raw(lab) as home, ExitStack() as stack:
        _ask_raw(lab, home, "insert", jobs, 0)
        lab.postgres.settle()
        dsn = lab.postgres.dsn()
        running = [RAW_POSTGRES.running(home, "drain", batch, BENCH_STORE=dsn) for _ in range(workers)]
        told = [child.answer(120) for child in [stack.enter_context(one) for one in running]]
        span = max(one["last"] for one in told) - min(one["first"] for one in told)
        return {"rate": sum(one["jobs"] for one in told) / span}


def raw_insert(lab: Lab, *, jobs: int, batch: int) -> Figures:
    with _raw(lab) as home:
        lab.postgres.settle()
        told = _ask_raw(lab, home, "insert", jobs, batch)
        return {"rate": told["jobs"] / told["seconds"]}
