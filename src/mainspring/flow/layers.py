"""Layers of a picture: the order of the nodes in each, with few crossings, and the height of each node."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Sequence

# Sweeps over all layers, forth and back.
ORDER_ROUNDS = 4
HEIGHT_ROUNDS = 3


class Layers:
    """The nodes by their layer, with the passages of edges that are longer than one layer.

    Vertices are numbered: first the nodes, then the passages. All long edges of a node share their passages.
    """

    def __init__(self, needs: Sequence[Sequence[int]], ranks: Sequence[int], *, passages: bool) -> None:
        self._ranks = ranks
        self.rows: list[list[int]] = [[] for _ in range(max(ranks, default=-1) + 1)]
        for n, rank in enumerate(ranks):
            self.rows[rank].append(n)
        self._passages: dict[tuple[int, int], int] = {}
        self.before: list[list[int]] = [[] for _ in ranks]
        """The neighbours of each vertex in the layer before its own."""
        self.behind: list[list[int]] = [[] for _ in ranks]
        for n, some in enumerate(needs):
            for need in some:
                if passages or ranks[n] == ranks[need] + 1:
                    self._join(self._reach(need, ranks[n] - 1), n)
        self._order()

    def passages(self, source: int, target: int) -> Iterator[tuple[int, int]]:
        """The layer and the vertex of each passage of the edge."""
        for rank in range(self._ranks[source] + 1, self._ranks[target]):
            if (source, rank) in self._passages:
                yield rank, self._passages[source, rank]

    def _join(self, one: int, other: int) -> None:
        self.behind[one].append(other)
        self.before[other].append(one)

    def _reach(self, source: int, rank: int) -> int:
        """The passage of the source's edges in that layer, or the source itself in its own."""
        last = source
        for layer in range(self._ranks[source] + 1, rank + 1):
            if (source, layer) not in self._passages:
                self._passages[source, layer] = vertex = len(self.before)
                self.before.append([])
                self.behind.append([])
                self.rows[layer].append(vertex)
                self._join(last, vertex)
            last = self._passages[source, layer]
        return last

    def _order(self) -> None:
        """Orders each layer by the middle of its vertices' neighbours. The order with the fewest crossings stays."""
        places = [0] * len(self.before)
        for row in self.rows:
            _number(row, places)
        best, crossings = [list(row) for row in self.rows], self._crossings(places)
        for _ in range(ORDER_ROUNDS):
            for rows, neighbours in ((self.rows[1:], self.before), (self.rows[-2::-1], self.behind)):
                for row in rows:
                    row.sort(key=lambda vertex: _barycentre(vertex, neighbours, places))
                    _number(row, places)
                if (found := self._crossings(places)) < crossings:
                    best, crossings = [list(row) for row in self.rows], found
            if not crossings:
                break
        self.rows = best

    def _crossings(self, places: Sequence[int]) -> int:
        found = 0
        for row in self.rows[1:]:
            seen: list[int] = []
            for vertex in row:
                ends = [places[one] for one in self.before[vertex]]
                found += sum(len(seen) - bisect_right(seen, end) for end in ends)
                for end in ends:
                    insort(seen, end)
        return found


def _number(row: Sequence[int], places: list[int]) -> None:
    for place, vertex in enumerate(row):
        places[vertex] = place


def _barycentre(vertex: int, neighbours: Sequence[Sequence[int]], places: Sequence[int]) -> float:
    some = neighbours[vertex]
    return sum(places[one] for one in some) / len(some) if some else places[vertex]


def centres(layers: Layers, room: Callable[[int], int]) -> list[float]:
    """The height of the middle of each vertex: near its neighbours, in the order of its layer, each with its room."""
    found = [0.0] * len(layers.before)
    offsets = [0.0] * len(layers.before)
    for row in layers.rows:
        at = 0.0
        for vertex in row:
            offsets[vertex] = at + room(vertex) / 2
            at += room(vertex)
        for vertex in row:
            found[vertex] = offsets[vertex] - at / 2
    for _ in range(HEIGHT_ROUNDS):
        for rows, neighbours in ((layers.rows[-2::-1], layers.behind), (layers.rows[1:], layers.before)):
            for row in rows:
                wanted = [_barycentre_height(vertex, neighbours, found) - offsets[vertex] for vertex in row]
                for vertex, height in zip(row, _ascending(wanted), strict=True):
                    found[vertex] = height + offsets[vertex]
    return found


def _barycentre_height(vertex: int, neighbours: Sequence[Sequence[int]], heights: Sequence[float]) -> float:
    some = neighbours[vertex]
    return sum(heights[one] for one in some) / len(some) if some else heights[vertex]


def _ascending(wanted: Sequence[float]) -> Iterator[float]:
    """The ascending values that are nearest to the wanted ones: neighbours in the wrong order share their mean."""
    blocks: list[tuple[float, int]] = []
    for value in wanted:
        total, size = value, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / size:
            total, size = total + blocks[-1][0], size + blocks[-1][1]
            blocks.pop()
        blocks.append((total, size))
    for total, size in blocks:
        for _ in range(size):
            yield total / size
