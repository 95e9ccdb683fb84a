"""The SQL of a list of jobs of one table: conditions, bounds of a walk, and the ways to a page along its indexes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ...clock import micros
from ...records.job import BRIEF_CHARACTERS, FINAL
from ...records.query import Cursor, Filter, Sort
from ..rows import COLUMNS, END_SQL, brief_columns, end_texts, prefix_end, stored_states
from .job_groups import FINISHED, GROUP, GROUP_COLUMNS, IN_OPEN_LEASE, JOBS, Table, hops, shown_sql
from .jobs import ALL_COLUMNS

# An index on a condition that leads to at most this many jobs is the first choice: these are sorted.
MAX_INDEXED_ROWS = 500
# If any index leads to at most this many jobs, these are sorted.
MAX_SORTED_ROWS = 10_000
# The limit instead of MAX_SORTED_ROWS if no completed jobs are requested: a walk past these takes longer than sorting.
MAX_FAILED_ROWS = 40_000
# The limit instead of MAX_SORTED_ROWS if the index alone answers the query.
MAX_INDEX_ONLY_ROWS = 200_000

# scheduled_at is stored only in the options; json (not jsonb) extracts it without decoding the other values.
_BRIEF_OPTIONS = """json_strip_nulls(json_build_object('tags', tags, 'schedule', schedule, 'scheduled_at',
    CASE WHEN schedule IS NOT NULL THEN options::json -> 'scheduled_at' END, 'cut', true))::text"""
# Characters are counted only if the bytes do not decide: the server knows the bytes of a text without reading it.
_IS_LONG = f"""(octet_length({{0}}) > {BRIEF_CHARACTERS}
    AND (octet_length({{0}}) > 4 * {BRIEF_CHARACTERS} OR length({{0}}) > {BRIEF_CHARACTERS}))"""
_BRIEF = brief_columns(_BRIEF_OPTIONS, _IS_LONG)
_FINAL = frozenset(state.value for state in FINAL)
_SUSPECT = "crashes >= 2 AND NOT parked"
_LATE = "expires_at IS NOT NULL AND NOT parked"
# An id begins with its time of creation: the first 10 characters count units of 4.096 s. Jobs that were stored in
# another unit than their id says have an index of their own.
_TIME = "lpad(to_hex(created_at / 1000), 12, '0')"
_OUT_OF_ORDER = f"left(id, 10) <> left({_TIME}, 8) || '-' || substr({_TIME}, 9, 1)"
_UNIT_MICROSECONDS, _MAX_UNITS = 4_096_000, 2**36
_NAMES = ("queue", "task")

Window = tuple[str | None, str | None]
"""A range of ids: from the first one, which is in it, to before the second one."""
EVERYTHING: Window = None, None
_VALUE = re.compile("@([0-9]+)@")


class PostgresJobQuery:
    """The SQL of one list of one table, and its values, which are always bound."""

    def __init__(
        self,
        table: Table,
        which: Filter,
        now: int,
        limit: int,
        after: Cursor | None,
        newest: bool,
        sort: Sort,
        brief: bool = False,
        window: Window = EVERYTHING,
    ) -> None:
        self.table: Table = table
        self._columns = _BRIEF if brief else COLUMNS
        self.which, self._values = which, list[Any]()
        self.at = {"created": "0", "due": "run_at", "finished": "finished_at"}[sort]
        self._direction, sign = ("DESC", "<") if newest else ("ASC", ">")
        self._by_id, self._limit = sort == "created", limit
        self._now, self._limit_parameter = self.bind(now, "bigint"), self.bind(limit, "bigint")
        self._equal = {
            name: f"{name} = ANY({self.bind(list(items), 'text[]')})"
            for name, items in (
                ("id", which.ids),
                ("queue", which.queues),
                ("task", which.tasks),
                ("error", which.errors),
                ("schedule", which.schedules),
            )
            if items is not None
        }
        self._states = self._possible_states()
        # Conditions that bound the walk along the order; all others follow.
        ends = zip((">=", "<"), window, strict=True)
        self._window = [f"id {sign} {self.bind(id, 'text')}" for sign, id in ends if id is not None]
        self._bounds = [*self._build_bounds(after, sign), *self._window]
        self._id_bounds = self._build_id_bounds()
        self._row_conditions = [
            *(part for name, part in self._equal.items() if name not in _NAMES),
            *self._build_conditions(),
        ]
        self._names = [part for name, part in self._equal.items() if name in _NAMES]
        # Finished jobs are in the groups of one index by task and queue, and of another one by state alone.
        self._groups_by_state = self._unnamed = table is FINISHED and not self._names
        self._conditions = [*self._names, *self._row_conditions]

    def bind(self, value: Any, kind: str) -> str:
        self._values.append(value)
        return f"@{len(self._values) - 1}@::{kind}"

    def bound(self, sql: str) -> tuple[str, list[Any]]:
        """The statement with `$1`, `$2`, … for its values, and these values."""
        used = sorted({int(number) for number in _VALUE.findall(sql)})
        numbers = {str(number): f"${n}" for n, number in enumerate(used, 1)}
        return _VALUE.sub(lambda found: numbers[found[1]], sql), [self._values[number] for number in used]

    @property
    def empty(self) -> bool:
        return not self._states or self._limit <= 0

    @property
    def _order(self) -> str:
        return f"id {self._direction}" if self._by_id else f"{self.at} {self._direction}, id {self._direction}"

    # conditions

    def _possible_states(self) -> set[str]:
        """The stored states that a matching job of this table may be in."""
        states = stored_states(self.which) & _FINAL if self.table is FINISHED else stored_states(self.which) - _FINAL
        if self.which.workers is not None:
            states &= {"running"}
        return states & {"pending"} if self.at == "run_at" else states

    def _shown_states(self) -> set[str]:
        """The requested shown states that jobs of mainspring_jobs may have."""
        shown: set[str] = set(self.which.states or ())
        shown -= _FINAL - {"expired"}
        return {"running"} if self.which.workers is not None else shown

    def _build_bounds(self, after: Cursor | None, sign: str) -> list[str]:
        parts = []
        if self.at == "run_at":
            parts.append("state = 'pending'")
        if (
            self._by_id
            and self.table is JOBS
            and self._shown_states()
            and self._shown_states() <= {"paused", "waiting", "retrying"}
        ):
            parts.append("(parked OR retried)")
        if self._shown_states() in ({"scheduled"}, {"pending"}) and self.table is JOBS:
            parts.append(f"run_at {'>' if self._shown_states() == {'scheduled'} else '<='} {self._now}")
        if after is not None and self._by_id:
            parts.append(f"id {sign} {self.bind(after.id, 'text')}")
        elif after is not None:
            at = self.bind(0 if after.at is None else micros(after.at), "bigint")
            parts.append(f"({self.at}, id) {sign} ({at}, {self.bind(after.id, 'text')})")
        return parts

    def _build_id_bounds(self) -> list[str]:
        """The filter's times of creation as bounds of the id, which hold for all jobs but those out of order."""
        after, before = self.which.created_after, self.which.created_before
        parts = []
        if after is not None and 0 < (unit := micros(after) // _UNIT_MICROSECONDS) < _MAX_UNITS:
            parts.append(f"id >= {self.bind(_first_id(unit), 'text')}")
        if before is not None and 0 <= (unit := micros(before) // _UNIT_MICROSECONDS + 1) < _MAX_UNITS:
            parts.append(f"id < {self.bind(_first_id(unit), 'text')}")
        return parts

    def _build_conditions(self) -> Iterator[str]:
        which = self.which
        if which.states is not None:
            yield f"state = ANY({self.bind(sorted(self._states), 'text[]')})"
        if which.states is not None and self.table is JOBS:
            yield f"{shown_sql(self._now)} = ANY({self.bind(list(which.states), 'text[]')})"
        if which.tags:
            yield f"tags @> {self.bind(list(which.tags), 'text[]')}"
        if which.workers is not None:
            yield f"state = 'running' AND worker = ANY({self.bind(list(which.workers), 'text[]')})"
        if which.key_prefix is not None:
            yield "(" + " OR ".join(f"({key})" for key in self._keys()) + ")"
        if which.ends is not None:
            yield f"{END_SQL} = ANY({self.bind(end_texts(which.ends), 'text[]')})"
        yield from self._created_bounds()

    def _keys(self) -> list[str]:
        prefix = self.which.key_prefix or ""
        first, last = self.bind(prefix, "text"), prefix_end(prefix)
        until = "" if last is None else f" AND {{0}} < {self.bind(last, 'text')}"
        return [f"{{0}} >= {first}{until}".format(column) for column in ("unique_key", "idempotency_key")]

    # pages

    @property
    def ordered(self) -> bool:
        """Whether the sort order itself leads to the page: there are no conditions but on the groups."""
        which = self.which
        if self.table is FINISHED and not self._by_id and self._names:
            return False
        if which.ids is not None or which.tags or which.workers is not None or which.key_prefix is not None:
            return False
        if which.errors is not None or which.schedules is not None or which.ends is not None:
            return False
        if self._by_id:
            return which.queues is None and which.tasks is None and which.states is None
        shown_as_stored = self.table is FINISHED or self._shown_states() <= {"pending", "scheduled"}
        return shown_as_stored and which.created_after is None and which.created_before is None

    @property
    def always_few(self) -> bool:
        """Whether the filter can match only few jobs: given ids, or running jobs."""
        return self.which.ids is not None or (self.table is JOBS and self._shown_states() == {"running"})

    def fills(self, rows: Sequence[Any]) -> bool:
        """Whether these rows are a full page."""
        return len(rows) == self._limit

    def size_of_walk(self, most: int) -> str:
        """The number of jobs that a walk along the order may meet, at most `most` + 1."""
        return f"SELECT count(*) FROM (SELECT FROM {self.table} WHERE {_all(self._bounds)} LIMIT {most + 1}) AS ahead"

    def nearby_page(self, reach: int) -> str:
        """The matching jobs among the next `reach` in the sort order."""
        if self._by_id:
            return self._page(self._walk(self._bounds, str(reach)), self._conditions)
        self._groups_by_state = self.table is FINISHED
        page = self._first(self._bounds, str(reach // 2), self._conditions)
        self._groups_by_state = self._unnamed
        return page

    def full_walk(self) -> str:
        """A walk along the sort order until the page is full."""
        if self._by_id:
            return self._page(self._walk([*self._bounds, *self._conditions], self._limit_parameter), [])
        # The names select groups; the same condition on each row would only mislead the planner.
        parts = [*self._bounds, *self._row_conditions]
        if self.ordered:
            return self._first(parts, self._limit_parameter, [])
        return self._page(self._groups(parts, self._limit_parameter), [])

    def _walk(self, parts: list[str], rows: str) -> list[str]:
        arms = [self._arm([*parts, *self._id_bounds], rows)]
        if not self._id_bounds:
            return arms
        # OFFSET 0 keeps the planner from walking along the order here too, where hardly any of these rows are.
        conditions = _all([*parts, *self._out_of_order_conditions()])
        other = f"SELECT {ALL_COLUMNS} FROM {self.table} WHERE {conditions} OFFSET 0"
        return [*arms, f"(SELECT * FROM ({other}) AS other ORDER BY {self._order} LIMIT {rows})"]

    def _page(self, arms: list[str], parts: list[str], head: str = "") -> str:
        head = head or ("" if self._by_id else f"WITH {self._hops()} ")
        return f"""{head}SELECT {self._columns} FROM ({" UNION ALL ".join(arms)}) AS job
            WHERE {_all(parts)} ORDER BY {self._order} LIMIT {self._limit_parameter}"""

    def _first(self, parts: list[str], rows: str, rest: list[str]) -> str:
        """The matching jobs among the first `rows` of the merged groups. A prefix of each group, from the index alone,
        yields the `edge`: up to it the groups together have `rows` jobs, so no group is read beyond it."""
        mine, way = _all([self._group, *parts]), self._direction
        share = f"(SELECT 2 * {rows} / greatest(count(*), 1) + 1 FROM groups AS one WHERE {self._requested_groups()})"
        head = f"""WITH {self._hops()}, edge AS MATERIALIZED (SELECT (SELECT heads.at FROM groups AS one
            CROSS JOIN LATERAL (
                SELECT {self.at} AS at FROM {self.table} WHERE {mine} ORDER BY {self.at} {way} LIMIT {share}) AS heads
            WHERE {self._requested_groups()} ORDER BY heads.at {way} OFFSET {rows} - 1 LIMIT 1) AS at) """
        sign, none = (">=", -(2**62)) if way == "DESC" else ("<=", 2**62)
        least = f"{self.at} {sign} coalesce(edge.at, {none})"
        arms = " UNION ALL ".join(self._groups(parts, rows, least))
        first = f"(SELECT * FROM ({arms}) AS job ORDER BY {self._order} LIMIT {rows})"
        return self._page([first], rest, head)

    def _arm(self, parts: Sequence[str], rows: str) -> str:
        return f"(SELECT {ALL_COLUMNS} FROM {self.table} WHERE {_all(parts)} ORDER BY {self._order} LIMIT {rows})"

    def _groups(self, parts: list[str], rows: str, least: str = "") -> list[str]:
        arm = self._arm([self._group, *parts, *([least] if least else [])], rows)
        edge = "CROSS JOIN edge " if least else ""
        arms = [
            f"(SELECT job.* FROM groups AS one {edge}CROSS JOIN LATERAL {arm} AS job WHERE {self._requested_groups()})"
        ]
        return arms if self.table is FINISHED else [*arms, self._arm([_SUSPECT, *self._names, *parts], rows)]

    @property
    def _group(self) -> str:
        """SQL condition that selects the jobs of the group `one`."""
        return "state = one.state" if self._groups_by_state else GROUP[self.table]

    def _hops(self) -> str:
        """The CTE of groups, from the first to the last requested name if the index begins with that column."""
        if self._groups_by_state:
            return f"groups AS (SELECT unnest({self.bind(sorted(self._states), 'text[]')}) AS state)"
        columns, when = GROUP_COLUMNS[self.table]
        names = self.which.queues if self.table is JOBS else self.which.tasks
        if names:
            lead = columns.split(", ")[0]
            when += f" AND {lead} >= {self.bind(min(names), 'text')} AND {lead} <= {self.bind(max(names), 'text')}"
        if self.table is FINISHED and self.which.queues is not None:
            # Each hop searches all partitions: only tasks are searched for, and each may have any requested group.
            queues, states = (self.bind(list(some), "text[]") for some in (self.which.queues, sorted(self._states)))
            return f"""{hops(FINISHED, "task", when, "tasks")}, groups AS (SELECT task, queue, state FROM tasks
                CROSS JOIN unnest({queues}) AS queue CROSS JOIN unnest({states}) AS state)"""
        return hops(self.table, columns, when)

    def _requested_groups(self) -> str:
        """SQL condition that selects the requested groups."""
        if self._groups_by_state:
            return "true"
        parts = [f"one.{part}" for part in self._names]
        if self.table is FINISHED and self.which.states is not None:
            parts.append(f"one.state = ANY({self.bind(sorted(self._states), 'text[]')})")
        return _all(parts)

    def _out_of_order_conditions(self) -> list[str]:
        """Conditions for the jobs of the requested times that the bounds of ids miss."""
        return [_OUT_OF_ORDER, *self._created_bounds(), f"NOT ({_all(self._id_bounds)})"]

    def _created_bounds(self) -> list[str]:
        pairs = ((self.which.created_after, ">="), (self.which.created_before, "<="))
        return [f"created_at {sign} {self.bind(micros(at), 'bigint')}" for at, sign in pairs if at is not None]

    def indexed_pages(self, *, small_only: bool) -> Iterator[tuple[str, int]]:
        """For each index that leads to all matching jobs: a statement for the page, whose last column is the number of
        jobs it led to, and the largest number with which the page is complete. With `small_only`, only cheap ones."""
        matches = _all([*self._bounds, *self._conditions])
        max_rows = MAX_INDEXED_ROWS if small_only else self._max_sorted_rows
        for arms in self._small_index_sources() if small_only else self._sources():
            columns = f"id, {self.at}::bigint AS at, {matches} AS matches"
            found = " UNION ALL ".join(
                f"(SELECT {columns} FROM {self.table} WHERE {_all([arm, *self._window])} LIMIT {max_rows + 1})"
                if isinstance(arm, str)
                else self._grouped(arm[0], columns)
                for arm in arms
            )
            # LIMIT 2 *: a job may be found twice, by its two keys.
            sql = f"""WITH {self._hops()},
                few AS MATERIALIZED (SELECT * FROM ({found}) AS found LIMIT {max_rows + 1}),
                page AS (SELECT id FROM few WHERE matches ORDER BY at {self._direction}, id {self._direction}
                    LIMIT 2 * {self._limit_parameter})
                SELECT job.*, found FROM (SELECT count(*) AS found FROM few) AS size LEFT JOIN (
                    SELECT {self._columns} FROM {self.table} WHERE id = ANY(ARRAY(SELECT id FROM page))) AS job ON true
                ORDER BY {self._order} LIMIT {self._limit_parameter}"""
            yield sql, max_rows

    @property
    def _max_sorted_rows(self) -> int:
        if self.table is FINISHED and not self._states & {"completed"}:
            return MAX_FAILED_ROWS
        index_only = self._by_id and self.table is JOBS and not self._row_conditions
        return MAX_INDEX_ONLY_ROWS if index_only else MAX_SORTED_ROWS

    def _grouped(self, more: str, columns: str) -> str:
        return f"""(SELECT job.* FROM groups AS one CROSS JOIN LATERAL (SELECT {columns} FROM {self.table}
            WHERE {_all([self._group, more, *self._window])}) AS job WHERE {self._requested_groups()})"""

    def _small_index_sources(self) -> Iterator[list[str | tuple[str]]]:
        """Conditions with an index of their own, which returns its first rows at once."""
        if self.table is JOBS and self._shown_states() == {"expired"}:
            yield list(self._special_sources())
        if self.which.key_prefix is not None:
            yield list(self._keys())
        for name in ("schedule", "error"):
            if name in self._equal:
                yield [self._equal[name]]

    def _sources(self) -> Iterator[list[str | tuple[str]]]:
        """For each index that leads to all matching jobs, the conditions along it; a tuple is for each group."""
        which = self.which
        if which.ids is not None:
            yield [self._equal["id"]]
        if self.table is JOBS and (arms := self._special_sources()):
            yield list(arms)
        yield from self._small_index_sources()
        scheduled = self._shown_states() == {"scheduled"} and self.table is JOBS
        due = f"run_at > {self._now}" if scheduled else "true"
        rest = [] if self.table is FINISHED else ["parked", _SUSPECT]
        groups: list[str | tuple[str]] = [(due,), *(_all([part, *self._names]) for part in rest)]
        if self._names:
            yield groups
        failed = self.table is FINISHED and not self._states & {"completed"}
        if failed and not self._names:
            yield groups
        if which.tags:  # a bitmap, complete before the first row, yet faster than all jobs of a final state
            yield [f"tags @> {self.bind(list(which.tags), 'text[]')}"]
        if not self._names and (scheduled or (self.table is FINISHED and which.states is not None and not failed)):
            yield groups
        if self._id_bounds:
            yield [_all([*self._id_bounds, *self._created_bounds()]), _all(self._out_of_order_conditions())]

    def _special_sources(self) -> list[str]:
        """The conditions of special indexes for the requested states; empty if these do not cover them."""
        conditions = {
            "running": IN_OPEN_LEASE,
            "paused": "parked",
            "waiting": "parked",
            "retrying": "retried",
            "expired": f"{_LATE} AND expires_at <= {self._now}",
        }
        shown = self._shown_states()
        return sorted({conditions[state] for state in shown}) if shown <= set(conditions) else []


def _first_id(unit: int) -> str:
    return f"{unit >> 4:08x}-{unit & 15:x}"


def _all(parts: Sequence[str]) -> str:
    return " AND ".join(parts) or "true"
