"""The report: a page of docs/ for each store, and its plot."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from .bars import svg
from .harness import NOISE_LIMIT, TIMEOUT_SECONDS, Results, Scenario
from .table import tables

TURNS = f"""\
Workers and producers are processes of their own; a worker counts its jobs in a mapped file that the harness
reads from outside. The systems of a table take turns, every other round in reverse order, each time on a new
and empty store, so that what disturbs the machine disturbs all of them (stores that take long to fill are filled
once and topped up). Before a measurement the harness waits for a quiet machine, and one during which others used
more than {NOISE_LIMIT:.0%} of a core is made again, until the run has spent {TIMEOUT_SECONDS / 60:.0f} minutes
on that. With `--quick` it does neither.

A cell is the median [smallest .. largest] of all rounds. A ratio is the row's median divided by the best
median of the systems in its heading, from the same run. Absolute figures change from machine to machine;
ratios less so."""
SQLITE = """\
Mainspring runs on uvloop with `durability="full"` (WAL, `synchronous=FULL`: a job is on the disk when its
enqueue returns) and keeps history. Huey is `SqliteHuey` with results off. *No fsync* is its fastest setting
(`fsync=False`); *synced* is its default, which leaves SQLite at `synchronous=FULL`. Huey deletes a job before
running it and keeps no history: a crash loses the job. *APScheduler* is its `BackgroundScheduler` on a
`SQLAlchemyJobStore` in SQLite, in one process with its jobs: it hands a function to a thread and writes the next
tick, so a crash while the function runs loses that run, and two processes cannot share the store. *Raw SQLite* is
a plain loop over one narrow table (`bench/raw_sqlite.py`), claiming and updating in batches with nothing around
it: the limit of the store, not a job system."""
POSTGRES = """\
The server is one of the bench's own, with the distribution's settings, on the same machine and disk: `fsync`,
`full_page_writes` and `synchronous_commit` are on, and `pg_stat_statements` is loaded. Each measurement has a new
database, with statistics and a checkpoint before it is timed. A drain ends when the tables show that nothing is
left unfinished, for every system: what it has run but not yet written down does not count.

Mainspring runs on uvloop, fences every finish by a lease and keeps a row of history for each job. *PgQueuer* runs
on asyncpg and uvloop; batches of 500 are its fastest, 10 is its default. *graphile-worker* is for Node: 24 jobs at
once, a local queue of 500 and batched completion, its fastest; it deletes a job when it is done, keeps no history
and has no fence. *Chancy* runs its asyncio executor with 500 slots and eager polling, *SAQ* 20 slots,
*Procrastinate* 10, each on psycopg's C parts and uvloop. *Raw asyncpg* is a plain loop over one narrow table
(`bench/raw_postgres.py`), claiming and deleting in batches with nothing around it: the limit of the store and the
driver, not a job system. Statements of an idle worker are those the server counted; the beat's share is what a beat
costs alone, times the beats there were meanwhile. Rows in their millions are copies of one that the store wrote."""

REDIS = """\
The server is one of the bench's own, on the loopback of the same machine, in memory only: no snapshots, no append-only
file, so nothing waits for a disk. It is emptied before each measurement. A drain ends when the keys show that nothing
is left unfinished: what a system has run but not yet written down does not count. Huey is the exception, because it
pops a job before it runs it, and so loses it in a crash.

Mainspring runs on uvloop, fences every finish by a lease and keeps each job as history. *BullMQ* is for Node: 100 jobs
at once, and jobs removed when they are done. *SAQ* runs 20 slots, *arq* 100 and a look every 10 ms instead of every
500, *TaskIQ* 100 on a stream with acknowledgements, all three on uvloop. *Huey* runs 2 threads, *Dramatiq* 8 and takes
1,000 messages ahead. *Celery* is its solo pool, 64 messages ahead, without gossip, mingle and heartbeat; *RQ* is its
worker that does not fork. No system keeps results but Mainspring; all clients in Python have hiredis. *Raw* is a plain
loop over redis-py and a hash and two sorted sets (`bench/raw_redis.py`), with nothing around it: the limit of the store
and the driver, not a job system."""
SERVICE = """\
The service is one process of uvicorn (uvloop, httptools) on the loopback, started for each measurement, with sign-in
by API key as it comes; wrk runs beside it on the same machine, in one thread, and PostgreSQL too. An answer other than
2xx fails the measurement. *The handler that does nothing* is one of the same framework in the same process, with no
sign-in and no store: what is left of the machine for anything of ours. *CPU* is the time that the process had on a
core, which others disturb less than the rate. On SQLite the jobs of the lists are all finished; on PostgreSQL too."""

SCHEDULES = """\
Mainspring is one worker process with default settings (100 slots, uvloop) that fires the schedules and runs their jobs;
its stores are as on the other pages: SQLite with `synchronous=FULL`, PostgreSQL with the distribution's settings, Redis
in memory only. The schedules are in the store before the worker starts. *APScheduler* is its `BackgroundScheduler`,
jobs in its ten threads, in one process, on a job store in memory, of which nothing outlives the process, or on a
`SQLAlchemyJobStore` in SQLite; it records no runs. *Celery beat* is one beat process with a schedule of our own that
ticks on a grid (its intervals count from whenever it was started), looking every 50 ms, and a worker of the solo pool,
on Redis; a second beat would fire everything twice. Huey's periodic tasks have a minute as their shortest step, so it
cannot take part."""

FLOWS = """\
Each system runs one worker process, its producer is another, and both are on the same machine as the server; the
servers are those of the other pages: PostgreSQL with the distribution's settings, Redis in memory only, SQLite with
`synchronous=FULL`. Values are checked: a sum or a chain that comes out wrong fails the measurement.

