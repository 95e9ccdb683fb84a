"""The layout of a flow's picture: layers by longest path, the order in a layer by barycentre. Pictures share it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Literal

from msgspec import Struct

from .folding import FoldedGraph, fold, ranks_of
from .graph import Graph, values_in
from .layers import Layers, centres

EdgeKind = Literal["value", "after", "when", "failure", "end"]
"""Why a step needs another: for its value, to come after it, for its condition, or to run when it fails or ends."""
# More bends than that are not drawn: long edges are then straight.
MAX_BENDS_COUNT = 10_000
NODE_HEIGHT_PIXELS = 48
# Between the nodes of a layer, and between layers.
_GAP_PIXELS, _LAYER_GAP_PIXELS = 16, 72
_MARGIN_PIXELS = 16
# Of an edge that passes a layer.
_PASSAGE_PIXELS = 6
_CHARACTER_PIXELS = 8
_PADDING_PIXELS = 34
MIN_WIDTH_PIXELS, MAX_WIDTH_PIXELS = 168, 268


class LaidOutNode(Struct, frozen=True):
    """A box of the picture: one step, or several that are folded."""

    id: str
    """The name of its step; fold:1 and so on if it has several."""
    steps: Sequence[int]
    label: str
    x: int
    y: int
    width: int
    height: int = NODE_HEIGHT_PIXELS

    @property
    def middle(self) -> int:
        return self.y + self.height // 2


class LaidOutEdge(Struct, frozen=True):
    source: int
    """The index of the node that is needed."""
    target: int
    kind: EdgeKind
    points: Sequence[tuple[int, int]]
    """From the right side of the source to the left side of the target."""


class Layout(Struct, frozen=True):
    """Where everything is, in pixels from the upper left corner."""

    width: int
    height: int
    nodes: Sequence[LaidOutNode]
    edges: Sequence[LaidOutEdge]


def lay_out(graph: Graph) -> Layout:
    """The picture of a plan, the same each time. It has a bounded number of nodes, edges and points."""
    folded = fold(graph)
    ranks = ranks_of(folded.needs)
    bends = sum(ranks[n] - ranks[need] - 1 for n, needs in enumerate(folded.needs) for need in needs)
    layers = Layers(folded.needs, ranks, passages=bends <= MAX_BENDS_COUNT)
    tall = NODE_HEIGHT_PIXELS + _GAP_PIXELS
    ys = centres(layers, lambda vertex: tall if vertex < len(ranks) else _PASSAGE_PIXELS)
    labels = [_label(graph, steps) for steps in folded.nodes]
    columns = _columns(layers, labels)
    top = min((y for y in ys[: len(ranks)]), default=0.0) - NODE_HEIGHT_PIXELS / 2
    top = min([top, *ys[len(ranks) :]]) - _MARGIN_PIXELS
    heights = [round(y - top) for y in ys]
    nodes = _nodes(graph, folded, labels, [columns[rank] for rank in ranks], heights)
    kinds = _kinds(graph, folded)
    edges = [
        LaidOutEdge(need, n, kinds[need, n], _points(layers, columns, nodes, heights, need, n))
        for n, needs in enumerate(folded.needs)
        for need in needs
    ]
    lowest = max([node.y + node.height for node in nodes] + heights[len(ranks) :], default=0)
    width = columns[-1][1] if columns else 0
    return Layout(width + _MARGIN_PIXELS, lowest + _MARGIN_PIXELS, nodes, edges)


def _label(graph: Graph, steps: Sequence[int]) -> str:
    first, last = graph.steps[steps[0]].name, graph.steps[steps[-1]].name
    return first if len(steps) == 1 else f"{len(steps):,} steps: {first} … {last}"


def _columns(layers: Layers, labels: Sequence[str]) -> list[tuple[int, int]]:
    """The left and the right side of each layer."""
    found: list[tuple[int, int]] = []
    left = _MARGIN_PIXELS
    for layer in layers.rows:
        widths = [_CHARACTER_PIXELS * len(labels[n]) + _PADDING_PIXELS for n in layer if n < len(labels)]
        width = min(MAX_WIDTH_PIXELS, max([MIN_WIDTH_PIXELS, *widths]))
        found.append((left, left + width))
        left += width + _LAYER_GAP_PIXELS
    return found


def _nodes(
    graph: Graph,
    folded: FoldedGraph,
    labels: Sequence[str],
    columns: Sequence[tuple[int, int]],
    heights: Sequence[int],
) -> list[LaidOutNode]:
    names = {step.name for step in graph.steps}
    ids = (id for id in map("fold:{}".format, count(1)) if id not in names)
    return [
        LaidOutNode(
            id=labels[n] if len(steps) == 1 else next(ids),
            steps=steps,
            label=labels[n],
            x=columns[n][0],
            y=heights[n] - NODE_HEIGHT_PIXELS // 2,
            width=columns[n][1] - columns[n][0],
        )
        for n, steps in enumerate(folded.nodes)
    ]


def _points(
    layers: Layers,
    columns: Sequence[tuple[int, int]],
    nodes: Sequence[LaidOutNode],
    heights: Sequence[int],
    source: int,
    target: int,
) -> list[tuple[int, int]]:
    found = [(nodes[source].x + nodes[source].width, nodes[source].middle)]
    for rank, vertex in layers.passages(source, target):
        found += ((columns[rank][0], heights[vertex]), (columns[rank][1], heights[vertex]))
    found.append((nodes[target].x, nodes[target].middle))
    level = [False, *(a[1] == b[1] == c[1] for a, b, c in zip(found, found[1:], found[2:], strict=False)), False]
    return [point for point, straight in zip(found, level, strict=True) if not straight]


def _kinds(graph: Graph, folded: FoldedGraph) -> dict[tuple[int, int], EdgeKind]:
    """The kind of each edge: that of the first step of its target that needs a step of its source."""
    node_of = {step: n for n, steps in enumerate(folded.nodes) for step in steps}
    found: dict[tuple[int, int], EdgeKind] = {}
    for n, needs in enumerate(graph.needs):
        when = graph.steps[n].when
        read = set() if when is None else {value.step for value in values_in(when)}
        for need in needs:
            edge = node_of[need], node_of[n]
            if edge not in found:
                found[edge] = _kind(graph, need, n, read)
    return found


def _kind(graph: Graph, need: int, n: int, read: set[int]) -> EdgeKind:
    """Why a step needs another one. `read` are the steps that its condition reads."""
    step = graph.steps[n]
    if step.on != "success":
        return step.on
    if need in read:
        return "when"
    return "value" if need in graph.argument_steps[n] else "after"
