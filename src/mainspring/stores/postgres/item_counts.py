"""Counts the plain ends of a map's items beside the flow's row, which they neither lock nor read.

A row of mainspring_item_counts says how many ends may be counted there before the map might be over, and how many have
been. The statement that completes items adds to it (completions.COMPLETE_ITEMS); if it may not, the flow moves by the
rule. What moves a flow by the rule locks its rows, adds the counted ends to the flow's own, and writes how many may be
counted from then on. Such a row exists only while releases that do not know it are shut out. Locks: after the flow's
row, before jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ...ids import JobId
from ...records.flow import Flow, ItemCounts
from ...records.outcome import Outcome
from ...records.step import StepRef, position_of
from ..rules.loaded import LoadedTables
from .pool import SEPARATOR, Session
from .script import COUNTS_VERSION

# The last ends of a map, which the rule counts. A map with fewer items has no row.
MIN_COUNTED_ITEMS = 50
# Flows that a handle remembers.
MAX_KNOWN_FLOWS = 10_000


class MapKey(NamedTuple):
    """A map in one of its lives: the flow, and the position of the step."""

    flow: JobId
    position: int


def map_of(ref: StepRef) -> MapKey:
    """The map that an item belongs to."""
    return MapKey(ref.flow, ref.position - ref.index)


class CountedMaps:
    """The maps whose items a handle may count: those that had a row when it last moved their flow."""

    def __init__(self) -> None:
        self._known: dict[JobId, set[int]] = {}

    def learn(self, tables: CountedTables) -> None:
        """Takes over which maps have a row, for the flows that were written."""
        for id in tables.changed_flows() if self._known else ():
            self._known.pop(id, None)
        if len(self._known) > MAX_KNOWN_FLOWS:
            self._known.clear()
        for flow, position in tables.counted_maps:
            self._known.setdefault(flow, set()).add(position)

    def forget(self, outcomes: Sequence[Outcome]) -> None:
        """Leaves out the flows of these items: the ends could not be counted."""
        for outcome in outcomes:
            if outcome.step is not None:
                self._known.pop(outcome.step.flow, None)

    def has(self, outcome: Outcome) -> bool:
        """Whether the plain completion is that of an item that may be counted."""
        ref = outcome.step
        if ref is None or not ref.index or outcome.step_end is not None:
            return False
        return ref.position - ref.index in self._known.get(ref.flow, ())


def count_values(outcomes: Sequence[Outcome]) -> tuple[str, str, str, int]:
    """The parameters of COMPLETE_ITEMS: ends by map, in the order of the locks."""
    ends = sorted(Counter(map_of(outcome.step) for outcome in outcomes if outcome.step is not None).items())
    flows, positions, counts = zip(
        *((flow, str(position), str(count)) for (flow, position), count in ends), strict=True
    )
    return SEPARATOR.join(flows), SEPARATOR.join(positions), SEPARATOR.join(counts), len(ends)


class CountedTables(LoadedTables):
    """Loaded tables with the counted ends of flows."""

    def __init__(self) -> None:
        super().__init__(flows=True)
        self.only_makes_items = False
        """The verb does nothing to flows but to make items: it need not wait for the rows of the counts."""
        self.ended: dict[MapKey, int] = {}
        """The counted ends that are part of the flows that were read."""
        self.counted_maps: set[MapKey] = set()
        """The maps of the written flows that have a row."""

    def made_items(self, flow: Flow, n: int) -> int:
        """How many items of the map were made since the flow was read."""
        old = self._flows.get(flow.id)
        return flow.counts[n].made - (old.counts[n].made if old is not None and n in old.counts else 0)


# reading

_LOCK = """SELECT flow, position, ended FROM mainspring_item_counts WHERE flow = ANY($1) ORDER BY flow, position
    FOR NO KEY UPDATE"""


async def lock_counts(db: Session, ids: Collection[JobId]) -> dict[MapKey, int]:
    """Locks the rows of these flows, and returns how many ends each has counted."""
    rows = await db.rows(_LOCK, list(ids)) if ids else []
    return {MapKey(flow, position): ended for flow, position, ended in rows}


async def add_counted(db: Session, tables: CountedTables, flows: dict[JobId, Flow]) -> dict[JobId, Flow]:
    """The flows with the ends that were counted beside them."""
    if tables.only_makes_items:
        return flows
    ended = await lock_counts(
        db, [id for id, flow in flows.items() if any(not some.done for some in flow.counts.values())]
    )
    tables.ended.update(ended)
    return {id: with_counted(flow, ended) for id, flow in flows.items()} if ended else flows


def with_counted(flow: Flow, ended: Mapping[MapKey, int]) -> Flow:
    """The flow with the ends that were counted beside its row."""
    counted = {n: ended.get(_key(flow, n), 0) for n in flow.counts}
    if not any(counted.values()):
        return flow
    counts = {n: replace(some, ended=some.ended + counted[n]) for n, some in flow.counts.items()}
    return replace(flow, counts=counts)


def counted_ends(flow: JobId, text: str) -> dict[MapKey, int]:
    """The counted ends of a flow, from a text with position and number of each map."""
    pairs = (pair.split(" ") for pair in text.split(SEPARATOR))
    return {MapKey(flow, int(position)): int(ended) for position, ended in pairs}


def _key(flow: Flow, n: int) -> MapKey:
    return MapKey(flow.id, position_of(n, 0, flow.lives.get(n, 0)))


# writing

_GIVEN = f"""unnest(string_to_array($1, '{SEPARATOR}'), string_to_array($2, '{SEPARATOR}')::bigint[],
    string_to_array($3, '{SEPARATOR}')::bigint[])"""
# A migration may lower the latch again, but not beside this transaction, which has written flows.
_WRITE = f"""INSERT INTO mainspring_item_counts (flow, position, ended, allowed)
    SELECT flow, position, 0, allowed FROM {_GIVEN} AS given (flow, position, allowed)
    WHERE EXISTS (SELECT FROM mainspring_schema WHERE oldest >= {COUNTS_VERSION})
    ON CONFLICT (flow, position) DO UPDATE SET ended = 0, allowed = excluded.allowed
    RETURNING flow, position"""
_ADD_MADE = f"""UPDATE mainspring_item_counts AS counts SET allowed = counts.allowed + given.made
    FROM {_GIVEN} AS given (flow, position, made)
    WHERE counts.flow = given.flow AND counts.position = given.position RETURNING counts.flow, counts.position"""
_DROP = "DELETE FROM mainspring_item_counts WHERE flow = ANY($1) AND concat_ws(' ', flow, position) = ANY($2)"


async def write_counts(db: Session, tables: CountedTables, flows: Collection[Flow], gone: Collection[JobId]) -> None:
    """Writes how many ends of each map may be counted from now on; `flows` were changed, `gone` were deleted."""
    maps = [(flow, n, _key(flow, n)) for flow in flows for n in flow.counts]
    if not maps and not tables.ended:
        return
    if tables.only_makes_items:
        made = {key: found for flow, n, key in maps if (found := tables.made_items(flow, n))}
        tables.counted_maps |= await _write(db, _ADD_MADE, made)
    allowed = {
        key: left
        for flow, n, key in maps
        if key not in tables.counted_maps and (left := _left(flow.counts[n])) >= MIN_COUNTED_ITEMS
    }
    tables.counted_maps |= await _write(db, _WRITE, allowed)
    written = {*gone, *(flow.id for flow in flows)}
    if over := [key for key in tables.ended if key.flow in written and key not in allowed]:
        await db.run(_DROP, [flow for flow, _ in over], [f"{flow} {position}" for flow, position in over])


def _left(counts: ItemCounts) -> int:
    """How many items may end before the map might be over."""
    return counts.made - counts.ended - counts.closed


async def _write(db: Session, sql: str, numbers: Mapping[MapKey, int]) -> set[MapKey]:
    if not numbers:
        return set()
    keys = sorted(numbers)
    texts = [key.flow for key in keys], [str(key.position) for key in keys], [str(numbers[key]) for key in keys]
    return {MapKey(*row) for row in await db.rows(sql, *map(SEPARATOR.join, texts))}
