"""How a flow that is over ends: completed with a value, cancelled, or dead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from ..records.flow import Flow, StepStatus
from ..records.plan import FirstOf, ListOf, ObjectOf, Operand, ValueOf
from .graph import Graph


class Verdict(Struct, frozen=True):
    state: Literal["completed", "dead", "cancelled"]
    result: Operand | None = None
    """What the flow returns, if it completed with a value of its steps."""
    finish: str | None = None
    """The value that a task gave with Finish."""
    dead: tuple[int, ...] = ()
    """The steps that the flow died of, the first one first."""


def judge(graph: Graph, flow: Flow) -> Verdict:
    """The end of a flow that is over."""
    if flow.finish is not None:
        return Verdict("completed", finish=flow.finish)
    if flow.cancelled and not flow.timed_out:
        return Verdict("cancelled")
    result = None if graph.plan.result is None else _chosen(graph.plan.result, flow)
    caught = _caught(graph, flow, result)
    dead = tuple(n for n in flow.dead if not graph.steps[n].optional and n not in caught)
    if dead or flow.timed_out:
        return Verdict("dead", dead=dead)
    stopped = (n for n, status in enumerate(flow.statuses) if status == StepStatus.CANCELLED)
    if any(not graph.steps[n].optional for n in stopped):
        return Verdict("cancelled")
    return Verdict("completed", result)


def _chosen(operand: Operand, flow: Flow) -> Operand | None:
    """The operand with each FirstOf replaced by the one that has a value; None if there is no value."""
    match operand:
        case ValueOf(step=n):
            return operand if flow.statuses[n] == StepStatus.COMPLETED else None
        case FirstOf(operands=operands):
            return next((found for one in operands if (found := _chosen(one, flow)) is not None), None)
    return operand


def _caught(graph: Graph, flow: Flow, result: Operand | None) -> set[int]:
    """The dead steps whose failure a returned step with on="failure" has handled."""
    found: set[int] = set()
    for n in _returned(result):
        if graph.steps[n].on == "failure" and flow.statuses[n] == StepStatus.COMPLETED:
            found |= _failures_before(graph, flow, n)
    return found


def _returned(result: Operand | None) -> Iterator[int]:
    match result:
        case ValueOf(step=n):
            yield n
        case ListOf(items=several) | FirstOf(operands=several):
            for one in several:
                yield from _returned(one)
        case ObjectOf(fields=fields):
            for one in fields.values():
                yield from _returned(one)


def _failures_before(graph: Graph, flow: Flow, n: int) -> set[int]:
    """The dead steps that the step needs, directly or through steps that were not run because of them."""
    found: set[int] = set()
    seen, todo = {n}, [n]
    while todo:
        for need in graph.needs[todo.pop()]:
            if flow.statuses[need] == StepStatus.DEAD:
                found.add(need)
            elif flow.statuses[need] == StepStatus.UPSTREAM_FAILED and need not in seen:
                seen.add(need)
                todo.append(need)
    return found
