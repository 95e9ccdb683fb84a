"""The report: docs/benchmarks.md and its plot."""

from __future__ import annotations

import statistics
from datetime import UTC, datetime
from pathlib import Path

from .bars import svg
from .harness import NOISE_LIMIT, PATIENCE, Results, Scenario
from .table import tables

METHOD = f"""\
Workers and producers are processes of their own; a worker counts its jobs in a mapped file that the harness
reads from outside. The systems of a table take turns, every other round in reverse order, each time on a new
and empty store, so that what disturbs the machine disturbs all of them (the files of `claim` and `due` are built once
and topped up). Before a measurement the harness waits for a quiet machine, and one during which others used
more than {NOISE_LIMIT:.0%} of a core is made again, until the run has spent {PATIENCE / 60:.0f} minutes on that. With
`--quick` it does neither.

A cell is the median [smallest .. largest] of all rounds. A ratio is the row's median divided by the best
median of the systems in its heading, from the same run. Absolute figures change from machine to machine;
ratios less so.

Mainspring runs on uvloop with `durability="full"` (WAL, `synchronous=FULL`: a job is on the disk when its
enqueue returns) and keeps history. Huey is `SqliteHuey` with results off. *No fsync* is its fastest setting
(`fsync=False`); *synced* is its default, which leaves SQLite at `synchronous=FULL`. Huey deletes a job before
running it and keeps no history: a crash loses the job. *APScheduler* is its `BackgroundScheduler` on a
`SQLAlchemyJobStore` in SQLite, in one process with its jobs: it hands a function to a thread and writes the next
tick, so a crash while the function runs loses that run, and two processes cannot share the store. *Raw SQLite* is
a plain loop over one narrow table (`bench/raw_sqlite.py`), claiming and updating in batches with nothing around
it: the limit of the store, not a job system."""


def write(
    out: Path, scenarios: list[Scenario], results: Results, *, machine: list[str], repeat: int, command: str
) -> None:
    """benchmarks.md and benchmarks.svg, complete, in `out`."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "benchmarks.svg").write_text(svg(scenarios, results))
    when = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    parts = [
        "# Benchmarks",
        f"Written by `{command}` on {when}; {repeat} rounds. {_noise(results)}",
        "![Medians as bars](benchmarks.svg)",
        tables(scenarios, results),
        "## Method",
        METHOD,
        "## Machine",
        "\n".join(f"- {line}" for line in machine),
    ]
    (out / "benchmarks.md").write_text("\n\n".join(parts) + "\n")


def _noise(results: Results) -> str:
    if not results.noise:
        return "Nothing could be measured."
    median, worst = statistics.median(results.noise), max(results.noise)
    return f"Others used {median:.0%} of a core in the median measurement, {worst:.0%} in the worst."
