"""The steps of a flow as a tree of text lines, each below the last of the steps that it needs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ..flow.folding import ranks_of
from ..flow.graph import Graph
from .flow_drawing import progress_of, signal_detail
from .flow_view import StepView

# Deeper steps are not indented further.
MAX_INDENT_DEPTH = 15
# Further steps that a line names.
MAX_NAMED_STEPS = 5


class TreeLine(Struct, frozen=True):
    number: int
    """Of the step."""
    prefix: str
    """The branches before its name."""
    others: Sequence[int]
    """The steps that it needs beside the one above it in the tree."""


def tree_lines(needs: Sequence[Sequence[int]]) -> list[TreeLine]:
    """A line for each step. Steps come after those that they need."""
    ranks = ranks_of(needs)
    parents = [max(some, key=lambda need: (ranks[need], need), default=-1) for some in needs]
    children: list[list[int]] = [[] for _ in range(len(needs) + 1)]  # the last one: of no step
    for n, parent in enumerate(parents):
        children[parent].append(n)
    found: list[TreeLine] = []
    waiting = [(n, 0, "", "") for n in reversed(children[-1])]
    while waiting:
        n, depth, prefix, below = waiting.pop()
        found.append(TreeLine(n, prefix, [need for need in needs[n] if need != parents[n]]))
        deeper = depth < MAX_INDENT_DEPTH
        for child in reversed(children[n]):
            last = child == children[n][-1]
            branches = (below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "))
            waiting.append((child, depth + 1, *(branches if deeper else (prefix, below))))
    return found


def numbers_needed(steps: Sequence[StepView]) -> list[list[int]]:
    """What each step needs, as numbers of steps."""
    number = {step.name: n for n, step in enumerate(steps)}
    return [[number[name] for name in step.needs] for step in steps]


def plan_text(graph: Graph, conditions: Mapping[int, str]) -> str:
    """The steps of a plan that has not run."""
    lines = tree_lines(graph.needs)
    width = max((len(line.prefix) + len(graph.steps[line.number].name) for line in lines), default=0)
    return "".join(f"{_planned_line(graph, line, conditions, width)}\n" for line in lines)


def _planned_line(graph: Graph, line: TreeLine, conditions: Mapping[int, str], width: int) -> str:
    step = graph.steps[line.number]
    about = [f"task {step.task}"] if step.task not in ("", step.name) else []
    about += ["for each item"] if step.over is not None else []
    about += {"failure": ["on failure"], "end": ["at the end"]}.get(step.on, [])
    about += [f"when {conditions[line.number]}"] if line.number in conditions else []
    about += others_text([graph.steps[n].name for n in line.others])
    return f"{line.prefix + step.name:<{width}}  {', '.join(about)}".rstrip()


def others_text(names: Sequence[str]) -> list[str]:
    """What a line says of the steps that it needs beside the one above it."""
    more = ", …" if len(names) > MAX_NAMED_STEPS else ""
    return [f"also after {', '.join(names[:MAX_NAMED_STEPS])}{more}"] if names else []


def about_step(view: StepView) -> str:
    """What a line says of a step beside its state."""
    if view.items is not None:
        return progress_of(view.items)
    if view.skipped_because is not None:
        return view.skipped_because
    if view.note is not None:
        return view.note
    if view.signal is not None:
        return signal_detail(view.signal, view.state)
    return "" if view.failure is None else view.failure.line
