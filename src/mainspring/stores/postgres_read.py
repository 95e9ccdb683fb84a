"""Lists, counts and statistics out of the PostgreSQL store."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ..clock import instant, micros
from ..job import Cursor, DeadGroup, Execution, Filter, JobId, LogLine, Queue, Shown, Sort, State
from .postgres_jobs import ALL
from .postgres_pool import Session
from .rows import COLUMNS, execution_of, stored


class _Condition:
    """A filter as a condition and its values, which are bound, never pasted."""

    def __init__(self, which: Filter, now: int) -> None:
        self.parts, self.values = ["true"], list[Any]()
        self._said(which, now)

    def bind(self, value: Any, kind: str) -> str:
        self.values.append(value)
        return f"${len(self.values)}::{kind}"

    def among(self, column: str, items: Sequence[str] | None) -> None:
        if items is not None:
            self.parts.append(f"{column} = ANY({self.bind(list(items), 'text[]')})")

    def _said(self, which: Filter, now: int) -> None:
        self.among("id", which.ids)
        self.among("queue", which.queues)
        self.among("task", which.tasks)
        self.among("error", which.errors)
        self.among("schedule", which.schedules)
        if which.states is not None:
            self.among("state", sorted(stored(which)))
            self.among(_shown(self.bind(now, "bigint")), which.states)
        if which.tags:
            self.parts.append(f"tags @> {self.bind(list(which.tags), 'text[]')}")
        if which.workers is not None:
            self.parts.append("state = 'running'")
            self.among("worker", which.workers)
        if which.key_prefix is not None:
            prefix = self.bind(which.key_prefix, "text")
            self.parts.append(f"(starts_with(unique_key, {prefix}) OR starts_with(idempotency_key, {prefix}))")
        for at, sign in ((which.created_after, ">="), (which.created_before, "<=")):
            if at is not None:
                self.parts.append(f"created_at {sign} {self.bind(micros(at), 'bigint')}")

    def __str__(self) -> str:
        return " AND ".join(self.parts)


def _shown(now: str) -> str:
    """A shown state as SQL over one row."""
    return f"""CASE WHEN state <> 'pending' THEN state WHEN expires_at <= {now} THEN 'expired'
        WHEN attempt > 0 THEN 'retrying' WHEN run_at > {now} THEN 'scheduled' ELSE 'pending' END"""


# Where the jobs of each order are, and by what they are ordered before their id.
_SOURCE: dict[Sort, tuple[str, str]] = {
    "created": (ALL, ""),
    "due": ("mainspring_jobs", "run_at"),
    "finished": ("mainspring_finished", "finished_at"),
}


async def jobs(
    db: Session,
    which: Filter,
    now: int,
    limit: int,
    after: Cursor | None = None,
    newest: bool = False,
    sort: Sort = "created",
) -> list[Any]:
    condition = _Condition(which, now)
    source, column = _SOURCE[sort]
    sign, way = ("<", "DESC") if newest else (">", "ASC")
    if sort == "due":
        condition.parts.append("state = 'pending'")
    if after is not None and sort == "created":
        condition.parts.append(f"id {sign} {condition.bind(after.id, 'text')}")
    elif after is not None:
        at = condition.bind(0 if after.at is None else micros(after.at), "bigint")
        condition.parts.append(f"({column}, id) {sign} ({at}, {condition.bind(after.id, 'text')})")
    order = f"{column} {way}, id {way}" if column else f"id {way}"
    room = condition.bind(limit, "bigint")
    sql = f"SELECT {COLUMNS} FROM {source} WHERE {condition} ORDER BY {order} LIMIT {room}"
    return await db.rows(sql, *condition.values)


_RUNS = """SELECT * FROM mainspring_executions WHERE job_id = $1
    UNION ALL SELECT id, runs, attempt, ending, worker, lease, started_at, finished_at,
        coalesce(octet_length(result), 0), NULL, NULL
    FROM mainspring_finished WHERE id = $1 AND ending IS NOT NULL ORDER BY 2"""


async def executions(db: Session, job_id: JobId) -> list[Execution]:
    return [execution_of(row) for row in await db.rows(_RUNS, job_id)]


_LINES = """SELECT run, n, at, level, text FROM mainspring_logs
    WHERE job_id = $1 AND (run, n) > ($2, $3) ORDER BY run, n LIMIT $4"""


async def logs(db: Session, job_id: JobId, limit: int, after: tuple[int, int]) -> list[LogLine]:
    rows = await db.rows(_LINES, job_id, *after, limit)
    return [LogLine(run, n, instant(at), level, text) for run, n, at, level, text in rows]


# counts

_UNFINISHED = f"SELECT queue, {_shown('$1::bigint')} AS shown, count(*) FROM mainspring_jobs GROUP BY 1, 2"
_COUNTS = f"""SELECT shown, sum(size)::bigint FROM (
        SELECT shown, count AS size FROM ({_UNFINISHED}) AS unfinished
        UNION ALL SELECT state, count(*) FROM mainspring_finished GROUP BY 1) AS counted GROUP BY 1"""


async def counts(db: Session, now: int) -> dict[Shown, int]:
    return dict(await db.rows(_COUNTS, now))


_QUEUES = f"{_UNFINISHED} UNION ALL SELECT name, 'paused queue', 0 FROM mainspring_queues WHERE paused"


async def queues(db: Session, now: int) -> list[Queue]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for queue, shown, count in await db.rows(_QUEUES, now):
        found[queue][shown] = count
    return [
        Queue(
            name=name, paused="paused queue" in found[name], pending=found[name]["pending"],
            scheduled=found[name]["scheduled"], retrying=found[name]["retrying"], running=found[name]["running"],
        )
        for name in sorted(found)
    ]  # fmt: skip


_DEAD = """SELECT task, error, count(*), max(finished_at),
        (array_agg(id ORDER BY finished_at DESC, id DESC))[1]
    FROM mainspring_finished WHERE state = 'dead' AND error IS NOT NULL
    GROUP BY task, error ORDER BY 3 DESC, task, error LIMIT $1"""


async def dead(db: Session, limit: int) -> list[DeadGroup]:
    return [
        DeadGroup(task=task, error=error, count=count, newest=newest, last_at=instant(last))
        for task, error, count, last, newest in await db.rows(_DEAD, limit)
    ]


# forgetting

# Every (state, task) that has finished jobs, by hops along the index.
_GROUPS = """WITH RECURSIVE groups AS (
        (SELECT state, task FROM mainspring_finished ORDER BY state, task LIMIT 1)
        UNION ALL
        SELECT hop.* FROM groups CROSS JOIN LATERAL (SELECT state, task FROM mainspring_finished
            WHERE (state, task) > (groups.state, groups.task) ORDER BY state, task LIMIT 1) AS hop)
    SELECT state, task FROM groups"""


async def groups(db: Session) -> list[tuple[State, str]]:
    return sorted((State(state), task) for state, task in await db.rows(_GROUPS))


_SURPLUS = f"""SELECT {COLUMNS} FROM mainspring_finished WHERE state = $1 AND task = $2 AND finished_at < $3
    AND ($4::bigint = 0 OR (finished_at, id) < (SELECT finished_at, id FROM mainspring_finished
        WHERE state = $1 AND task = $2 ORDER BY finished_at DESC, id DESC OFFSET greatest($4::bigint - 1, 0) LIMIT 1))
    ORDER BY finished_at, id LIMIT $5"""


async def surplus(db: Session, state: State, task: str, keep: int, before: datetime, limit: int) -> list[Any]:
    return await db.rows(_SURPLUS, state.value, task, micros(before), keep, limit)
