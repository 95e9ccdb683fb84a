"""What a flow's picture says at each node: the state of its steps, how far they are, why they were not run. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from ..flow.condition_text import condition_text
from ..flow.graph import Graph
from ..flow.layout import EdgeKind, LaidOutNode, Layout, lay_out
from ..records.flow import ItemCounts
from ..records.plan import PlannedStep
from .flow_view import SignalView, StepState, StepView

# Of a condition: longer ones are cut in a picture.
MAX_CONDITION_CHARACTERS = 300
# Of the text at an edge.
MAX_LABEL_CHARACTERS = 60
# What is shown of several steps in one node: the first of these states that one of them has.
_URGENCY: tuple[StepState, ...] = (
    "dead", "retrying", "running", "paused", "pending", "scheduled", "waiting", "cancelled", "not_run", "completed",
    "skipped",
)  # fmt: skip
_ENDED = frozenset({"dead", "not_run", "cancelled", "completed", "skipped"})
_KIND_LABELS: Mapping[EdgeKind, str] = {"failure": "on failure", "end": "at the end"}


class NodeText(Struct, frozen=True):
    """What a node of the picture says."""

    state: StepState | None
    """None before anything has run."""
    label: str
    detail: str


class FlowDrawing(Struct, frozen=True):
    """The picture of a flow, and what is said in it."""

    title: str
    layout: Layout
    texts: Sequence[NodeText]
    """For each node."""
    labels: Sequence[str]
    """For each edge: why the step behind it is not simply run; empty if an earlier edge to it says so, too."""
    conditions: Mapping[int, str]
    """As text, by the number of the step."""

    def hover(self, node: LaidOutNode, text: NodeText) -> str:
        """What is shown of a node to those who point at it."""
        lines = [text.label, text.detail]
        lines += (f"when {self.conditions[n]}" for n in node.steps[:1] if n in self.conditions)
        return "\n".join(line for line in lines if line)


def conditions_of(graph: Graph, numbers: Iterable[int] | None = None) -> dict[int, str]:
    """The conditions of the steps that have one, as text; of these steps, or of all."""
    conditions = ((n, graph.steps[n].when) for n in (range(len(graph.steps)) if numbers is None else numbers))
    return {n: condition_text(graph, when) for n, when in conditions if when is not None}


def draw_flow(
    title: str, graph: Graph, conditions: Mapping[int, str], steps: Sequence[StepView] | None = None
) -> FlowDrawing:
    """The picture of a plan and, with the views of its steps, of how far it is."""
    layout = lay_out(graph)
    conditions = {n: _cut(text, MAX_CONDITION_CHARACTERS) for n, text in conditions.items()}
    texts = [_text(graph, node, steps) for node in layout.nodes]
    return FlowDrawing(title, layout, texts, _edge_labels(layout, conditions), conditions)


def _edge_labels(layout: Layout, conditions: Mapping[int, str]) -> list[str]:
    found: list[str] = []
    said: set[tuple[int, EdgeKind]] = set()
    for edge in layout.edges:
        text = _KIND_LABELS.get(edge.kind, "")
        if edge.kind == "when":
            text = _cut(conditions.get(layout.nodes[edge.target].steps[0], ""), MAX_LABEL_CHARACTERS)
        found.append("" if (edge.target, edge.kind) in said else text)
        said.add((edge.target, edge.kind))
    return found


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _text(graph: Graph, node: LaidOutNode, steps: Sequence[StepView] | None) -> NodeText:
    first = graph.steps[node.steps[0]]
    if steps is None:
        what = "" if len(node.steps) > 1 else _per_item(first) if first.over is not None else _task(first)
        what = "signal" if len(node.steps) == 1 and first.signal is not None else what
        return NodeText(None, node.label, what)
    views = [steps[n] for n in node.steps]
    if len(views) == 1:
        return NodeText(views[0].state, node.label, _detail(views[0]))
    counts: Counter[StepState] = Counter(view.state for view in views)
    state: StepState = next(state for state in _URGENCY if counts[state])
    ended = sum(count for state, count in counts.items() if state in _ENDED)
    dead = f", {counts['dead']:,} dead" if counts["dead"] else ""
    return NodeText(state, node.label, f"{ended:,} of {len(views):,} have ended{dead}")


def _per_item(step: PlannedStep) -> str:
    return "for each item" if step.open_seconds is None else "added one by one"


def _task(step: PlannedStep) -> str:
    return f"task {step.task}" if step.task != step.name else ""


def _detail(view: StepView) -> str:
    if view.items is not None:
        return progress_of(view.items)
    if view.skipped_because is not None:
        return f"skipped: {view.skipped_because}"
    if view.signal is not None:
        return signal_detail(view.signal, view.state)
    attempts = f", attempt {view.attempts}" if view.state in ("running", "retrying") and view.attempts > 1 else ""
    return view.state.replace("_", " ") + attempts


def signal_detail(signal: SignalView, state: StepState) -> str:
    if signal.waits:
        return "waits for a signal"
    if signal.late:
        return "signal late" if state == "dead" else "signal late: default"
    given = " given" if signal.given_at is not None and state in ("waiting", "completed") else ""
    return f"signal{given}" if state in ("waiting", "completed") else state.replace("_", " ")


def progress_of(items: ItemCounts) -> str:
    """How far a map is: 17 of 40 items, 1 dead."""
    dead = f", {items.dead:,} dead" if items.dead else ""
    return f"{items.ended:,} of {items.made:,}{'' if items.closed else ' or more'} items{dead}"
