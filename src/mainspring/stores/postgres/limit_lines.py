"""Keeps the groups and lines of jobs with a limit key, inside a transaction. The statements are in limits.sql.

A group counts its running jobs, in the transaction that changes such a job. A line is the pending jobs of one group,
queue, task and rank; its row has what a claim needs to know before it reads the jobs. Groups are locked after jobs, in
order of their keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ...clock import micros
from ...records.job import POISON_SUSPECT_CRASHES, Job, State
from ..rows import CLAIMED_COLUMNS
from ..rules.limits import MAX_AHEAD_MICROS
from ..rules.loaded import ChangedJob
from .pool import BIGINT_ARRAY, Session
from .statement_file import read_statements

# Groups that a claim looks at beside those that it takes from.
MAX_LOOKED_GROUPS = 1000
# Groups of a limit that are counted.
MAX_COUNTED_GROUPS = 10_000
# Lines of each limit, queue, task and rank that are looked at for the probe of a circuit.
MAX_PROBE_LINES = 10

_CLAIM = read_statements("claim.sql").fragments
SQL = read_statements(
    "limits.sql",
    ahead=MAX_AHEAD_MICROS,
    bigints=BIGINT_ARRAY,
    booleans="text[]::boolean[]",
    claimed_columns=CLAIMED_COLUMNS,
    line_kinds=_CLAIM["line_kinds"],
    served=_CLAIM["served"],
    max_looked=MAX_LOOKED_GROUPS,
    max_probe_lines=MAX_PROBE_LINES,
    max_counted=MAX_COUNTED_GROUPS,
)
_ADD_GROUPS = SQL.statement("add_groups")
_ADD_LINES = SQL.statement("add_lines")
_GIVE_BACK = SQL.statement("give_back")
_LOOK_AGAIN = SQL.statement("look_again")
_LOCK_GROUPS = SQL.statement("lock_groups")

LineKey = tuple[str, str, str, int]
"""Limit key, queue, task and rank."""


def line_of(job: Job) -> LineKey | None:
    """The line of a pending job; None if it is in none."""
    if job.limit_key is None or job.state is not State.PENDING or job.crashes >= POISON_SUSPECT_CRASHES:
        return None
    return job.limit_key, job.queue, job.task, -job.priority


def group_of_run(job: Job | None) -> str | None:
    """The limit key of a running job."""
    return job.limit_key if job is not None and job.state is State.RUNNING else None


async def write_limit_changes(db: Session, changed: Sequence[ChangedJob]) -> None:
    """Counts the runs of these jobs that have ended, and adds those that are pending now to their lines."""
    ended, heads, gone = Counter[str](), dict[LineKey, tuple[int, str]](), list[tuple[str, str]]()
    for id, old, new in changed:
        before, after = group_of_run(old), group_of_run(new)
        if before is not None and before != after:
            ended[before] += 1
        was, line = _place(old), _place(new)
        if line is not None and line != was:
            heads[line[0]] = min(line[1:], heads.get(line[0], line[1:]))
        if was is not None and line != was:
            gone.append((was[0][0], id))
    suspects = {key for _, old, new in changed if (key := _group_of_suspect(new)) is not None}
    keys = {*ended, *(key for key, *_ in heads), *(key for key, _ in gone)}
    if len(keys) > 1 and bool(ended) + bool(heads) + bool(gone) > 1:
        await db.run(_LOCK_GROUPS, sorted(keys))
    if ended:
        await give_back(db, ended)
    if heads:
        await _add_lines(db, heads)
    if suspects:
        await add_groups(db, sorted(suspects))
    if gone:
        await db.run(_LOOK_AGAIN, *columns(sorted(gone)))


def _place(job: Job | None) -> tuple[LineKey, int, str] | None:
    """The line of a pending job, and its place there."""
    if job is None or job.limit_key is None or (line := line_of(job)) is None:
        return None
    return line, micros(job.run_at), job.id


def _group_of_suspect(job: Job | None) -> str | None:
    if job is None or job.state is not State.PENDING or job.crashes < POISON_SUSPECT_CRASHES:
        return None
    return job.limit_key


async def add_groups(db: Session, keys: Sequence[str]) -> None:
    """Adds the groups of suspects, which have no line."""
    await db.run(_ADD_GROUPS, list(keys))


def give_back_parts(keys: str, counts: str) -> str:
    """_GIVE_BACK as parts of a WITH, with these parameters."""
    locked, _, update = _GIVE_BACK.removeprefix("WITH ").partition(")\nUPDATE ")
    text = f"{locked}),\n    given_back AS (UPDATE {update})"
    return text.replace("$1", keys).replace("$2", counts)


async def give_back(db: Session, ended: Mapping[str, int]) -> None:
    """Counts ended runs by limit key."""
    keys = sorted(ended)
    await db.run(_GIVE_BACK, keys, [str(ended[key]) for key in keys])


async def _add_lines(db: Session, heads: Mapping[LineKey, tuple[int, str]]) -> None:
    rows = [(*line[:3], str(line[3]), str(run_at), id) for line, (run_at, id) in sorted(heads.items())]
    await db.run(_ADD_LINES, *columns(rows))


def columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
