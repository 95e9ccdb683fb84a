"""Lists of jobs out of the PostgreSQL store: a page each, however full the tables are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from ...clock import micros
from ...records.job import BRIEF_CHARACTERS, FINAL
from ...records.query import Cursor, Filter, Sort
from ..rows import COLUMNS, END_SQL, brief_columns, end_texts, prefix_end, stored_states
from .jobs import ALL_COLUMNS
from .pool import Session

Table = Literal["mainspring_jobs", "mainspring_finished"]
JOBS: Table = "mainspring_jobs"
FINISHED: Table = "mainspring_finished"

# Some ways to a page are tried. Where an index on what was asked leads to hardly any, SOON at most, these are put in
# order. Where many match, they are among the NEAR next ones in the order asked for; where some of a page are, the FAR
# next ones are looked at. Where few match, an index leads to all of them, FEW at most. What is left goes along the
# order until the page is full.
MAX_INDEXED_ROWS, NEAR_ROWS, FAR_ROWS, MAX_SORTED_ROWS = 500, 5_000, 20_000, 10_000
# Of an index that tells all there is to know, without a look at the rows, more can be read.
MAX_INDEX_ONLY_ROWS = 200_000

# The tick alone is among the options only: as it is written there, without a look at the rest as values.
_BRIEF_OPTIONS = """json_strip_nulls(json_build_object('tags', tags, 'schedule', schedule, 'scheduled_at',
    CASE WHEN schedule IS NOT NULL THEN options::json -> 'scheduled_at' END, 'cut', true))::text"""
# Characters are counted only where bytes do not tell: the server knows those of a text without reading it.
_IS_LONG = f"""(octet_length({{0}}) > {BRIEF_CHARACTERS}
    AND (octet_length({{0}}) > 4 * {BRIEF_CHARACTERS} OR length({{0}}) > {BRIEF_CHARACTERS}))"""
_BRIEF = brief_columns(_BRIEF_OPTIONS, _IS_LONG)
_FINAL = frozenset(state.value for state in FINAL)
READY = "crashes < 2 AND NOT parked"
_SUSPECT = "crashes >= 2 AND NOT parked"
_LATE = "expires_at IS NOT NULL AND NOT parked"
# The id of a job begins with the time at which it was made: its first 10 characters count units of 4 s. In an index of
# their own are the jobs that were not stored in the unit their id says.
_TIME = "lpad(to_hex(created_at / 1000), 12, '0')"
_OUT_OF_ORDER = f"left(id, 10) <> left({_TIME}, 8) || '-' || substr({_TIME}, 9, 1)"
_UNIT_MICROSECONDS, _MAX_UNITS = 4_096_000, 2**36
_NAMES = ("queue", "task")
_VALUE = re.compile("@([0-9]+)@")


def hops(table: Table, columns: str, when: str = "true") -> str:
    """Every group of jobs with the same values, by hops along the index: the cost is the number of groups."""
    here = ", ".join(f"groups.{name}" for name in columns.split(", "))
    return f"""RECURSIVE groups AS (
        (SELECT {columns} FROM {table} WHERE {when} ORDER BY {columns} LIMIT 1)
        UNION ALL
        SELECT hop.* FROM groups CROSS JOIN LATERAL (SELECT {columns} FROM {table}
            WHERE {when} AND ({columns}) > ({here}) ORDER BY {columns} LIMIT 1) AS hop)"""


_COLUMNS = {JOBS: ("queue, task, rank", READY), FINISHED: ("task, queue, state", "true")}
GROUPS = {JOBS: hops(JOBS, *_COLUMNS[JOBS]), FINISHED: hops(FINISHED, *_COLUMNS[FINISHED])}
GROUP = {
    JOBS: f"{READY} AND queue = one.queue AND task = one.task AND rank = one.rank",
    FINISHED: "task = one.task AND queue = one.queue AND state = one.state",
}
IN_OPEN_LEASE = "id = ANY(ARRAY(SELECT unnest(ids) FROM mainspring_leases))"


def shown_sql(now: str) -> str:
    """A shown state as SQL over one row."""
    return f"""CASE WHEN state <> 'pending' THEN state WHEN expires_at <= {now} THEN 'expired'
        WHEN attempt > 0 THEN 'retrying' WHEN run_at > {now} THEN 'scheduled' ELSE 'pending' END"""


class _JobQuery:
    """One list of one table, as SQL and its values, which are bound, never pasted."""

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
    ) -> None:
        self.table: Table = table
        self._columns = _BRIEF if brief else COLUMNS
        self.which, self._values = which, list[Any]()
        self.at = {"created": "0", "due": "run_at", "finished": "finished_at"}[sort]
        self._way, sign = ("DESC", "<") if newest else ("ASC", ">")
        self._by_id, self._limit = sort == "created", limit
        self._now, self._room = self.bind(now, "bigint"), self.bind(limit, "bigint")
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
        self._states = self._kept()
        # What bounds the walk along the order, and what else has to hold.
        self._bounds = self._ahead(after, sign)
        self._made = self._created()
        self._more = [*(part for name, part in self._equal.items() if name not in _NAMES), *self._said()]
        self._names = [part for name, part in self._equal.items() if name in _NAMES]
        self._rest = [*self._names, *self._more]

    def bind(self, value: Any, kind: str) -> str:
        self._values.append(value)
        return f"@{len(self._values) - 1}@::{kind}"

    def bound(self, sql: str) -> tuple[str, list[Any]]:
        """The statement with the values that it names, as PostgreSQL wants them: numbered without a gap."""
        used = sorted({int(number) for number in _VALUE.findall(sql)})
        numbers = {str(number): f"${n}" for n, number in enumerate(used, 1)}
        return _VALUE.sub(lambda found: numbers[found[1]], sql), [self._values[number] for number in used]

    @property
    def empty(self) -> bool:
        return not self._states or self._limit <= 0

    @property
    def _order(self) -> str:
        return f"id {self._way}" if self._by_id else f"{self.at} {self._way}, id {self._way}"

    # conditions

    def _kept(self) -> set[str]:
        """The states, as they are kept, that a job of this table may be in."""
        states = stored_states(self.which) & _FINAL if self.table is FINISHED else stored_states(self.which) - _FINAL
        if self.which.workers is not None:
            states &= {"running"}
        return states & {"pending"} if self.at == "run_at" else states

    def _shown(self) -> set[str]:
        """The states, as they are shown, that were asked for and may be in the table of what is not final."""
        shown: set[str] = set(self.which.states or ())
        shown -= _FINAL - {"expired"}
        return {"running"} if self.which.workers is not None else shown

    def _ahead(self, after: Cursor | None, sign: str) -> list[str]:
        parts = []
        if self.at == "run_at":
            parts.append("state = 'pending'")
        if self._by_id and self.table is JOBS and self._shown() and self._shown() <= {"paused", "waiting", "retrying"}:
            parts.append("(parked OR retried)")
        if self._shown() in ({"scheduled"}, {"pending"}) and self.table is JOBS:
            parts.append(f"run_at {'>' if self._shown() == {'scheduled'} else '<='} {self._now}")
        if after is not None and self._by_id:
            parts.append(f"id {sign} {self.bind(after.id, 'text')}")
        elif after is not None:
            at = self.bind(0 if after.at is None else micros(after.at), "bigint")
            parts.append(f"({self.at}, id) {sign} ({at}, {self.bind(after.id, 'text')})")
        return parts

    def _created(self) -> list[str]:
        """When it was made, as bounds of its id."""
        after, before = self.which.created_after, self.which.created_before
        parts = []
        if after is not None and 0 < (unit := micros(after) // _UNIT_MICROSECONDS) < _MAX_UNITS:
            parts.append(f"id >= {self.bind(_first_id(unit), 'text')}")
        if before is not None and 0 <= (unit := micros(before) // _UNIT_MICROSECONDS + 1) < _MAX_UNITS:
            parts.append(f"id < {self.bind(_first_id(unit), 'text')}")
        return parts

    def _said(self) -> Iterator[str]:
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
        yield from self._times()

    def _keys(self) -> list[str]:
        prefix = self.which.key_prefix or ""
        first, last = self.bind(prefix, "text"), prefix_end(prefix)
        until = "" if last is None else f" AND {{0}} < {self.bind(last, 'text')}"
        return [f"{{0}} >= {first}{until}".format(column) for column in ("unique_key", "idempotency_key")]

    # ways

    @property
    def ordered(self) -> bool:
        """Whether the order itself leads to a page, as nothing else was asked for than what divides it."""
        which = self.which
        if which.ids is not None or which.tags or which.workers is not None or which.key_prefix is not None:
            return False
        if which.errors is not None or which.schedules is not None or which.ends is not None:
            return False
        if self._by_id:
            return which.queues is None and which.tasks is None and which.states is None
        plain = self.table is FINISHED or self._shown() <= {"pending", "scheduled"}
        return plain and which.created_after is None and which.created_before is None

    @property
    def sure(self) -> bool:
        """Whether what was asked for is few by its nature."""
        return self.which.ids is not None or (self.table is JOBS and self._shown() == {"running"})

    def near(self, reach: int) -> str:
        if self._by_id:
            return self._page(self._walk(self._bounds, str(reach)), self._rest)
        return self._first(self._bounds, str(reach // 2), self._rest)

    def whole(self) -> str:
        if self._by_id:
            return self._page(self._walk([*self._bounds, *self._rest], self._room), [])
        # Groups are chosen by name, once; said again of each row it would only mislead the planner.
        parts = [*self._bounds, *self._more]
        return self._first(parts, self._room, []) if self.ordered else self._page(self._groups(parts, self._room), [])

    def _walk(self, parts: list[str], room: str) -> list[str]:
        arms = [self._arm([*parts, *self._made], room)]
        if not self._made:
            return arms
        # Fenced off: else the planner walks along the order here, too, and meets hardly any of these.
        other = f"SELECT {ALL_COLUMNS} FROM {self.table} WHERE {_all([*parts, *self._other()])} OFFSET 0"
        return [*arms, f"(SELECT * FROM ({other}) AS other ORDER BY {self._order} LIMIT {room})"]

    def _page(self, arms: list[str], parts: list[str], head: str = "") -> str:
        head = head or ("" if self._by_id else f"WITH {self._hops()} ")
        return f"""{head}SELECT {self._columns} FROM ({" UNION ALL ".join(arms)}) AS job
            WHERE {_all(parts)} ORDER BY {self._order} LIMIT {self._room}"""

    def _first(self, parts: list[str], room: str, rest: list[str]) -> str:
        """Of the first `room` of all groups together those that match. Of each group a share of them is looked at in
        the index alone: where so many of these end, all groups together have as many, and none is read beyond."""
        mine, way = _all([GROUP[self.table], *parts]), self._way
        share = f"(SELECT 2 * {room} / greatest(count(*), 1) + 1 FROM groups AS one WHERE {self._named()})"
        head = f"""WITH {self._hops()}, edge AS MATERIALIZED (SELECT (SELECT heads.at FROM groups AS one
            CROSS JOIN LATERAL (
                SELECT {self.at} AS at FROM {self.table} WHERE {mine} ORDER BY {self.at} {way} LIMIT {share}) AS heads
            WHERE {self._named()} ORDER BY heads.at {way} OFFSET {room} - 1 LIMIT 1) AS at) """
        sign, none = (">=", -(2**62)) if way == "DESC" else ("<=", 2**62)
        least = f"{self.at} {sign} coalesce(edge.at, {none})"
        arms = " UNION ALL ".join(self._groups(parts, room, least))
        first = f"(SELECT * FROM ({arms}) AS job ORDER BY {self._order} LIMIT {room})"
        return self._page([first], rest, head)

    def _arm(self, parts: Sequence[str], room: str) -> str:
        return f"(SELECT {ALL_COLUMNS} FROM {self.table} WHERE {_all(parts)} ORDER BY {self._order} LIMIT {room})"

    def _groups(self, parts: list[str], room: str, least: str = "") -> list[str]:
        arm = self._arm([GROUP[self.table], *parts, *([least] if least else [])], room)
        edge = "CROSS JOIN edge " if least else ""
        arms = [f"(SELECT job.* FROM groups AS one {edge}CROSS JOIN LATERAL {arm} AS job WHERE {self._named()})"]
        return arms if self.table is FINISHED else [*arms, self._arm([_SUSPECT, *self._names, *parts], room)]

    def _hops(self) -> str:
        """The groups, but for those before and behind the names asked for, as far as the index is ordered by them."""
        columns, when = _COLUMNS[self.table]
        names = self.which.queues if self.table is JOBS else self.which.tasks
        if names:
            lead = columns.split(", ")[0]
            when += f" AND {lead} >= {self.bind(min(names), 'text')} AND {lead} <= {self.bind(max(names), 'text')}"
        return hops(self.table, columns, when)

    def _named(self) -> str:
        """Which groups are asked for."""
        parts = [f"one.{part}" for part in self._names]
        if self.table is FINISHED and self.which.states is not None:
            parts.append(f"one.state = ANY({self.bind(sorted(self._states), 'text[]')})")
        return _all(parts)

    def _other(self) -> list[str]:
        """The jobs made at the time asked for whose id does not say so."""
        return [_OUT_OF_ORDER, *self._times(), f"NOT ({_all(self._made)})"]

    def _times(self) -> list[str]:
        pairs = ((self.which.created_after, ">="), (self.which.created_before, "<="))
        return [f"created_at {sign} {self.bind(micros(at), 'bigint')}" for at, sign in pairs if at is not None]

    def few(self, *, soon: bool) -> Iterator[tuple[str, int]]:
        """For each index that leads to all that match, a statement: their page, and how many the index led to; it
        stands if these are no more than the number beside it, which is small for an answer `soon`."""
        fits = _all([*self._bounds, *self._rest])
        # A job may be in two places of an index, and so twice among the few: by its two keys.
        enough = (
            MAX_INDEXED_ROWS
            if soon
            else MAX_INDEX_ONLY_ROWS
            if self._by_id and self.table is JOBS and not self._more
            else MAX_SORTED_ROWS
        )
        for arms in self._led() if soon else self._sources():
            found = " UNION ALL ".join(
                f"(SELECT id, {self.at}::bigint AS at, {fits} AS fits FROM {self.table} WHERE {arm} LIMIT {enough + 1})"
                if isinstance(arm, str)
                else self._grouped(arm[0], fits)
                for arm in arms
            )
            sql = f"""WITH {self._hops()},
                few AS MATERIALIZED (SELECT * FROM ({found}) AS found LIMIT {enough + 1}),
                page AS (SELECT id FROM few WHERE fits ORDER BY at {self._way}, id {self._way} LIMIT 2 * {self._room})
                SELECT job.*, found FROM (SELECT count(*) AS found FROM few) AS size LEFT JOIN (
                    SELECT {self._columns} FROM {self.table} WHERE id = ANY(ARRAY(SELECT id FROM page))) AS job ON true
                ORDER BY {self._order} LIMIT {self._room}"""
            yield sql, enough

    def _grouped(self, more: str, fits: str) -> str:
        return f"""(SELECT job.* FROM groups AS one CROSS JOIN LATERAL (
            SELECT id, {self.at}::bigint AS at, {fits} AS fits FROM {self.table}
            WHERE {GROUP[self.table]} AND {more}) AS job WHERE {self._named()})"""

    def _led(self) -> Iterator[list[str | tuple[str]]]:
        """By an index on the very thing, which is read from its first row on."""
        if self.table is JOBS and self._shown() == {"expired"}:
            yield list(self._aside())
        if self.which.key_prefix is not None:
            yield list(self._keys())
        for name in ("schedule", "error"):
            if name in self._equal:
                yield [self._equal[name]]

    def _sources(self) -> Iterator[list[str | tuple[str]]]:
        which = self.which
        if which.ids is not None:
            yield [self._equal["id"]]
        if self.table is JOBS and (arms := self._aside()):
            yield list(arms)
        yield from self._led()
        scheduled = self._shown() == {"scheduled"} and self.table is JOBS
        due = f"run_at > {self._now}" if scheduled else "true"
        rest = [] if self.table is FINISHED else ["parked", _SUSPECT]
        groups: list[str | tuple[str]] = [(due,), *(_all([part, *self._names]) for part in rest)]
        if self._names:
            yield groups
        if which.tags:  # read to its end before the first row comes, and yet sooner than all that ended in one way
            yield [f"tags @> {self.bind(list(which.tags), 'text[]')}"]
        if not self._names and (scheduled or (self.table is FINISHED and which.states is not None)):
            yield groups
        if self._made:
            yield [_all([*self._made, *self._times()]), _all(self._other())]

    def _aside(self) -> list[str]:
        """Where the jobs are that are neither new nor final, if no others were asked for."""
        where = {
            "running": IN_OPEN_LEASE,
            "paused": "parked",
            "waiting": "parked",
            "retrying": "retried",
            "expired": f"{_LATE} AND expires_at <= {self._now}",
        }
        shown = self._shown()
        return sorted({where[state] for state in shown}) if shown <= set(where) else []


def _first_id(unit: int) -> str:
    return f"{unit >> 4:08x}-{unit & 15:x}"


def _all(parts: Sequence[str]) -> str:
    return " AND ".join(parts) or "true"


async def jobs(
    db: Session,
    which: Filter,
    now: int,
    limit: int,
    after: Cursor | None = None,
    newest: bool = False,
    sort: Sort = "created",
    brief: bool = False,
) -> list[Any]:
    tables = {"created": (JOBS, FINISHED), "due": (JOBS,), "finished": (FINISHED,)}[sort]
    found: dict[str, Any] = {}
    for table in tables:
        rows = await _page(db, _JobQuery(table, which, now, limit, after, newest, sort, brief), limit)
        found.update({row[0]: row for row in rows})
    if len(tables) == 1:
        return list(found.values())
    return [found[id] for id in sorted(found, reverse=newest)][:limit]


async def _page(db: Session, asked: _JobQuery, limit: int) -> list[Any]:
    if asked.empty:
        return []
    if asked.ordered:
        await _set_plan(db, asked, "generic")
        return await _rows(db, asked, asked.whole())
    if (found := await _page_by_small_index(db, asked)) is not None:
        return found
    if not asked.sure and (found := await _page_nearby(db, asked, limit)) is not None:
        return found
    if (found := await _page_by_index(db, asked, asked.few(soon=False))) is not None:
        return found
    return await _rows(db, asked, asked.whole())


async def _set_plan(db: Session, asked: _JobQuery, kind: Literal["generic", "custom"]) -> None:
    """Along an order the same plan serves all values, and it is kept: with a part for each day of a month, to make it
    takes longer than to follow it."""
    if asked.table is FINISHED:
        await db.run(f"SET LOCAL plan_cache_mode = force_{kind}_plan")


async def _page_by_small_index(db: Session, asked: _JobQuery) -> list[Any] | None:
    if not (ways := list(asked.few(soon=True))):
        return None
    # Row by row: a bitmap would be made of all that the index has before the first of them comes.
    await db.run("SET LOCAL enable_bitmapscan = off")
    found = await _page_by_index(db, asked, ways)
    await db.run("SET LOCAL enable_bitmapscan = on")
    return found


async def _page_nearby(db: Session, asked: _JobQuery, limit: int) -> list[Any] | None:
    await _set_plan(db, asked, "generic")
    rows = await _rows(db, asked, asked.near(NEAR_ROWS))
    if limit // 4 <= len(rows) < limit:
        rows = await _rows(db, asked, asked.near(FAR_ROWS))
    await _set_plan(db, asked, "custom")
    return rows if len(rows) == limit else None


async def _page_by_index(db: Session, asked: _JobQuery, ways: Iterable[tuple[str, int]]) -> list[Any] | None:
    for sql, enough in ways:
        rows = await _rows(db, asked, sql)
        if rows[0][-1] <= enough:
            return [tuple(row)[:-1] for row in rows if row[0] is not None]
    return None


async def _rows(db: Session, asked: _JobQuery, sql: str) -> list[Any]:
    text, values = asked.bound(sql)
    return await db.rows(text, *values)
