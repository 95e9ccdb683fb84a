"""Pictures of flows: where nodes and edges are, what is folded, and SVG and Mermaid of small flows."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from time import process_time
from xml.etree import ElementTree

import pytest

from mainspring.flow.folding import MAX_EDGES, MAX_NODES, MAX_SUMMARY_NODES, MAX_UNFOLDED_STEPS, fold
from mainspring.flow.graph import Graph
from mainspring.flow.layers import Layers
from mainspring.flow.layout import MAX_BENDS_COUNT, Layout, lay_out
from mainspring.insight.flow_drawing import FlowDrawing, conditions_of, draw_flow
from mainspring.insight.flow_mermaid import mermaid_of
from mainspring.insight.flow_svg import svg_of
from mainspring.insight.flow_view import StepState, StepView
from mainspring.records.flow import ItemCounts
from mainspring.records.plan import Compare, Input, IsTrue, Plan, PlannedStep, ValueOf

PICTURES = Path(__file__).parent / "data" / "flow_pictures"
WRITE = os.environ.get("MAINSPRING_TEST_PICTURES") == "write"
HOW = "MAINSPRING_TEST_PICTURES=write .venv/bin/python -m pytest tests/unit/test_flow_drawing.py"
# As much processor time as the layout of 1,000 steps may take here; some 45 ms are measured.
MAX_LAYOUT_SECONDS = 0.4


def graph(needs: Sequence[Sequence[int]], tasks: Sequence[str] | None = None) -> Graph:
    steps = (PlannedStep(f"s{n}", tasks[n] if tasks else "t", after=tuple(some)) for n, some in enumerate(needs))
    return Graph(Plan(tuple(steps)))


def random_graph(steps: int, seed: int, needs: int = 2, reach: int = 40) -> Graph:
    rng = random.Random(seed)
    return graph([
        sorted({rng.randrange(max(0, n - reach), n) for _ in range(rng.randint(1, needs))}) if n else []
        for n in range(steps)
    ])  # fmt: skip


def order() -> Graph:
    """A flow with each kind of edge."""
    return Graph(
        Plan(
            (
                PlannedStep("check", "check"),
                PlannedStep("reserve", "stock.reserve", over=Input(0), item="item"),
                PlannedStep(
                    "charge", "charge", args={"amount": Input(1)}, when=Compare(">=", ValueOf(0, ("score",)), Input(2))
                ),
                PlannedStep("ship <fast> & \"safe\"", "ship", args={"txn": ValueOf(2), "items": ValueOf(1)}),
                PlannedStep("refund", "refund", args={"txn": ValueOf(2)}, after=(3,), on="failure"),
                PlannedStep("archive", "archive", after=(3,), on="end", when=IsTrue(ValueOf(0))),
                PlannedStep("tell", "tell", after=(0, 3)),
            ),
            inputs=('["tea"]', "7", "80"),
            result=ValueOf(3),
        )
    )  # fmt: skip


def views(graph: Graph, states: Sequence[StepState]) -> list[StepView]:
    counts = ItemCounts(made=40, ended=17, dead=1)
    return [
        StepView(name=step.name, task=step.task, state=state, items=counts if step.over is not None else None)
        for step, state in zip(graph.steps, states, strict=True)
    ]


def picture(name: str) -> FlowDrawing:
    planned = order()
    if name == "planned":
        return draw_flow("order", planned, conditions_of(planned))
    states: list[StepState] = ["completed", "running", "dead", "not_run", "pending", "waiting", "skipped"]
    return draw_flow("order 7", planned, conditions_of(planned), views(planned, states))


FORMATS: dict[str, Callable[[FlowDrawing], str]] = {"svg": svg_of, "mmd": mermaid_of}


@pytest.mark.parametrize("name", ["planned", "running"])
@pytest.mark.parametrize("kind", ["svg", "mmd"])
def test_pictures_are_as_they_were(name: str, kind: str) -> None:
    path, text = PICTURES / f"{name}.{kind}", FORMATS[kind](picture(name))
    if WRITE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"look at it, and if it is meant: {HOW}"


def test_svg_is_well_formed_and_has_neither_a_script_nor_a_link() -> None:
    root = ElementTree.fromstring(svg_of(picture("running")))
    names = {one.tag.rpartition("}")[2] for one in root.iter()}
    assert names == {"svg", "title", "style", "defs", "marker", "path", "rect", "g", "text"}
    assert 'ship <fast> & "safe"' in {one.text for one in root.iter()}
    assert not [name for one in root.iter() for name in one.attrib if name.startswith(("on", "href"))]


def test_mermaid_has_special_letters_as_entities() -> None:
    assert "ship #60;fast#62; #38; #34;safe#34;<br/>" in mermaid_of(picture("planned"))


# layout


def check_layout(found: Layout, graph: Graph) -> None:
    """Nodes overlap no others, edges go from left to right, and everything is inside."""
    assert sorted(n for node in found.nodes for n in node.steps) == list(range(len(graph.steps)))
    assert len({node.id for node in found.nodes}) == len(found.nodes)
    columns: dict[int, list[tuple[int, int]]] = {}
    for node in found.nodes:
        columns.setdefault(node.x, []).append((node.y, node.y + node.height))
        assert min(node.x, node.y) >= 0
        assert node.x + node.width <= found.width
        assert node.y + node.height <= found.height
    assert all(above[1] <= below[0] for some in columns.values() for above, below in pairwise(sorted(some)))
    for edge in found.edges:
        source, target = found.nodes[edge.source], found.nodes[edge.target]
        assert edge.points[0] == (source.x + source.width, source.middle)
        assert edge.points[-1] == (target.x, target.middle)
        assert all(left[0] <= right[0] for left, right in pairwise(edge.points))
        assert all(0 <= y <= found.height for _, y in edge.points)


@pytest.mark.parametrize("steps", [0, 1, 2, 7, 40, MAX_UNFOLDED_STEPS, MAX_UNFOLDED_STEPS + 1, 300])
def test_layouts_of_random_flows_are_sound_and_stable(steps: int) -> None:
    for seed in range(3):
        plan = random_graph(steps, seed)
        check_layout(lay_out(plan), plan)
        assert lay_out(plan) == lay_out(random_graph(steps, seed))


def test_layers_are_longest_paths() -> None:
    found = lay_out(graph([[], [0], [1], [0], [2, 3]]))
    xs = [node.x for node in found.nodes]
    assert xs[0] < xs[1] == xs[3] < xs[2] < xs[4]


def test_order_of_layers_avoids_crossings() -> None:
    crossed = Layers([[], [], [], [2], [1], [0]], [0, 0, 0, 1, 1, 1], passages=True)
    assert [crossed.rows[1][crossed.rows[0].index(need)] for need in (0, 1, 2)] == [5, 4, 3]


def test_a_long_edge_passes_beside_the_nodes_between() -> None:
    found = lay_out(graph([[], [0], [1], [0, 2]]))
    (long,) = (edge for edge in found.edges if (edge.source, edge.target) == (0, 3))
    between = found.nodes[1]
    assert all(not between.y <= y <= between.y + between.height for x, y in long.points[1:-1])
    assert len(long.points) == 4


# folding


def test_small_flows_are_not_folded() -> None:
    steps = MAX_UNFOLDED_STEPS
    assert len(lay_out(graph([[n - 1] if n else [] for n in range(steps)])).nodes) == steps
    (folded,) = lay_out(graph([[n - 1] if n else [] for n in range(steps + 1)])).nodes
    assert (folded.id, folded.label) == ("fold:1", "61 steps: s0 … s60")


def test_chains_of_a_large_flow_are_folded() -> None:
    # one step, then 30 chains of 3 with tasks of their own, then one step
    needs = [[], *([n] if n % 3 else [0] for n in range(90)), list(range(3, 91, 3))]
    tasks = [f"t{n}" for n in range(92)]
    found = lay_out(graph(needs, tasks))
    assert [len(node.steps) for node in found.nodes] == [1, *[3] * 30, 1]
    assert {node.id for node in found.nodes[1:-1]} == {f"fold:{n}" for n in range(1, 31)}


def test_steps_with_the_same_task_and_neighbours_are_folded() -> None:
    needs = [[], *([0] for _ in range(100)), list(range(1, 101))]
    found = lay_out(graph(needs))
    assert [len(node.steps) for node in found.nodes] == [1, 100, 1]
    assert [(edge.source, edge.target, edge.kind) for edge in found.edges] == [(0, 1, "after"), (1, 2, "after")]
    tasks = ["a", *(["b", "c"] * 50), "d"]
    assert [len(node.steps) for node in lay_out(graph(needs, tasks)).nodes] == [1, 50, 50, 1]


def test_ids_of_folded_nodes_are_no_names_of_steps() -> None:
    steps = [PlannedStep("fold:1", "a"), *(PlannedStep(f"s{n}", "b", after=(0,)) for n in range(99))]
    assert [node.id for node in lay_out(Graph(Plan(tuple(steps)))).nodes] == ["fold:1", "fold:2"]


def test_a_folded_node_shows_its_most_urgent_state() -> None:
    plan = graph([[], *([0] for _ in range(99))])
    states: list[StepState] = ["completed"] * 100
    states[1] = "dead"
    for n in range(2, 12):
        states[n] = "running"
    drawing = draw_flow("x", plan, {}, views(plan, states))
    assert (drawing.texts[1].state, drawing.texts[1].detail) == ("dead", "89 of 99 have ended, 1 dead")


LARGE: dict[str, Callable[[], Graph]] = {
    "ladder": lambda: graph([[m for m in (n - 2, n - 1 - n % 2) if m >= 0] for n in range(10_000)]),
    "random": lambda: random_graph(10_000, 1),
    "complete": lambda: graph([list(range(n)) for n in range(400)], [f"t{n}" for n in range(400)]),
    "star": lambda: graph([[0] if n else [] for n in range(5000)], [f"t{n}" for n in range(5000)]),
}


@pytest.mark.parametrize("name", LARGE)
def test_pictures_of_very_large_flows_are_bounded(name: str) -> None:
    plan = LARGE[name]()
    found = lay_out(plan)
    check_layout(found, plan)
    assert len(found.nodes) <= MAX_SUMMARY_NODES
    assert len(svg_of(draw_flow("x", plan, {}))) < 1 << 20


def test_a_thousand_steps_are_laid_out_in_a_moment() -> None:
    plan = random_graph(1000, 1)
    begun = process_time()
    found = lay_out(plan)
    assert process_time() - begun < MAX_LAYOUT_SECONDS
    check_layout(found, plan)
    assert MAX_SUMMARY_NODES < len(found.nodes) <= MAX_NODES
    assert len(fold(plan).needs) == len(found.nodes)
    assert len(found.edges) <= MAX_EDGES


def test_edges_with_too_many_bends_are_straight() -> None:
    # a chain whose steps have tasks of their own, each also needed by the last steps
    needs = [[n - 1] if n else [] for n in range(200)] + [list(range(n % 7, 200)) for n in range(15)]
    plan = graph(needs, [f"t{n}" for n in range(215)])
    found = lay_out(plan)
    check_layout(found, plan)
    assert sum(n - need - 1 for n, some in enumerate(needs) for need in some) > MAX_BENDS_COUNT
    assert {len(edge.points) for edge in found.edges} == {2}
