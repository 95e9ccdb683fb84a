"""The graphs of flows that a process has read lately, so that no plan is read or decoded twice.

Plans do not change, but for those of durable jobs: these grow. How many steps a plan has is known from its flow's row.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from ..ids import JobId
from ..records.flow import Flow
from ..records.plan import NO_STEPS
from ..records.unreadable import unreadable_record

if TYPE_CHECKING:
    from ..flow.graph import Graph

# Graphs that are kept at most, and characters of the texts of their plans together.
MAX_KEPT_GRAPHS = 2000
MAX_KEPT_CHARACTERS = 20_000_000


class GraphCache:
    """The graphs of flows that were read lately, by the id of the flow. Threads may share it."""

    def __init__(self) -> None:
        self._graphs: OrderedDict[JobId, tuple[Graph, int]] = OrderedDict()
        self._characters = 0
        self._lock = threading.Lock()

    def get(self, flow: Flow) -> Graph | None:
        """The graph of the flow, unless its plan has grown since it was read."""
        with self._lock:
            if (found := self._graphs.get(flow.id)) is None or len(found[0].steps) != len(flow.statuses):
                return None
            self._graphs.move_to_end(flow.id)
            return found[0]

    def has_whole(self, id: JobId) -> bool:
        """Whether it has the graph of a plan that does not grow."""
        with self._lock:
            return (found := self._graphs.get(id)) is not None and not found[0].plan.grows

    def put(self, id: JobId, graph: Graph, characters: int) -> None:
        with self._lock:
            if (known := self._graphs.pop(id, None)) is not None:
                self._characters -= known[1]
            self._graphs[id] = graph, characters
            self._characters += characters
            while len(self._graphs) > MAX_KEPT_GRAPHS or self._characters > MAX_KEPT_CHARACTERS:
                _, (_, size) = self._graphs.popitem(last=False)
                self._characters -= size


@cache
def no_steps() -> Graph:
    """The graph of a row without a plan."""
    from ..flow.graph import Graph

    return Graph(NO_STEPS)


def graph_of(flow: Flow | None, graphs: Mapping[JobId, Graph]) -> Graph | None:
    """The graph of the flow's plan; None if that is missing."""
    if flow is None:
        return None
    if not flow.planned:
        return no_steps()
    graph, steps = graphs.get(flow.id), len(flow.statuses)
    # A store that reads the row before the plan may read one that has grown meanwhile.
    return _first_steps(graph, steps) if graph is not None and len(graph.steps) != steps else graph


def _first_steps(graph: Graph, steps: int) -> Graph | None:
    """The graph of the first steps of a plan that has grown; None if it is no such plan."""
    from ..flow.graph import Graph

    plan = graph.plan
    known = plan.grows and len(plan.steps) > steps
    return Graph(msgspec.structs.replace(plan, steps=plan.steps[:steps])) if known else None


def decode_graphs(rows: Iterable[tuple[JobId, str]], cache: GraphCache | None = None) -> dict[JobId, Graph]:
    """The graphs of plans, given with the ids of their flows. A plan that cannot be decoded is left out."""
    from ..flow.graph import read_graph

    found: dict[JobId, Graph] = {}
    for id, body in rows:
        try:
            found[id] = read_graph(body)
        except msgspec.DecodeError as error:
            unreadable_record("plan of flow", id, error)
            continue
        if cache is not None:
            cache.put(id, found[id], len(body))
    return found
