"""Scenarios of many schedules: a herd, a pace, a crowd, and what looking costs, on every store."""

from __future__ import annotations

from dataclasses import dataclass

from . import schedule_measures as measures
from .harness import Case, Figure, Scenario
from .scenarios import other, ours

STORE = "Schedules"
STORES = ("SQLite", "PostgreSQL", "Redis")
SETTLED = (Figure("started", "ms"), Figure("settled", "ms"))
LATENESS = (Figure("p99", "ms"), Figure("p50", "ms"), Figure("largest", "ms"))
MANY = ("made", "look", "page", "search_unread", "index", "search", "paused", "load")
MEMORY, FILE, BEAT = "APScheduler, memory", "APScheduler, SQLite", "Celery beat, Redis"


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    herds: tuple[int, ...] = (1_000, 10_000)
    pace: int = 20
    seconds: int = 10
    crowds: tuple[int, ...] = (1_100, 100_000)
    due: int = 100
    looks: tuple[int, ...] = (10, 100_000)
    calls: int = 200


FULL = Sizes()
QUICK = Sizes(seconds=4, crowds=(1_100, 20_000), looks=(10, 20_000), calls=50)


def scenarios(sizes: Sizes) -> list[Scenario]:
    return [*(herd(number) for number in sizes.herds), pace(sizes), crowd(sizes), look(sizes), many(sizes)]


def _mainspring(store: str, *words: object, name: str = "") -> Case:
    return ours(name or f"Mainspring, {store}", measures.mainspring, store=store, words=words)


def herd(number: int) -> Scenario:
    # APScheduler's store in SQLite takes a transaction for each schedule: half a minute to make ten thousand.
    small = number <= 1_000
    file = [other(FILE, measures.apscheduler, jobstore="sqlite", words=("herd", number, 20))] if small else []
    left_out = "" if small else " APScheduler's store in SQLite is left out: making them takes it too long."
    return Scenario(
        f"schedule-herd-{number}",
        f"{number:,} schedules that tick at the same instant, one worker process with default settings: from that "
        "instant until the last of their jobs has started, and until every job is recorded as completed and every "
        "schedule's row says so. APScheduler and beat record no completions. Huey's periodic tasks are looked at once "
        f"a minute and cannot follow.{left_out}",
        SETTLED,
        (
            *(_mainspring(store, "herd", number) for store in ("memory", *STORES)),
            other(MEMORY, measures.apscheduler, jobstore="memory", words=("herd", number, 5 + number / 1000)),
            *file,
            other(BEAT, measures.beat_herd, schedules=number),
        ),
        {"APScheduler, memory": (MEMORY,), "Celery beat": (BEAT,)},
        store=STORE,
    )  # fmt: skip


def pace(sizes: Sizes) -> Scenario:
    words = ("pace", sizes.pace, sizes.seconds)
    return Scenario(
        "schedule-pace",
        f"{sizes.pace} schedules that all tick every second at the same instant, {sizes.seconds} seconds: from a tick "
        "to the start of its job. Huey has no schedules under a minute.",
        LATENESS,
        (
            *(_mainspring(store, *words) for store in ("memory", *STORES)),
            other(MEMORY, measures.apscheduler, jobstore="memory", words=words),
            other(FILE, measures.apscheduler, jobstore="sqlite", words=words),
            other(BEAT, measures.beat_pace, schedules=sizes.pace, seconds=sizes.seconds),
        ),
        {"APScheduler, SQLite": (FILE,), "Celery beat": (BEAT,)},
        store=STORE,
    )


def crowd(sizes: Sizes) -> Scenario:
    return Scenario(
        "schedule-crowd",
        f"{sizes.due} schedules are due each second, {sizes.seconds} seconds long, among few and among very many that "
        "are not: from a tick to the start of its job.",
        LATENESS,
        tuple(
            _mainspring(store, "crowd", total, sizes.due, sizes.seconds, name=f"{store}, {total:,} schedules")
            for store in STORES
            for total in (max(sizes.crowds[0], sizes.due * (sizes.seconds + 1)), *sizes.crowds[1:])
        ),
        store=STORE,
        rounds=3,
    )


def many(sizes: Sizes) -> Scenario:
    total = sizes.looks[-1]
    return Scenario(
        "schedule-many",
        f"{total:,} schedules: making them in sets of 500, a worker's look while none is due, the first page of all, a "
        "page of a search while the index of all schedules is read for the first time, reading it, the same pages with "
        "it, and the load of the next day, which the placing of a schedule without an instant of its own reads.",
        tuple(Figure(name, "ms") for name in MANY),
        tuple(_mainspring(store, "many", total, name=store) for store in STORES),
        store=STORE,
        rounds=3,
    )


def look(sizes: Sizes) -> Scenario:
    return Scenario(
        "schedule-look",
        f"What a worker's look for schedules that are due costs while none is, {sizes.calls} calls.",
        (Figure("p50", "ms"), Figure("p99", "ms")),
        tuple(
            _mainspring(store, "look", total, sizes.calls, name=f"{store}, {total:,} schedules")
            for store in STORES
            for total in sizes.looks
        ),
        store=STORE,
        rounds=3,
    )
