"""What looks wrong in a plan that can be run: steps that can never run, and values that no step reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..records.plan import AllOf, Compare, Condition, Exists, IsTrue, Operand, ValueOf
from .graph import Graph


def never_run(graph: Graph) -> list[tuple[int, int]]:
    """Steps that can never run, each with the step on="failure" whose value it needs beside those of steps that must
    have failed for that one to run."""
    completed: list[int] = []  # bits of the steps that have completed if this one runs
    found: list[tuple[int, int]] = []
    catches = sum(1 << n for n, step in enumerate(graph.steps) if step.on == "failure")
    for n in range(len(graph.steps)):
        steps = 0
        for need in _completed_before(graph, n):
            steps |= completed[need] | 1 << need
        completed.append(steps)
        for catch in _bits(steps & catches):
            if all(steps >> need & 1 for need in graph.needs[catch]):
                found.append((n, catch))
                break
    return found


def unread(graph: Graph, returns: Callable[[int], bool]) -> list[int]:
    """Steps that return something which neither another step nor the flow's result reads, and that no step follows."""
    return [
        n
        for n, step in enumerate(graph.steps)
        if n not in graph.needed_steps and not graph.dependents[n] and step.on == "success" and returns(n)
    ]


def _completed_before(graph: Graph, n: int) -> Iterator[int]:
    """The steps that must have completed for this one to run: those whose values it cannot do without."""
    step = graph.steps[n]
    needed = [operand for name, operand in step.args.items() if name not in step.accepts_none]
    needed += [] if step.over is None else [step.over]
    needed += [] if step.when is None else list(_operands(step.when))
    for operand in needed if step.on == "success" else []:
        if isinstance(operand, ValueOf):
            yield operand.step


def _operands(condition: Condition) -> Iterator[Operand]:
    """The operands without which the condition does not hold."""
    match condition:
        case Compare(left=left, right=right):
            yield from (left, right)
        case IsTrue(operand=operand) | Exists(operand=operand):
            yield operand
        case AllOf(conditions=several):
            for one in several:
                yield from _operands(one)


def _bits(number: int) -> Iterator[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low
