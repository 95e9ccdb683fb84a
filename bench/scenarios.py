"""Scenarios: the questions, and on which systems each is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from . import measures
from .harness import Case, Figure, Scenario
from .measures import OURS, THEIRS, Figures
from .processes import APSCHEDULER, MAINSPRING_SCHEDULES, PEERS, PYTHON

RATE = (Figure("rate", "jobs/s", more_is_better=True),)
DELAY = (Figure("p50", "ms"), Figure("p99", "ms"))


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    drain: int = 50_000
    bulk: int = 100_000
    batch: int = 5_000
    single: int = 5_000
    concurrent: int = 20_000
    latency: int = 200
    delayed: int = 100
    idle_seconds: float = 20
    imports: int = 15
    few: int = 1_000
    many: int = 1_000_000
    claims: int = 200
    finished: int = 1_000_000
    looks: int = 30
    cron_seconds: float = 0.3
    ticks: int = 500
    schedules: tuple[int, ...] = (10_000, 100_000)
    burst: int = 1_000


FULL = Sizes()
QUICK = Sizes(
    drain=5_000, bulk=10_000, single=500, concurrent=2_000, latency=40, delayed=40,
    idle_seconds=5, imports=5, many=20_000, claims=50, looks=10, cron_seconds=0.1,
    ticks=100, schedules=(1_000, 10_000), burst=1_000,
)  # fmt: skip


def scenarios(sizes: Sizes) -> list[Scenario]:
    makers = (drain, bulk, single, latency, delayed, idle, imports, claim, insight, ticks, due, burst, cron)
    return [make(sizes) for make in makers]


def drain(sizes: Sizes) -> Scenario:
    jobs = sizes.drain
    return Scenario(
        "drain",
        f"One worker process, {jobs:,} no-op jobs enqueued before it starts: jobs per second from the first "
        "start to the last completion. Ours counts when the store shows every job completed, with its "
        "history row; Huey deletes a job before it runs, so its last start counts.",
        RATE,
        (
            ours("Mainspring, SQLite, 100 slots", measures.drain_mainspring, jobs=jobs, slots=100),
            ours("Mainspring, SQLite, 500 slots", measures.drain_mainspring, jobs=jobs, slots=500),
            ours("Mainspring, memory, one process", measures.drain_memory, jobs=jobs),
            other("Huey, 1 thread, no fsync", measures.drain_huey, jobs=jobs, threads=1, fsync="off"),
            other("Huey, 4 threads, no fsync", measures.drain_huey, jobs=jobs, threads=4, fsync="off"),
            other("Huey, 1 thread, synced", measures.drain_huey, jobs=jobs, threads=1, fsync="default"),
            other("raw SQLite, batches of 100", measures.raw, what="drain", jobs=jobs, batch=100),
            other("raw SQLite, batches of 500", measures.raw, what="drain", jobs=jobs, batch=500),
        ),
        {
            "Huey": ("Huey, 1 thread, no fsync", "Huey, 4 threads, no fsync"),
            "Huey, synced": ("Huey, 1 thread, synced",),
            "raw SQLite": ("raw SQLite, batches of 100", "raw SQLite, batches of 500"),
        },
    )


def bulk(sizes: Sizes) -> Scenario:
    jobs, batch = sizes.bulk, sizes.batch
    parts, whole = f"batches of {batch:,}", f"one batch of {jobs:,}"
    return Scenario(
        "bulk",
        f"{jobs:,} jobs enqueued together, building them included. Huey has no bulk call: its single enqueue "
        "without fsync stands in for it.",
        RATE,
        (
            ours(f"Mainspring, {parts}", measures.bulk_mainspring, jobs=jobs, batch=batch),
            ours(f"Mainspring, {whole}", measures.bulk_mainspring, jobs=jobs, batch=jobs),
            other("Huey, one by one, no fsync", measures.single_huey, jobs=sizes.concurrent, fsync="off"),
            other(f"raw SQLite, {parts}", measures.raw, what="insert", jobs=jobs, batch=batch),
            other(f"raw SQLite, {whole}", measures.raw, what="insert", jobs=jobs, batch=jobs),
        ),
        {
            "Huey": ("Huey, one by one, no fsync",),
            "raw SQLite": (f"raw SQLite, {parts}", f"raw SQLite, {whole}"),
        },
    )


def single(sizes: Sizes) -> Scenario:
    return Scenario(
        "single",
        "One job a call, each durable when its call returns (not so for Huey without fsync).",
        RATE,
        (
            ours("Mainspring, one caller", measures.single_mainspring, jobs=sizes.single, callers=1),
            ours("Mainspring, 100 callers", measures.single_mainspring, jobs=sizes.concurrent, callers=100),
            other("Huey, no fsync", measures.single_huey, jobs=sizes.single, fsync="off"),
            other("Huey, synced", measures.single_huey, jobs=sizes.single, fsync="default"),
            other("raw SQLite, a commit each", measures.raw, what="insert", jobs=sizes.single, batch=1),
        ),
        {
            "Huey": ("Huey, no fsync",),
            "Huey, synced": ("Huey, synced",),
            "raw SQLite": ("raw SQLite, a commit each",),
        },
    )


def latency(sizes: Sizes) -> Scenario:
    return Scenario(
        "latency",
        f"An idle worker in another process, {sizes.latency} jobs 25 to 75 ms apart: from just before the enqueue "
        "to the start of the job. Default settings (Huey polls every 0.1 s, less often the longer it idles).",
        DELAY,
        (
            ours("Mainspring, SQLite", measures.latency, system=OURS, jobs=sizes.latency),
            other("Huey", measures.latency, system=THEIRS, jobs=sizes.latency),
        ),
        {"Huey": ("Huey",)},
    )


def delayed(sizes: Sizes) -> Scenario:
    return Scenario(
        "delayed",
        f"{sizes.delayed} jobs due 0.5 to 5 s ahead: distance between the instant asked for and the start "
        "(Huey looks at its schedule once a second).",
        DELAY,
        (
            ours("Mainspring, SQLite", measures.delayed, system=OURS, jobs=sizes.delayed),
            other("Huey", measures.delayed, system=THEIRS, jobs=sizes.delayed),
        ),
        {"Huey": ("Huey",)},
    )


def idle(sizes: Sizes) -> Scenario:
    seconds = sizes.idle_seconds
    return Scenario(
        "idle",
        f"A worker with nothing to do, watched for {seconds:g} s.",
        (Figure("CPU", "% of a core"), Figure("memory", "MB")),
        (
            ours("Mainspring, SQLite", measures.idle, system=OURS, seconds=seconds),
            other("Huey", measures.idle, system=THEIRS, seconds=seconds),
        ),
        {"Huey": ("Huey",)},
    )


def imports(sizes: Sizes) -> Scenario:
    def settings(python: str, statement: str) -> dict[str, Any]:
        return {"python": python, "statement": statement, "runs": sizes.imports}

    peer = str(PEERS / "python")
    app, made = "from mainspring import Mainspring", 'Mainspring("sqlite:///a.db")'
    return Scenario(
        "import",
        f"What the import adds to the start of Python: median of {sizes.imports} starts with it, less the "
        "median of as many bare ones, bytecode cached.",
        (Figure("time", "ms"),),
        (
            ours("mainspring", measures.import_time, **settings(PYTHON, "import mainspring")),
            ours("mainspring, its class", measures.import_time, **settings(PYTHON, app)),
            ours("mainspring, an app on SQLite", measures.import_time, **settings(PYTHON, f"{app}\n{made}")),
            other("asyncio", measures.import_time, **settings(PYTHON, "import asyncio")),
            other("Huey", measures.import_time, **settings(peer, "from huey import SqliteHuey")),
        ),
        {"asyncio": ("asyncio",), "Huey": ("Huey",)},
    )


def claim(sizes: Sizes) -> Scenario:
    claims = sizes.claims
    few, many = f"{sizes.few:,} pending", f"{sizes.many:,} pending, {sizes.many:,} in the future"
    return Scenario(
        "claim",
        f"What one call that claims 100 jobs from an SQLite file costs, {claims} calls.",
        DELAY,
        (
            ours(few, measures.claim, pending=sizes.few, future=0, claims=claims),
            ours(many, measures.claim, pending=sizes.many, future=sizes.many, claims=claims),
        ),
        {few: (few,)},
    )


LOOKS = (
    "stats, an hour", "stats, a day", "stats, 30 days", "newest", "completed", "dead", "dead, grouped", "one task",
    "one queue", "a tag nobody has",
)  # fmt: skip


def insight(sizes: Sizes) -> Scenario:
    return Scenario(
        "insight",
        f"What people and dashboards ask of an SQLite file with {sizes.finished:,} finished jobs of 20 tasks in 5 "
        f"queues, one in a hundred of them dead: pages of 100 and statistics, {sizes.looks} calls each.",
        DELAY,
        tuple(ours(look, measures.insight, jobs=sizes.finished, look=look, calls=sizes.looks) for look in LOOKS),
        {LOOKS[3]: (LOOKS[3],)},
    )


def cron(sizes: Sizes) -> Scenario:
    seconds = sizes.cron_seconds
    return Scenario(
        "cron",
        "What one question for the next tick costs, on average: typical expressions in UTC and in London, rare dates "
        "(29 February, last days, a fifth Friday) and the dearest of these, and hostile texts, from the text to its "
        "refusal. Where a peer accepts what never comes, it is asked for its next tick. cronsim is an iterator, and "
        "made anew for each question.",
        tuple(Figure(name, "µs") for name in ("typical", "London", "rare", "dearest", "hostile")),
        (
            ours("Mainspring", measures.cron, system="ours", seconds=seconds),
            other("croniter", measures.cron, system="croniter", seconds=seconds),
            other("cronsim", measures.cron, system="cronsim", seconds=seconds),
        ),
        {"croniter": ("croniter",), "cronsim": ("cronsim",)},
    )


def ticks(sizes: Sizes) -> Scenario:
    jobs = sizes.ticks
    return Scenario(
        "ticks",
        f"A worker with twenty schedules of a tick a second each, and nothing else to do, {jobs} ticks: from the "
        "tick to the start of its job, and to when the job and the schedule's next tick were on the disk. "
        "APScheduler starts its function in a thread, and writes no job.",
        (*DELAY, Figure("largest", "ms"), Figure("fired, p99", "ms")),
        (
            ours("Mainspring, SQLite", measures.ticks, program=MAINSPRING_SCHEDULES, schedules=20, jobs=jobs),
            other("APScheduler, SQLite", measures.ticks, program=APSCHEDULER, schedules=20, jobs=jobs),
        ),
        {"APScheduler": ("APScheduler, SQLite",)},
    )


def due(sizes: Sizes) -> Scenario:
    few, _ = sizes.schedules
    return Scenario(
        "due",
        f"What finding the ten schedules that are due among many costs in an SQLite file, {sizes.claims} calls.",
        DELAY,
        tuple(
            ours(f"{number:,} schedules", measures.due, schedules=number, calls=sizes.claims)
            for number in sizes.schedules
        ),
        {f"{few:,}": (f"{few:,} schedules",)},
    )


def burst(sizes: Sizes) -> Scenario:
    number = sizes.burst
    return Scenario(
        "burst",
        f"{number:,} schedules that tick at the same instant, one worker: from the instant until the last of their "
        "jobs is on the disk, and until the last one has started. APScheduler writes no jobs.",
        (Figure("started", "ms"), Figure("fired", "ms")),
        (
            ours("Mainspring, SQLite", measures.burst, program=MAINSPRING_SCHEDULES, schedules=number, lead=5),
            other("APScheduler, SQLite", measures.burst, program=APSCHEDULER, schedules=number, lead=25),
        ),
        {"APScheduler": ("APScheduler, SQLite",)},
    )


def ours(system: str, measure: Callable[..., Figures], /, **settings: Any) -> Case:
    return Case(system, partial(measure, **settings), ours=True)


def other(system: str, measure: Callable[..., Figures], /, **settings: Any) -> Case:
    return Case(system, partial(measure, **settings))
