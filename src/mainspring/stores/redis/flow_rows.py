"""The stored form of flows: rows and plans in hashes, and the jobs of their steps in sorted sets by position.

A flow's row and plan are in the shard of the queue that its own job had when it began. Each job of a step is in the
sets of its own shard (index.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from ...flow.graph import Graph
from ...ids import JobId
from ...records.flow import MAX_CANCELLED_JOBS, MAX_RETRIED_JOBS, Flow
from ...records.plan import Plan
from ...records.step import MAX_INDEX, MAX_POSITION
from ...records.unreadable import unreadable_record
from ..graph_cache import GraphCache, no_steps
from ..rules.loaded import ChangedJob, LoadedTables
from ..rules.read_sets import Name
from .index import STEPS_SETS, Command, StepsSet, step_entry, steps_key
from .item_counts import NO_ITEMS, ItemTexts, changed_bases, counted_in, split, with_counted
from .shard import Shard, Shards
from .two_phase import Condition, has

_encode = msgspec.json.Encoder().encode
_decode_flow = msgspec.json.Decoder(Flow).decode
_decode_plan = msgspec.json.Decoder(Plan).decode


class FlowRow(NamedTuple):
    """A flow as it was read: its shard and text, None if there is none. It is None if it cannot be decoded."""

    shard: Shard | None = None
    text: bytes | None = None
    flow: Flow | None = None
    graph: Graph | None = None
    items: ItemTexts = NO_ITEMS
    """What was counted beside the row; `flow` has it, too."""


NO_FLOW = FlowRow()


# reading


def flow_row(id: JobId, shard: Shard, text: bytes, plan: bytes | None, graphs: GraphCache) -> FlowRow:
    try:
        flow = _decode_flow(text)
        if not flow.planned:
            return FlowRow(shard, text, flow, no_steps())
        if (graph := graphs.get(flow)) is None:
            graph = Graph(_decode_plan(plan or b""))
            graphs.put(id, graph, len(plan or b""))
    except msgspec.DecodeError as error:
        unreadable_record("flow", id, error)
        return FlowRow(shard, text)
    return FlowRow(shard, text, flow, graph)


def with_items(id: JobId, row: FlowRow, items: ItemTexts) -> FlowRow:
    """The flow with the items that were counted beside its row."""
    if row.flow is None:
        return row._replace(items=items)
    try:
        return row._replace(items=items, flow=with_counted(row.flow, counted_in(items)))
    except msgspec.DecodeError as error:
        unreadable_record("items of flow", id, error)
        return FlowRow(row.shard, row.text, items=items)


class StepRange(NamedTuple):
    """The jobs of a flow's steps from one position to another, in some of the sets."""

    flow: JobId
    first: int = 0
    last: int = MAX_POSITION
    limit: int = MAX_CANCELLED_JOBS + 1
    sets: Sequence[StepsSet] = STEPS_SETS

    def commands(self, shard: Shard) -> list[Command]:
        low, high = b"[" + step_entry(self.first), b"(" + step_entry(self.last + 1)
        keys = (f"{shard.base}:{steps_key(self.flow, which)}" for which in self.sets)
        return [("ZRANGEBYLEX", key, low, high, "LIMIT", 0, self.limit) for key in keys]


def range_of(name: Name) -> StepRange:
    """The jobs that `unfinished_steps`, `failed_steps` or `all_steps` names."""
    flow, _, first = name.name.rpartition(" ") if name.kind == "unfinished_steps" else (name.name, "", "")
    match name.kind:
        case "unfinished_steps":
            return StepRange(flow, int(first), int(first) | MAX_INDEX, sets=("open",))
        case "failed_steps":
            return StepRange(flow, limit=MAX_RETRIED_JOBS, sets=("failed",))
    return StepRange(flow)


# writing


