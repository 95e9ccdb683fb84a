"""Items of maps that finish.lua counts: their ends do not touch the flow's row, so none of them waits for another.

The hash `items` has, by the id of a flow, a JSON object for its maps whose items are in that shard. Each map has two
numbers: how many items were counted here, which the row leaves out, and how many would be all of them. finish.lua
counts no further than one below that: the last end of a map means more, and is left to the rule. A map that is still
being made has no last item.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from ...flow.graph import Graph
from ...records.flow import Flow, ItemCounts
from ...records.step import MAX_INDEX, position_of
from .shard import Shards

ItemTexts = Mapping[str, bytes]
"""The texts of one flow by the base of their shard."""
NO_ITEMS: ItemTexts = {}
Counted = dict[int, tuple[int, int | None]]
"""By map_key(): the items that were counted, and how many would be all: None while the map is being made."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Counted).decode


def map_key(position: int) -> int:
    """The position of the map's step, which those of all items of one life of it have in common."""
    return position & ~MAX_INDEX


def counted_in(texts: ItemTexts) -> Counted:
    return {key: counted for text in texts.values() for key, counted in _decode(text).items()}


def with_counted(flow: Flow, counted: Counted) -> Flow:
    """The flow of a row, with the items that were counted beside it."""
    return _added(flow, {n: counted[key][0] for n, key in _keys(flow).items() if key in counted})


def split(shards: Shards, graph: Graph, flow: Flow, counted: Counted) -> tuple[Flow, ItemTexts]:
    """The row of a flow, and what is beside it: the counts of maps that have unfinished items."""
    if not flow.counts:
        return flow, NO_ITEMS
    beside, by_base = dict[int, int](), dict[str, Counted]()
    for n, key in _keys(flow).items():
        if not (counts := flow.counts[n]).done:
            beside[n], _ = counted.get(key, (0, None))
            every = counts.made - counts.ended + beside[n] if counts.closed else None
            base = shards.of(graph.steps[n].options.queue).base
            by_base.setdefault(base, {})[key] = beside[n], every
    row = _added(flow, {n: -count for n, count in beside.items()})
    return row, {base: _encode(some) for base, some in by_base.items()}


def changed_bases(old: ItemTexts, new: ItemTexts) -> list[str]:
    """The shards whose texts differ in more than their form: finish.lua may have written one."""
    return [base for base in dict.fromkeys([*old, *new]) if _differ(old.get(base), new.get(base))]


def _differ(old: bytes | None, new: bytes | None) -> bool:
    return old != new and (old is None or new is None or _decode(old) != _decode(new))


def _keys(flow: Flow) -> dict[int, int]:
    return {n: position_of(n, 0, flow.lives.get(n, 0)) for n in flow.counts}


def _added(flow: Flow, ended: Mapping[int, int]) -> Flow:
    if not any(ended.values()):
        return flow
    return replace(flow, counts={n: _with(counts, ended.get(n, 0)) for n, counts in flow.counts.items()})


def _with(counts: ItemCounts, ended: int) -> ItemCounts:
    return replace(counts, ended=counts.ended + ended) if ended else counts
