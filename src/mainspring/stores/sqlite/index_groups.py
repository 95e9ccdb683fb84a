"""Groups of jobs in the SQLite store's indexes: ready by queue, task and rank; ended by state, queue and task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class IndexGroups(NamedTuple):
    """Groups of jobs with equal values in the first columns of an index, which sorts each group by its next column."""

    name: str
    along: str
    columns: tuple[str, ...]
    when: str

    @property
    def table(self) -> str:
        return f"mainspring_jobs INDEXED BY {self.along}"

    @property
    def one(self) -> str:
        """SQL condition that selects the jobs of one group."""
        return " AND ".join([self.when, *(f"{name} = of_{name}" for name in self.columns)])

    @property
    def hops(self) -> str:
        """A recursive CTE of all groups, by hops along the index: the cost is the number of groups, not of jobs. A
        row-value comparison would seek by the first column alone, and scan."""
        names = ", ".join(self.columns)
        seek = f"(SELECT n FROM {self.table} WHERE {self.when} AND {{}} ORDER BY {names} LIMIT 1)"
        next_hops = [
            seek.format(" AND ".join([*(f"{name} = of_{name}" for name in self.columns[:n]), f"{last} > of_{last}"]))
            for n, last in reversed(list(enumerate(self.columns)))
        ]
        return f"""{self.name}_hops ({", ".join(f"of_{name}" for name in self.columns)}) AS (
            SELECT {names} FROM mainspring_jobs WHERE n = {seek.format("1")}
            UNION ALL
            SELECT {names} FROM {self.name}_hops CROSS JOIN mainspring_jobs ON n = coalesce({", ".join(next_hops)}))"""


READY = IndexGroups("ready", "mainspring_jobs_ready", ("queue", "task", "rank"), "state = 'pending' AND crashes < 2")
ENDED = IndexGroups("ended", "mainspring_jobs_finished", ("state", "queue", "task"), "finished_at IS NOT NULL")


def ended_groups(states: Sequence[str]) -> IndexGroups:
    """The groups of finished jobs in these states. Of one state, fewer hops lead to them."""
    if len(states) != 1:
        return ENDED
    return ENDED._replace(columns=ENDED.columns[1:], when=f"{ENDED.when} AND state = '{states[0]}'")


RETRIED = f"""mainspring_jobs INDEXED BY mainspring_jobs_retried WHERE {READY.when} AND attempt > 0"""
ENDED_GROUPS = f"WITH RECURSIVE {ENDED.hops} SELECT of_state, of_queue, of_task FROM ended_hops"
