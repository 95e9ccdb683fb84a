"""The page of what many jobs cost: a table of looks from answers of `bench/growth looks`, one file for each store."""

from __future__ import annotations

import json
import os
import sys
from datetime import date
from pathlib import Path

LIMIT_MS = 50
HEAD = """\
# Benchmarks of a store with many jobs

Written by `bench/growth table` on {today:%Y-%m-%d}, on a machine with {cores} cores, from stores that `bench/growth
fill` filled: with 5 million finished jobs of a month, 10 million waiting and 1 million scheduled ones on SQLite and
PostgreSQL, a sixteenth of each on Redis. Filters of the page of jobs, and other pages: p50 / p99 in milliseconds of a
call of the app, pages of 50 brief jobs. Each row is one request of the dashboard: pages 2 and 3, to which its pager
leads, have rows of their own (until 2026-11-18, three pages were timed together). A row of tabs counts the jobs of all
states. Bold: p99 over 50 ms."""


def cell(figures: dict[str, float], name: str) -> str:
    p50, p99 = (figures.get(f"{name}: {kind}") for kind in ("p50", "p99"))
    if p50 is None or p99 is None:
        return ""
    text = f"{p50:.1f} / {p99:.1f}"
    return f"**{text}**" if p99 > LIMIT_MS else text


def main() -> None:
    """Arguments: NAME=FILE of each store."""
    files = [argument.partition("=") for argument in sys.argv[1:]]
    stores = {name: json.loads(Path(file).read_text()) for name, _, file in files}
    looks = dict.fromkeys(key.rpartition(": ")[0] for figures in stores.values() for key in figures)
    rows = [["look", *stores], ["---"] * (len(stores) + 1)]
    rows += [[look, *(cell(figures, look) for figures in stores.values())] for look in looks]
    slow = {
        name: sum(value > LIMIT_MS for key, value in figures.items() if key.endswith(": p99"))
        for name, figures in stores.items()
    }
    over = ", ".join(f"{name} {count} of {len(stores[name]) // 2}" for name, count in slow.items())
    head = HEAD.format(today=date.today(), cores=os.cpu_count())
    print(f"{head}\n\nLooks over {LIMIT_MS} ms: {over}.\n")
    print("\n".join(f"| {' | '.join(row)} |" for row in rows))
