"""Lists of jobs out of the SQLite store: a page each, most often by one statement, however full the file is."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from ...clock import micros
from ...records.job import FINAL
from ...records.query import Cursor, Filter, Sort
from ..rows import COLUMNS, END_SQL, HELD_INDEX_SQL, SHOWN_SQL, Row, brief_columns, end_texts, prefix_end, stored_states
from .lenient import fetch_rows_leniently, is_not_utf8_error, is_too_big_error
from .out_of_order import earliest_id, latest_id

# Some ways to a page are tried. Where an index on what was asked leads to hardly any, SOON at most, these are put in
# order. Where many match, they are among the NEAR next ones in the order asked for, or the FIRST next ones if that
# order is merged from groups; if some of a page are, they tell how far the walk would be. It is gone, unless an index
# leads to fewer jobs: to put one in order costs as much as DEAR steps by id, or one of a merge. What is left goes along
# the order until the page is full, unless an index leads to FEW at most.
MAX_INDEXED_ROWS, FIRST_MERGED_ROWS, NEAR_ROWS, MAX_SORTED_ROWS, SORT_COST_ROWS = 500, 500, 5000, 200_000, 5

_FINAL = frozenset(state.value for state in FINAL)
# What is shown as it is kept.
_HELD_STATES = frozenset(("running", "paused", "waiting"))
_SHOWN_AS_STORED = _HELD_STATES | {"completed", "dead", "cancelled"}
_COLUMN: dict[Sort, str] = {"created": "id", "due": "run_at", "finished": "finished_at"}
_COLUMN_NUMBER = {name: n for n, name in enumerate(COLUMNS.split(", "))}
FINISHED_AT = _COLUMN_NUMBER["finished_at"]
# In order of id, whatever SQLite may know of the values in other columns.
_JOBS_BY_ID = "mainspring_jobs INDEXED BY sqlite_autoindex_mainspring_jobs_1"
_SUSPECT = "state = 'pending' AND crashes >= 2"
_LATE = "state = 'pending' AND expires_at IS NOT NULL AND expires_at <= :now"
_NO_LIMIT = -1  # as a LIMIT
_AS_JSON = f"json_group_array(json_array({COLUMNS}))"
_BRIEF_FIELDS = ", ".join(
    f"'{name}', json_extract(options, '$.{name}')" for name in ("tags", "schedule", "scheduled_at")
)
# A field that is null is no field of an option that has no default of null.
_BRIEF_OPTIONS = f"""CASE WHEN json_valid(options)
    THEN json_patch('{{}}', json_object({_BRIEF_FIELDS}, 'cut', json('true'))) ELSE '{{' END"""
_BRIEF = brief_columns(_BRIEF_OPTIONS)

_json = msgspec.json.encode
_rows = msgspec.json.Decoder(list[Row]).decode


class IndexGroups(NamedTuple):
    """Jobs with the same values in the first columns of an index, which has each group in the order of the next."""

    name: str
    along: str
    columns: tuple[str, ...]
    when: str

    @property
    def table(self) -> str:
        return f"mainspring_jobs INDEXED BY {self.along}"

    @property
    def one(self) -> str:
        """Holds for the jobs of a group."""
        return " AND ".join([self.when, *(f"{name} = of_{name}" for name in self.columns)])

    @property
    def hops(self) -> str:
        """Every group, by hops along the index: the cost is their number, however many jobs each has. A comparison of
        row values would seek by the first column alone, and scan."""
        names = ", ".join(self.columns)
        seek = f"(SELECT n FROM {self.table} WHERE {self.when} AND {{}} ORDER BY {names} LIMIT 1)"
        ways = [
            seek.format(" AND ".join([*(f"{name} = of_{name}" for name in self.columns[:n]), f"{last} > of_{last}"]))
            for n, last in reversed(list(enumerate(self.columns)))
        ]
        return f"""{self.name}_hops ({", ".join(f"of_{name}" for name in self.columns)}) AS (
            SELECT {names} FROM mainspring_jobs WHERE n = {seek.format("1")}
            UNION ALL
            SELECT {names} FROM {self.name}_hops CROSS JOIN mainspring_jobs ON n = coalesce({", ".join(ways)}))"""


READY = IndexGroups("ready", "mainspring_jobs_ready", ("queue", "task", "rank"), "state = 'pending' AND crashes < 2")
ENDED = IndexGroups("ended", "mainspring_jobs_finished", ("state", "queue", "task"), "finished_at IS NOT NULL")
RETRIED = f"""mainspring_jobs INDEXED BY mainspring_jobs_retried WHERE {READY.when} AND attempt > 0"""
ENDED_GROUPS = f"WITH RECURSIVE {ENDED.hops} SELECT of_state, of_queue, of_task FROM ended_hops"


class Source(NamedTuple):
    """A query for every job that may match, `led` to by an index: by its id or its n."""

    sql: str
    by: str
    head: str = ""


class _JobQuery:
    """One list, as SQL and its values, which are bound, never pasted."""

    def __init__(
        self,
        which: Filter,
        now: int,
        limit: int,
        after: Cursor | None,
        newest: bool,
        sort: Sort,
        brief: bool = False,
    ) -> None:
        self.which, self.limit, self.newest, self.brief = which, limit, newest, brief
        self.values: dict[str, Any] = {"now": now, "limit": limit}
        self.column, self._by_id = _COLUMN[sort], sort == "created"
        self._groups = READY if sort == "due" else ENDED
        self._way, self._sign = ("DESC", "<") if newest else ("ASC", ">")
        self._states = stored_states(which) & {"due": {"pending"}, "finished": _FINAL}.get(sort, stored_states(which))
        if which.workers is not None:
            self._states &= {"running"}
        named = (("queue", which.queues), ("task", which.tasks))
        self._names = [self._among(name, items) for name, items in named if items is not None]
        self._said = list(self._parts())
        self._shown = self._as_shown()
        self._after = after
        self._ahead = [*self._beyond(), *(self._due() if sort == "due" else ())]

    # conditions

    @property
    def empty(self) -> bool:
        return not self._states or self.limit <= 0

    @property
    def _wanted(self) -> set[str]:
        """States, as they are shown."""
        return set(self.which.states or ())

    def _bind(self, value: Any) -> str:
        name = f"v{len(self.values)}"
        self.values[name] = value
        return f":{name}"

    def _among(self, column: str, items: Sequence[str]) -> str:
        if len(items) == 1:
            return f"{column} = {self._bind(items[0])}"
        return f"{column} IN (SELECT value FROM json_each({self._bind(_json(items).decode())}))"

    def _beyond(self, by: str = "id") -> list[str]:
        if self._after is None:
            return []
        id, sign, column = self._bind(self._after.id), self._sign, self.column
        if self._by_id:
            return [f"{by} {sign} {id}"]
        at = self._bind(None if self._after.at is None else micros(self._after.at))
        return [f"{column} {sign}= {at}", f"({column} {sign} {at} OR id {sign} {id})"]

    def _made(self, by: str = "id") -> list[str]:
        """When it was made, as bounds of its id, unless it is odd."""
        after, before = self.which.created_after, self.which.created_before
        bounds = [] if after is None else [f"{by} >= {self._bind(earliest_id(micros(after)))}"]
        return bounds if before is None else [*bounds, f"{by} <= {self._bind(latest_id(micros(before)))}"]

    def _due(self) -> list[str]:
        """What the shown state says of the instant at which a pending job is due."""
        if self._wanted not in ({"scheduled"}, {"pending"}):
            return []
        return [f"run_at {'>' if self._wanted == {'scheduled'} else '<='} :now"]

    def _as_shown(self) -> list[str]:
        """What a look at the row must add to the state that is kept."""
        if self.which.states is None or self._states <= _SHOWN_AS_STORED or self.column == "finished_at":
            return []
        return [self._among(SHOWN_SQL, self.which.states)]

    def _state(self) -> list[str]:
        if self._by_id and self.which.states is None and self.which.workers is None:
            return []
        return [self._among("state", sorted(self._states)), *self._shown]

    def _parts(self) -> Iterator[str]:
        """Everything but names and states."""
        which = self.which
        if which.ids is not None:
            yield self._among("id", which.ids)
        for tag in which.tags or ():
            yield f"EXISTS (SELECT 1 FROM mainspring_tags WHERE tag = {self._bind(tag)} AND job_id = id)"
        if which.workers is not None:
            yield self._among("worker", which.workers)
        if which.errors is not None:
            yield f"error IS NOT NULL AND {self._among('error', which.errors)}"
        if which.schedules is not None:
            # Not by the key alone: those of "a:5" begin as those of "a" do, and anybody may use such a key.
            made_by = "CASE WHEN json_valid(options) THEN json_extract(options, '$.schedule') END"
            yield self._among(made_by, which.schedules)
        if which.key_prefix is not None:
            span = self._prefixed()
            yield f"({span.format('unique_key')} OR {span.format('idempotency_key')})"
        if which.ends is not None:
            yield self._among(END_SQL, end_texts(which.ends))
        yield from self._times()

    def _times(self) -> list[str]:
        pairs = ((self.which.created_after, ">="), (self.which.created_before, "<="))
        return [f"created_at {sign} {self._bind(micros(at))}" for at, sign in pairs if at is not None]

    def _scheduled(self) -> str:
        spans = [
            f"(key >= {self._bind(f'schedule:{name}:')} AND key < {self._bind(f'schedule:{name};')})"  # ";" follows ":"
            for name in self.which.schedules or ()
        ]
        return f"SELECT job_id FROM mainspring_keys WHERE {' OR '.join(spans) or '0'}"

    def _prefixed(self) -> str:
        prefix = self.which.key_prefix or ""
        last = prefix_end(prefix)
        until = "" if last is None else f" AND {{0}} < {self._bind(last)}"
        return f"({{0}} >= {self._bind(prefix)}{until})"

    # ways

    @property
    def ordered(self) -> bool:
        """Whether the order itself leads to a page, as nothing else was asked for than what divides it."""
        return not (self._said or self._shown or (self._by_id and (self._names or self._state())))

    @property
    def nearby(self) -> int:
        return max(NEAR_ROWS if self._by_id else FIRST_MERGED_ROWS, self.limit)

    @property
    def dear(self) -> int:
        return SORT_COST_ROWS if self._by_id else min(SORT_COST_ROWS, 1)

    def near(self, room: int) -> str:
        """Of the next ones in the order asked for, those that match."""
        return self._walk(room) if self._by_id else self._first(room)

    def whole(self) -> str:
        """Along the order until the page is full."""
        if self._by_id:
            return self._walk(_NO_LIMIT)
        if self.ordered:
            return self._first(self.limit)
        walk = self._merged([*self._ahead, *self._shown, *self._said], self.limit)
        return self._page(walk, "n", [], f"WITH RECURSIVE {self._named(self._groups)}")

    def _walk(self, room: int) -> str:
        fits = [*self._names, *self._state(), *self._said]
        if not self.which.tags:
            ahead = _all([*self._ahead, *self._made()])
            walk = f"SELECT n AS led FROM {_JOBS_BY_ID} WHERE {ahead} ORDER BY id {self._way} LIMIT {room}"
            return self._page(walk, "n", fits)
        # In the order of the tag's index: a page costs the same however many jobs have the tag.
        ahead = _all([f"tag = {self._bind(self.which.tags[0])}", *self._beyond("job_id"), *self._made("job_id")])
        walk = f"SELECT job_id AS led FROM mainspring_tags WHERE {ahead} ORDER BY job_id {self._way} LIMIT {room}"
        return self._page(walk, "id", fits)

    def _page(self, walk: str, by: str, fits: Sequence[str], head: str = "") -> str:
        """The jobs of a walk that fit, as one JSON text: a row at a time would hand the interpreter lock over and back
        for each, and wait for the event loop every time."""
        return f"""{head} SELECT {_AS_JSON} FROM (SELECT {_BRIEF if self.brief else COLUMNS}
            FROM ({walk}) AS walk CROSS JOIN mainspring_jobs ON {by} = led WHERE {_all(fits)} LIMIT :limit)"""

    def _first(self, room: int) -> str:
        """Of the first `room` of all groups together those that match. Of each group a share of them is looked at:
        where so many of these end, all groups together have as many, and none is read beyond."""
        groups, column, way = self._groups, self.column, self._way
        mine = _all([groups.one, *self._ahead])
        share = f"(SELECT 4 * {room} / max(count(*), 1) + 1 FROM {groups.name})"
        head = f"""WITH RECURSIVE {self._named(groups, *self._ahead)}, edge (at) AS MATERIALIZED (
            SELECT {column} FROM {groups.name} CROSS JOIN mainspring_jobs ON n IN (
                SELECT n FROM {groups.table} WHERE {mine} ORDER BY {column} {way} LIMIT {share})
            ORDER BY {column} {way} LIMIT 1 OFFSET {room - 1})"""
        sign, none = (">=", -(2**62)) if self.newest else ("<=", 2**62)
        edge = f"{column} {sign} coalesce((SELECT at FROM edge), {none})"
        walk = self._merged([edge, *self._ahead], room)
        return self._page(walk, "n", [*self._shown, *self._said], head)

    def _merged(self, parts: Sequence[str], room: int) -> str:
        """The first of each group, then the first of all."""
        groups, order = self._groups, f"{self.column} {self._way}, id {self._way}"
        one = f"SELECT n FROM {groups.table} WHERE {_all([groups.one, *parts])} ORDER BY {order} LIMIT {room}"
        arms = [f"SELECT n, {self.column}, id FROM {groups.name} CROSS JOIN mainspring_jobs ON n IN ({one})"]
        if groups is READY:
            suspects = _all([_SUSPECT, *self._names, *parts])
            arms.append(f"""SELECT * FROM (SELECT n, run_at, id FROM mainspring_jobs INDEXED BY mainspring_jobs_suspects
                WHERE {suspects} ORDER BY {order} LIMIT {room})""")
        return f"SELECT n AS led FROM ({' UNION ALL '.join(arms)}) ORDER BY {order} LIMIT {room}"

    def _named(self, groups: IndexGroups, *ahead: str) -> str:
        """The groups that are asked for, and have jobs ahead."""
        parts = [f"of_{name}" for name in self._names]
        if ahead:
            parts.append(f"EXISTS (SELECT 1 FROM {groups.table} WHERE {_all([groups.one, *ahead])})")
        if groups is ENDED:
            parts.append(self._among("of_state", sorted(self._states & _FINAL)))
        return f"{groups.hops}, {groups.name} AS MATERIALIZED (SELECT * FROM {groups.name}_hops WHERE {_all(parts)})"

    # what indexes lead to

    def led(self) -> Iterator[Source]:
        """By an index on the very thing."""
        which = self.which
        if which.ids is not None:
            yield Source(f"SELECT DISTINCT value AS led FROM json_each({self._bind(_json(which.ids).decode())})", "id")
        for tag in which.tags or ():
            yield Source(f"SELECT job_id AS led FROM mainspring_tags WHERE tag = {self._bind(tag)}", "id")
        if which.key_prefix is not None:
            span = self._prefixed().format("key")
            yield Source(f"SELECT DISTINCT job_id AS led FROM mainspring_keys WHERE {span}", "id")
        if which.schedules is not None:
            yield Source(f"SELECT DISTINCT job_id AS led FROM ({self._scheduled()})", "id")
        if which.errors is not None:
            error = self._among("error", which.errors)
            yield Source(f"SELECT job_id AS led FROM mainspring_errors WHERE {error}", "id")
        if self._states <= _HELD_STATES or self._wanted in ({"expired"}, {"retrying"}):
            yield self._grouped()

    def sources(self) -> Iterator[Source]:
        yield from self.led()
        if not self._by_id and (made := self._made()):
            odd = _all([*self._times(), f"NOT ({_all(self._made('job_id'))})"])
            ids = f"SELECT id AS led FROM {_JOBS_BY_ID} WHERE {_all(made)}"
            yield Source(f"{ids} UNION ALL SELECT job_id FROM mainspring_odd WHERE {odd}", "id")
        if self._names or self.which.states is not None:
            yield self._grouped()

    @property
    def odd(self) -> Source | None:
        """Where a walk by id does not lead, if the time was asked for."""
        if not self._by_id or not (times := self._times()):
            return None
        return Source(f"SELECT job_id AS led FROM mainspring_odd WHERE {_all(times)}", "id")

    @property
    def _scattered(self) -> bool:
        """Whether only scheduled jobs are asked for, which lie far apart by id and together in an index that has it."""
        return self._by_id and self._wanted == {"scheduled"}

    @property
    def apart(self) -> Source | None:
        return self._grouped() if self._scattered else None

    def _grouped(self) -> Source:
        """The jobs of these states, and of these names where an index is ordered by them."""
        head = f"WITH RECURSIVE {self._named(READY)}, {self._named(ENDED)}"
        return Source(" UNION ALL ".join(self._arms()), "n", head)

    def _arms(self) -> Iterator[str]:
        if held := sorted(self._states & _HELD_STATES):
            state = self._among("state", held)
            table = "mainspring_jobs INDEXED BY mainspring_jobs_held"
            yield f"SELECT n AS led FROM {table} WHERE {HELD_INDEX_SQL} AND {state}"
        if "pending" in self._states:
            yield from self._waiting()
        if self._states & _FINAL:
            yield f"SELECT n AS led FROM ended CROSS JOIN {ENDED.table} WHERE {ENDED.one}"

    def _waiting(self) -> Iterator[str]:
        wanted, id = self._wanted - _SHOWN_AS_STORED, ", id AS of_id" if self._scattered else ""
        if wanted == {"expired"}:  # what no claim has ended yet
            yield f"SELECT n AS led FROM mainspring_jobs INDEXED BY mainspring_jobs_expiring WHERE {_LATE}"
            return
        if wanted == {"retrying"}:
            yield f"SELECT n AS led{id} FROM {RETRIED}"
        else:
            yield f"SELECT n AS led{id} FROM ready CROSS JOIN {READY.table} WHERE {_all([READY.one, *self._due()])}"
        yield f"SELECT n AS led{id} FROM mainspring_jobs INDEXED BY mainspring_jobs_suspects WHERE {_SUSPECT}"

    def size(self, source: Source, most: int) -> str:
        """How many the index leads to, or one more than `most`."""
        return f"{source.head} SELECT count(*) FROM (SELECT 1 FROM ({source.sql}) LIMIT {most + 1})"

    def told(self, source: Source) -> str:
        """Of the next ones of a source that tells their ids, those that match: nearly all, as a rule."""
        ahead = _all([*self._beyond("of_id"), *self._made("of_id")])
        walk = f"SELECT led FROM ({source.sql}) WHERE {ahead} ORDER BY of_id {self._way} LIMIT {2 * self.limit}"
        return self._page(walk, "n", [*self._names, *self._state(), *self._said], source.head)

    def collected(self, source: Source) -> str:
        """Those of a source that match, put in order."""
        fits = _all([*self._names, *self._state(), *self._said, *self._ahead])
        # The plus keeps SQLite from walking through all jobs to spare itself a sort.
        order = f"+{self.column} {self._way}, +id {self._way}"
        walk = f"""SELECT n AS led FROM ({source.sql}) AS source CROSS JOIN mainspring_jobs ON {source.by} = source.led
            WHERE {fits} ORDER BY {order} LIMIT :limit"""
        return self._page(walk, "n", [], source.head)


def _all(parts: Sequence[str]) -> str:
    return " AND ".join(parts) or "1"


def jobs(
    db: sqlite3.Connection,
    which: Filter,
    now: int,
    limit: int,
    after: Cursor | None = None,
    newest: bool = False,
    sort: Sort = "created",
    brief: bool = False,
) -> list[Row]:
    asked = _JobQuery(which, now, limit, after, newest, sort, brief)
    if asked.empty:
        return []
    rows, place = _page(db, asked), _COLUMN_NUMBER[asked.column]
    if asked.odd is not None:
        rows = list({row[0]: row for row in (*rows, *_read(db, asked, asked.collected(asked.odd)))}.values())
    return sorted(rows, key=lambda row: (row[place], row[0]), reverse=newest)[:limit]


def _page(db: sqlite3.Connection, asked: _JobQuery) -> list[Row]:
    if asked.ordered:
        return _read(db, asked, asked.whole())
    if asked.which.ids is not None:
        return _read(db, asked, asked.collected(next(asked.led())))
    source, _ = _smallest(db, asked, asked.led(), MAX_INDEXED_ROWS)
    if source is not None:
        return _read(db, asked, asked.collected(source))
    if (apart := asked.apart) is not None and len(found := _read(db, asked, asked.told(apart))) == asked.limit:
        return found
    room, limit = asked.nearby, asked.limit
    found = _read(db, asked, asked.near(room))
    if len(found) == limit:
        return found
    source, size = _smallest(db, asked, asked.sources(), MAX_SORTED_ROWS)
    reach = 2 * room * limit // len(found) if found else 0
    if room < reach < asked.dear * size:
        found = _read(db, asked, asked.near(reach))
        if len(found) == limit:
            return found
    if source is None:
        return _read(db, asked, asked.whole())
    return _read(db, asked, asked.collected(source))


def _smallest(
    db: sqlite3.Connection, asked: _JobQuery, sources: Iterable[Source], most: int
) -> tuple[Source | None, int]:
    """The one that leads to the fewest jobs, unless these are more than `most`; and how many."""
    best, size = None, most + 1
    for source in sources:
        count = db.execute(asked.size(source, size - 1), asked.values).fetchone()[0]
        if count < size:
            best, size = source, count
    return best, size


def _read(db: sqlite3.Connection, asked: _JobQuery, sql: str) -> list[Row]:
    try:
        return _rows(db.execute(sql, asked.values).fetchone()[0])
    except (sqlite3.OperationalError, sqlite3.DataError) as error:
        if not is_not_utf8_error(error) and not is_too_big_error(error):
            raise
        return mark_undecodable(fetch_rows_leniently(db, sql.replace(_AS_JSON, COLUMNS), asked.values))


def mark_undecodable(rows: list[Row]) -> list[Row]:
    """Rows of COLUMNS. A row with a text that is not UTF-8 has no options, so that job_of finds out."""
    options = _COLUMN_NUMBER["options"]
    broken = [any(isinstance(value, bytes) for value in row) for row in rows]
    return [[*row[:options], None, *row[options + 1 :]] if bad else row for row, bad in zip(rows, broken, strict=True)]
