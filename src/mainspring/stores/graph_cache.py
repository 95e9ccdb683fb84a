"""The graphs of the plans that a process has read lately: plans never change."""

from __future__ import annotations

from collections import OrderedDict

from ..flow.graph import Graph
from ..ids import JobId

# Graphs that are kept: this many, and this many characters of their plans together.
MAX_KEPT_GRAPHS = 2000
MAX_KEPT_CHARACTERS = 20_000_000


class GraphCache:
    """The graphs of flows that were read lately, by the id of the flow."""

    def __init__(self) -> None:
        self._graphs: OrderedDict[JobId, tuple[Graph, int]] = OrderedDict()
        self._characters = 0

    def get(self, id: JobId) -> Graph | None:
        if (found := self._graphs.get(id)) is None:
            return None
        self._graphs.move_to_end(id)
        return found[0]

    def put(self, id: JobId, graph: Graph, characters: int) -> None:
        if id in self._graphs:
            return
        self._graphs[id] = graph, characters
        self._characters += characters
        while len(self._graphs) > MAX_KEPT_GRAPHS or self._characters > MAX_KEPT_CHARACTERS:
            _, (_, size) = self._graphs.popitem(last=False)
            self._characters -= size
