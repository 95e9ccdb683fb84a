"""What looking costs: lists and statistics of a store that remembers as many finished jobs as the caller asks for."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

from meter import answer, percentile

from mainspring import Filter, Mainspring

PATH = f"{os.environ['BENCH_HOME']}/insight.db"
STORE = os.environ.get("BENCH_STORE")
BUDGET = 20.0  # seconds for all calls of one kind
TASKS, QUEUES = 20, 5
# As the store writes them, without the days it would take to run them: one in a hundred is dead.
FILL = f"""
INSERT INTO mainspring_jobs (id, queue, task, rank, state, run_at, created_at, attempt, runs, started_at, finished_at,
    ending, options, payload, result, failure, error, lease, worker)
WITH RECURSIVE made (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM made WHERE i < :jobs - 1)
SELECT printf('01990000-%04x-7%03x-8000-%012x', i >> 12, i & 4095, i), 'queue' || (i % {QUEUES}),
    'task' || (i % {TASKS}),
    0, iif(i % 100 = 7, 'dead', 'completed'), :now - (:jobs - i) * 1000, :now - (:jobs - i) * 1000, 1, 1,
    :now - (:jobs - i) * 1000, :now - (:jobs - i) * 1000 + 5000, iif(i % 100 = 7, 'failed', 'completed'), '{{}}',
    '{{"i": 1}}', '1', iif(i % 100 = 7, '{{"type": "ValueError", "message": "no"}}', NULL),
    iif(i % 100 = 7, 'ValueError: no', NULL), 'lease', 'worker'
FROM made"""
TALLY = """INSERT INTO mainspring_tallies
WITH RECURSIVE past (k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM past WHERE k < :spans - 1),
    tasks (t) AS (SELECT 0 UNION ALL SELECT t + 1 FROM tasks WHERE t < :tasks - 1)
SELECT :span, (:now / :size - k) * :size, 'queue' || (t % 5), 'task' || t,
    '{"endings": {"completed": 990, "failed": 10}, "took": 5000000, "last": 1, "errors": {"ValueError: no": 10},
    "spread": {"50": 100, "51": 300, "52": 300, "53": 200, "55": 50, "60": 40, "66": 8, "70": 2}}'
FROM past CROSS JOIN tasks"""


async def counts(app: Mainspring) -> object:
    return await (await app.connect()).overview(now=app.clock.now())


LOOKS: dict[str, Callable[[Mainspring], Awaitable[object]]] = {
    "stats, an hour": lambda app: app.stats(),
    "stats, a day": lambda app: app.stats(timedelta(days=1)),
    "stats, 30 days": lambda app: app.stats(timedelta(days=30)),
    "newest": lambda app: app.jobs.list(),
    "completed": lambda app: app.jobs.list(Filter(states=("completed",))),
    "dead": lambda app: app.dead.list(),
    "dead, grouped": lambda app: app.dead.groups(),
    "one task": lambda app: app.jobs.list(Filter(tasks=("task3",))),
    "one queue": lambda app: app.jobs.list(Filter(queues=("queue3",))),
    "a tag nobody has": lambda app: app.jobs.list(Filter(tags=("none",))),
    "a rare tag": lambda app: app.jobs.list(Filter(tags=("rare",))),
    "a rare queue": lambda app: app.jobs.list(Filter(queues=("rare",))),
    "a rare task": lambda app: app.jobs.list(Filter(tasks=("rare",))),
    "a rare task's dead": lambda app: app.dead.list(Filter(tasks=("rare",))),
    "pending": lambda app: app.jobs.list(Filter(states=("pending",))),
    "scheduled": lambda app: app.jobs.list(Filter(states=("scheduled",))),
    "next due": lambda app: app.jobs.list(sort="due", newest=False),
    "last finished": lambda app: app.jobs.list(sort="finished"),
    "queues": lambda app: app.queues.list(),
    "counts": counts,
}


def fill(jobs: int) -> None:
    db = sqlite3.connect(PATH)
    if not db.execute("SELECT 1 FROM mainspring_jobs LIMIT 1").fetchone():
        now = time.time_ns() // 1000
        db.execute(FILL, {"jobs": jobs, "now": now})
        db.execute(
            "INSERT INTO mainspring_dead SELECT task, error, finished_at, id FROM mainspring_jobs WHERE error <> ''"
        )
        db.execute("INSERT INTO mainspring_counts SELECT state, count(*) FROM mainspring_jobs GROUP BY state")
        for span, size, spans in (("minute", 60, 180), ("hour", 3600, 96), ("day", 86_400, 400)):
            values = {"span": span, "size": size * 1_000_000, "spans": spans, "now": now, "tasks": TASKS}
            db.execute(TALLY, values)
        db.commit()
    db.close()


async def measure(jobs: int, look: str, calls: int) -> None:
    """With a store given, it is as full as it shall be."""
    app = Mainspring(STORE or f"sqlite:///{PATH}")
    async with app:
        if STORE is None:
            fill(jobs)
        await LOOKS[look](app)
        taken: list[float] = []
        while len(taken) < calls and sum(taken) < 1000 * BUDGET:
            start = time.perf_counter()
            await LOOKS[look](app)
            taken.append(1000 * (time.perf_counter() - start))
    answer(p50=percentile(taken, 0.50), p99=percentile(taken, 0.99))


def main() -> None:
    jobs, look, calls = sys.argv[1:]
    asyncio.run(measure(int(jobs), look, int(calls)))