*Mainspring* is a map over the list that a step returns, and a step that reads its results in pages; 500 slots. *BullMQ*
is a parent with children, and chains by nesting; 100 at once. *Celery* is `chord` and `chain` with results in Redis and
the solo pool. *streaq* is a task `after` all others, which fetches their results with one command a thousand (its call
for one result takes milliseconds), and `then`; 100 at once. *DBOS* is a workflow that enqueues workflows and awaits
each, and a workflow of ten steps, which are calls in one process and not jobs. *Absurd* is a task that spawns tasks in
a second queue, as it asks for, and awaits each, and a task of ten steps, which are not jobs either; it looks every
50 ms instead of every 250. *Chancy* is its workflow plugin; its jobs pass no values, so the last is told the sum."""


STEPS = """\
Each system runs one worker process, its producer is another, and both are on the same machine as the server; the
servers are those of the other pages: PostgreSQL with the distribution's settings, Redis in memory only, SQLite with
`synchronous=FULL`. Each step writes its number to a file, and takes what the one before it returned: a job that ends
with another number, and a step too many, fail the measurement. 100 jobs at once for every system, else its defaults.

*Mainspring* is a task that calls `ctx.step()`. *DBOS* is a workflow that calls a step; its queue looks every 50 ms, and
a worker goes on with what an executor of its name has left. *Absurd* is a task of named steps, which looks every 50 ms
instead of every 250. *OpenWorkflow* and *pg-workflows* are workflows of named steps in Node; *pg-workflows* marks the
run of a dead worker as failed, as it retries only what asks for it."""


@dataclass(frozen=True)
class Page:
    """Where the figures of one store go."""

    name: str
    title: str
    method: str


PAGES = {
    "SQLite": Page("benchmarks", "Benchmarks", SQLITE),
    "PostgreSQL": Page("benchmarks-postgres", "Benchmarks on PostgreSQL", POSTGRES),
    "Redis": Page("benchmarks-redis", "Benchmarks on Redis", REDIS),
    "Service": Page("benchmarks-service", "Benchmarks of the service", SERVICE),
    "Schedules": Page("benchmarks-schedules", "Benchmarks of schedules", SCHEDULES),
    "Flows": Page("benchmarks-flows", "Benchmarks of flows", FLOWS),
    "Steps": Page("benchmarks-steps", "Benchmarks of durable steps", STEPS),
}


def write(
    out: Path, store: str, scenarios: list[Scenario], results: Results, *, machine: list[str], repeat: int, command: str
) -> None:
    """The page of a store and its plot, complete, in `out`."""
    out.mkdir(parents=True, exist_ok=True)
    page = PAGES[store]
    (out / f"{page.name}.svg").write_text(svg(scenarios, results))
    when = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    parts = [
        f"# {page.title}",
        f"Written by `{command}` on {when}; {_rounds(scenarios, repeat)}. {_noise(results)}",
        f"![Medians as bars]({page.name}.svg)",
        tables(scenarios, results),
        "## Method",
        TURNS,
        page.method,
        "## Machine",
        "\n".join(f"- {line}" for line in machine),
    ]
    (out / f"{page.name}.md").write_text("\n\n".join(parts) + "\n")


def _rounds(scenarios: list[Scenario], repeat: int) -> str:
    fewer = [f"{s.repeated(repeat)} of `{s.name}`" for s in scenarios if s.repeated(repeat) < repeat]
    return f"{repeat} rounds" + (f" ({', '.join(fewer)})" if fewer else "")


def _noise(results: Results) -> str:
    if not results.noise:
        return "Nothing could be measured."
    median, worst = statistics.median(results.noise), max(results.noise)
    return f"Others used {median:.0%} of a core in the median measurement, {worst:.0%} in the worst."