def flow_commands(shards: Shards, rows: dict[JobId, FlowRow], tables: LoadedTables) -> Iterator[Command]:
    """Writes the flows that a rule has changed, and plans that are new or have grown."""
    flows = tables.changed_flows()
    for id, plan in tables.plans:
        if (flow := flows.get(id)) is not None:
            yield "HSET", f"{_base(shards, rows[id], flow)}:plan", id, _encode(plan)
    for id, flow in flows.items():
        yield from _row_commands(shards, rows[id], tables, id, flow)


def _row_commands(
    shards: Shards, old: FlowRow, tables: LoadedTables, id: JobId, flow: Flow | None
) -> Iterator[Command]:
    base = _base(shards, old, flow)
    row, items = _split(shards, old, tables, flow)
    if row is not None:
        yield "HSET", f"{base}:flow", id, _encode(row)
    else:
        yield "HDEL", f"{base}:flow", id
        yield "HDEL", f"{base}:plan", id
    for other in changed_bases(old.items, items) if old.items or items else ():
        text = items.get(other)
        yield ("HDEL", f"{other}:items", id) if text is None else ("HSET", f"{other}:items", id, text)


def move_of(shards: Shards, old: FlowRow, tables: LoadedTables, flow: Flow) -> tuple[list[Condition], list[Command]]:
    """Writes one flow that a rule has changed, if it is as it was read."""
    commands = [*_row_commands(shards, old, tables, flow.id, flow)]
    conditions = [has(f"{_base(shards, old, flow)}:flow", flow.id, old.text)]
    for _, key, *_ in commands[1:]:
        base = str(key).removesuffix(":items")
        conditions.append(has(f"{base}:items", flow.id, old.items.get(base)))
    return conditions, commands


def _split(shards: Shards, old: FlowRow, tables: LoadedTables, flow: Flow | None) -> tuple[Flow | None, ItemTexts]:
    """The row of a flow, and what is beside it."""
    if flow is None:
        return None, NO_ITEMS
    if not (flow.counts or old.items):
        return flow, NO_ITEMS
    return split(shards, tables.graph(flow.id), flow, counted_in(old.items))


def _base(shards: Shards, row: FlowRow, flow: Flow | None) -> str:
    """The base of the shard of a flow."""
    if row.shard is not None:
        return row.shard.base
    return shards.first.base if flow is None else shards.of(flow.queue).base


def flow_conditions(
    shards: Shards, rows: dict[JobId, FlowRow], tables: LoadedTables, changed: Sequence[ChangedJob]
) -> Iterator[Condition]:
    """The flows that a rule has read are unchanged.

    In each other shard where the unit changes jobs of a flow's steps, a condition that always holds locks the flow for
    the two-phase commit: who reads the flow meets that lock, and ends the commit before it reads the jobs.
    """
    flows = tables.changed_flows()
    found: dict[tuple[str, JobId], bytes | None] = {}
    for id in dict.fromkeys([*flows, *tables.flows_read]):
        row = rows.get(id, NO_FLOW)
        if row.text is not None or flows.get(id) is not None:
            found[_base(shards, row, flows.get(id)), id] = row.text
    moved = {id for _, id in found}
    for id, flow in flows.items():
        row = rows.get(id, NO_FLOW)
        for other in changed_bases(row.items, _split(shards, row, tables, flow)[1]):
            found.setdefault((other, id), None)
            yield has(f"{other}:items", id, row.items.get(other))
    for _, old, new in changed:
        for job in (old, new):
            if job is not None and job.step is not None and job.step.flow in moved:
                found.setdefault((shards.of(job.queue).base, job.step.flow), None)
    for (base, id), text in found.items():
        yield has(f"{base}:flow", id, text)


def locks_of_flow(rows: dict[JobId, FlowRow], id: JobId, bases: Iterable[str]) -> list[Condition]:
    """The conditions that lock a flow in those of these shards that do not have its row."""
    home = rows.get(id, NO_FLOW).shard
    return [has(f"{base}:flow", id, None) for base in dict.fromkeys(bases) if home is not None and base != home.base]
