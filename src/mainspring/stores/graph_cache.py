"""The graphs of flows that a process has read lately: plans never change, so that none is read or decoded twice."""

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

    def get(self, id: JobId) -> Graph | None:
        with self._lock:
            if (found := self._graphs.get(id)) is None:
                return None
            self._graphs.move_to_end(id)
            return found[0]

    def put(self, id: JobId, graph: Graph, characters: int) -> None:
        with self._lock:
            if id in self._graphs:
                return
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
    return graphs.get(flow.id) if flow.planned else no_steps()


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
