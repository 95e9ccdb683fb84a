"""The page of what many jobs cost, of a folder with the answers of `bench/growth`: KIND-STORE.json."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

LIMIT_MS = 50
STORES = ("SQLite", "PostgreSQL", "Redis")
Answers = dict[str, dict[str, float]]
"""For each store its figures by name."""
HEAD = """\
# Benchmarks of a store with many jobs

Written by `bench/growth table` on {today:%Y-%m-%d}, on a machine with {cores} cores, from stores that `bench/growth
fill` filled: with 5 million finished jobs of a month, 10 million waiting and 1 million scheduled ones on SQLite and
PostgreSQL (15, with the distribution's settings: 128 MB of shared buffers), a sixteenth of each on Redis.
PostgreSQL's indexes were built after the rows, those of SQLite grew with them. Each section names the command that
prints its figures as JSON; `bench/growth table FOLDER` makes this page of files such as `looks-SQLite.json`."""
LOOKS = """\
## Pages

`bench/growth looks URL 15`: filters of the page of jobs, and other pages, p50 / p99 in milliseconds of a call of the
app, pages of 50 brief jobs. Each row is one request of the dashboard: pages 2 and 3, to which its pager leads, have
rows of their own (until 2026-11-18, three pages were timed together). A row of tabs counts the jobs of each state, up
to 100; a state that a bounded number of rows does not decide has no number. Bold: p99 over 50 ms."""
AFTER = """\
### After 95,000 more jobs

The same stores after the claims and drains below: the newest 95,000 finished jobs and 35,000 newest waiting ones are
without tags, schedules and keys, so that a walk from the newest job meets none that matches. Over 50 ms then:
{over}. Those over 100 ms:"""
CLAIMS = """\
## Claims

`bench/growth claims URL 60 FEW`: p50 / p99 in milliseconds of a claim of all 20 queues and 50 tasks, beside the jobs
above and, call by call in turn, in a store with 45,000 jobs of the same queues and tasks (150 groups of queue, task and
priority). As many jobs are inserted before each claim as it takes, and completed after it. A claim of 500 is dearer
beside many on PostgreSQL because it reads up to its limit of each group, and groups beside few jobs hold less than
that: it touches 34,000 pages of its buffers and not 21,000 (hardly any are read from the disk), while SQLite stops at
the first jobs of the other groups, and Redis at some more than the share of each. Redis was measured again when it
did: in turn, the claim before that took 148 ms beside many and 56 beside few."""
DRAINS = """\
## Drains

`bench/growth drains URL 3 FEW`: jobs a second of one worker process with default settings that drains 20,000 jobs of
one queue, beside the jobs above and, in turn, beside 45,000: the median [smallest .. largest] of three rounds. Other
systems were not measured beside tables of that size."""
SCHEDULES = """\
## 100,000 schedules

`bench/growth schedules URL 100000 200`, in milliseconds: a worker's look while none is due, the pages, the outlook
(p50 / p99, and the client's CPU time of a call), and so many schedules more that are due at one instant: from that
instant until the last of their jobs has started, one worker with default settings."""
IDLE = """\
## 200 idle workers on one PostgreSQL

`python -m bench.idle_workers URL`: 200 worker processes of 500 slots each with nothing to do, over a minute."""


def main() -> None:
    """Argument: the folder."""
    folder = Path(sys.argv[1])
    sections: dict[str, Callable[[Answers], Iterator[str]]] = {
        "looks": looks, "after": after, "claims": claims, "drains": drains, "schedules": schedules,
    }  # fmt: skip
    print(HEAD.format(today=date.today(), cores=os.cpu_count()))
    for kind, section in sections.items():
        files = {store: folder / f"{kind}-{store}.json" for store in STORES}
        if found := {store: json.loads(file.read_text()) for store, file in files.items() if file.exists()}:
            print("\n" + "\n".join(section(found)))
    if (idle := folder / "idle.txt").exists():
        print(f"\n{IDLE}\n\n```\n{idle.read_text().rstrip()}\n```")


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def cell(figures: dict[str, float], name: str) -> str:
    p50, p99 = (figures.get(f"{name}: {kind}") for kind in ("p50", "p99"))
    if p50 is None or p99 is None:
        return ""
    text = f"{p50:.1f} / {p99:.1f}"
    return f"**{text}**" if p99 > LIMIT_MS else text


def names_of(found: Answers) -> list[str]:
    return list(dict.fromkeys(key.rpartition(": ")[0] for figures in found.values() for key in figures))


def slow(found: Answers) -> str:
    each = (
        f"{store} {sum(value > LIMIT_MS for key, value in figures.items() if key.endswith(': p99'))} "
        f"of {len(figures) // 2}"
        for store, figures in found.items()
    )
    return ", ".join(each)


def looks(found: Answers) -> Iterator[str]:
    yield f"{LOOKS}\n\nOver {LIMIT_MS} ms: {slow(found)}.\n"
    rows = [[look, *(cell(figures, look) for figures in found.values())] for look in names_of(found)]
    yield table(["look", *found], rows)


def after(found: Answers) -> Iterator[str]:
    yield AFTER.format(over=slow(found)) + "\n"
    names = [
        name for name in names_of(found) if any(one.get(f"{name}: p99", 0) > 2 * LIMIT_MS for one in found.values())
    ]
    yield table(["look", *found], [[name, *(cell(figures, name) for figures in found.values())] for name in names])


def claims(found: Answers) -> Iterator[str]:
    yield f"{CLAIMS}\n"
    rows = []
    for limit in (500, 1):
        for store, one in found.items():
            values = [one[f"claim of {limit}, {what}: {kind}"] for what in ("filled", "few") for kind in ("p50", "p99")]
            ratios = f"{values[0] / values[2]:.2f} / {values[1] / values[3]:.2f}"
            cells = [f"{values[n]:.1f} / {values[n + 1]:.1f}" for n in (0, 2)]
            rows.append([f"{store}, {limit} jobs", *cells, ratios])
    yield table(["claim", "beside many", "beside few", "ratio"], rows)


def drains(found: Answers) -> Iterator[str]:
    yield f"{DRAINS}\n"
    rows = []
    for store, one in found.items():
        rates = [
            f"{one[f'drain, {what}: jobs/s']:,.0f} "
            f"[{one[f'drain, {what}: min']:,.0f} .. {one[f'drain, {what}: max']:,.0f}]"
            for what in ("filled", "few")
        ]
        rows.append([store, *rates, f"{one['drain, filled: jobs/s'] / one['drain, few: jobs/s']:.2f}"])
    yield table(["store", "beside many", "beside few", "ratio"], rows)


def schedules(found: Answers) -> Iterator[str]:
    yield f"{SCHEDULES}\n"
    rows = []
    for name in names_of(found):
        pages = f"{name}: p50" in next(iter(found.values()))
        rows.append([
            name,
            *(
                f"{one[f'{name}: p50']:.2f} / {one[f'{name}: p99']:.2f}, CPU {one[f'{name}: client CPU']:.2f}"
                if pages
                else f"{one[f'{name}: started']:,.0f}"
                for one in found.values()
            ),
        ])  # fmt: skip
    yield table(["what", *found], rows)
