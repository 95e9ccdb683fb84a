"""Conditions of steps as text: check.ok and check.score >= 80."""

from __future__ import annotations

from ..mask import brief_text
from ..records.plan import AllOf, AnyOf, Compare, Condition, Exists, FirstOf, Input, IsTrue, Not, Operand, ValueOf
from .graph import Graph

# Of a known value in a condition.
MAX_LITERAL_CHARACTERS = 50


def condition_text(graph: Graph, condition: Condition) -> str:
    """The condition as it would be written in Python, with the names of steps for their values."""
    match condition:
        case Compare(op=op, left=left, right=right):
            return f"{operand_text(graph, left)} {op} {operand_text(graph, right)}"
        case IsTrue(operand=operand):
            return operand_text(graph, operand)
        case Exists(operand=operand):
            return f"exists({operand_text(graph, operand)})"
        case Not(condition=inner):
            return f"not ({condition_text(graph, inner)})"
        case AllOf(conditions=several):
            return " and ".join(_inner(graph, one) for one in several)
        case AnyOf(conditions=several):
            return " or ".join(_inner(graph, one) for one in several)


def _inner(graph: Graph, condition: Condition) -> str:
    text = condition_text(graph, condition)
    return f"({text})" if isinstance(condition, AllOf | AnyOf) else text


def operand_text(graph: Graph, operand: Operand) -> str:
    match operand:
        case Input(n=n):
            return brief_text(graph.plan.inputs[n], MAX_LITERAL_CHARACTERS)
        case ValueOf(step=n, path=path):
            parts = (f".{part}" if isinstance(part, str) and part.isidentifier() else f"[{part!r}]" for part in path)
            return graph.steps[n].name + "".join(parts)
        case FirstOf(operands=several):
            return f"first({', '.join(operand_text(graph, one) for one in several)})"
    return "…"
