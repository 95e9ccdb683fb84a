"""Folding: which steps of a large flow share a node of its picture, so that the picture stays small enough to read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from .graph import Graph

# Flows with at most this many steps are drawn with a node for each step.
MAX_UNFOLDED_STEPS = 60
# Fewer steps than that are not folded: they take as much room as one node with more to read.
MIN_FOLDED_STEPS = 3
# A picture with more than that is drawn as a summary.
MAX_NODES = 1000
MAX_EDGES = 4000
# Nodes of a summary: each has the steps of some neighbouring layers.
MAX_SUMMARY_NODES = 50


class FoldedGraph(Struct, frozen=True):
    """The nodes of a picture, each after those that it needs."""

    nodes: Sequence[Sequence[int]]
    """The numbers of the steps of each node."""
    needs: Sequence[Sequence[int]]


def fold(graph: Graph) -> FoldedGraph:
    """One node for each step of a small flow. In a large one a run of steps that only follow each other is a node, and
    so are steps of the same task with the same neighbours."""
    found = _joined(graph, [[n] for n in range(len(graph.steps))])
    if len(graph.steps) > MAX_UNFOLDED_STEPS:
        found = _joined(graph, _chains(graph))
        found = _joined(graph, _alike(graph, found))
    if len(found.nodes) > MAX_NODES or sum(map(len, found.needs)) > MAX_EDGES:
        found = _joined(graph, _bands(found))
    return found


def ranks_of(needs: Sequence[Iterable[int]]) -> list[int]:
    """The length of the longest path that ends at each node. Nodes come after those that they need."""
    ranks: list[int] = []
    for some in needs:
        ranks.append(max((ranks[need] + 1 for need in some), default=0))
    return ranks


def _joined(graph: Graph, nodes: Sequence[Sequence[int]]) -> FoldedGraph:
    node_of = {step: n for n, steps in enumerate(nodes) for step in steps}
    needs = [{node_of[need] for step in steps for need in graph.needs[step]} - {n} for n, steps in enumerate(nodes)]
    return FoldedGraph(nodes, [sorted(some) for some in needs])


def _chains(graph: Graph) -> list[list[int]]:
    """Runs of steps, each the only one that needs the one before it, and needing nothing else."""
    chains: list[list[int]] = []
    chain_of: dict[int, list[int]] = {}
    for n, needs in enumerate(graph.needs):
        chain = chain_of[needs[0]] if len(needs) == 1 and len(graph.dependents[needs[0]]) == 1 else []
        if not chain:
            chains.append(chain)
        chain.append(n)
        chain_of[n] = chain
    folded = [[chain] if len(chain) >= MIN_FOLDED_STEPS else [[n] for n in chain] for chain in chains]
    return sorted(chain for some in folded for chain in some)


def _alike(graph: Graph, folded: FoldedGraph) -> list[list[int]]:
    """Nodes with the same tasks that need the same nodes and are needed by the same ones are one node."""
    dependents: list[list[int]] = [[] for _ in folded.nodes]
    for n, needs in enumerate(folded.needs):
        for need in needs:
            dependents[need].append(n)
    alike: dict[object, list[int]] = {}
    for n, steps in enumerate(folded.nodes):
        calls = tuple((graph.steps[step].task, graph.steps[step].on) for step in steps)
        alike.setdefault((calls, tuple(folded.needs[n]), tuple(dependents[n])), []).append(n)
    found: list[list[int]] = []
    for some in alike.values():
        if len(some) >= MIN_FOLDED_STEPS:
            found.append([step for n in some for step in folded.nodes[n]])
        else:
            found += (list(folded.nodes[n]) for n in some)
    return sorted(found, key=lambda steps: steps[0])


def _bands(folded: FoldedGraph) -> list[list[int]]:
    """The steps of some layers together, so that there are few nodes whatever the graph is."""
    ranks = ranks_of(folded.needs)
    layers = -(-(max(ranks) + 1) // MAX_SUMMARY_NODES)
    bands: list[list[int]] = [[] for _ in range(max(ranks) // layers + 1)]
    for steps, rank in zip(folded.nodes, ranks, strict=True):
        bands[rank // layers] += steps
    return bands
