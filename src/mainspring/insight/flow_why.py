"""Why a flow waits: down to the steps that run or could run, and why steps were not run. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from ..flow.conditions import ABSENT, at_path
from ..flow.graph import Graph, extract_key, values_in
from ..ids import JobId
from ..records.flow import SKIPPED, Flow, ItemCounts, StepStatus
from ..records.job import Job
from ..records.plan import AllOf, AnyOf, Compare, Condition, Exists, FirstOf, Input, IsTrue, Not, Operand, ValueOf
from .why import Reason

# Steps that a reason names on the way from the end of a flow to what it waits for.
MAX_CHAIN_STEPS = 4
# Steps whose reasons are looked up.
MAX_ROOTS = 10
_SKIPPED_BECAUSE = {
    StepStatus.SKIPPED_ABSENT: "an argument has no value, and its parameter does not accept None",
    StepStatus.SKIPPED_WITH_ALL: "everything that it needs was skipped",
    StepStatus.SKIPPED_BY_TASK: "its task raised Skip",
    StepStatus.NOT_NEEDED: "it runs after a failure, and there was none",
    StepStatus.SKIPPED_BY_OPERATOR: "an operator has skipped it",
}


class Root(Struct, frozen=True):
    """A step that has been released and has not ended, with the steps that wait for it."""

    number: int
    chain: tuple[str, ...]
    """From a step that nothing waits for down to this one."""

    @property
    def text(self) -> str:
        chain = self.chain
        if len(chain) > MAX_CHAIN_STEPS:
            chain = (chain[0], "…", *chain[2 - MAX_CHAIN_STEPS :])
        return " <- ".join(chain)


def roots(graph: Graph, row: Flow) -> list[Root]:
    """What the flow waits for, first step first, up to a limit."""
    released = [n for n, status in enumerate(row.statuses) if status == StepStatus.RELEASED]
    return [Root(n, _chain(graph, row, n)) for n in released[:MAX_ROOTS]]


def _chain(graph: Graph, row: Flow, n: int) -> tuple[str, ...]:
    chain, at, seen = [graph.steps[n].name], n, {n}
    while waiting := [m for m in graph.dependents[at] if row.statuses[m] == StepStatus.WAITING and m not in seen]:
        at = waiting[-1]
        seen.add(at)
        chain.append(graph.steps[at].name)
    return tuple(reversed(chain))


def waits_for(root: Root, job: Job | None, why: Sequence[Reason], counts: ItemCounts | None) -> Reason:
    """The reason of a flow that waits for this step. `why` are the reasons of its job, or of its next item's."""
    first = why[0] if why else None
    detail = "its job is gone" if first is None else first.text
    if counts is not None:
        detail = _progress(counts) + ("" if first is None else f"; the next one: {first.text}")
    elif job is not None and job.attempt and first is not None and first.code == "not_due":
        detail = f"retrying, {first.text}"
    holders: tuple[JobId, ...] = () if job is None else (job.id,)
    until = None if first is None else first.until
    return Reason(code="waits_for_steps", text=f"waits for {root.text}: {detail}", until=until, holders=holders)


def _progress(counts: ItemCounts) -> str:
    more = "" if counts.closed else ", and more are made"
    dead = f", {counts.dead:,} of them dead" if counts.dead else ""
    return f"{counts.ended:,} of {counts.made:,} items have ended{dead}{more}"


def steps_not_run(graph: Graph, row: Flow) -> list[Reason]:
    """A reason for each step that was not run, and will not be."""
    found: list[Reason] = []
    for n, status in enumerate(row.statuses):
        name = graph.steps[n].name
        if status == StepStatus.UPSTREAM_FAILED:
            failed = [graph.steps[m].name for m in graph.needs[n] if row.statuses[m] in "du"]
            found.append(Reason(code="step_not_run", text=f"{name} was not run: {', '.join(failed)} failed"))
        elif status == StepStatus.SKIPPED_BY_CONDITION:
            found.append(Reason(code="step_skipped", text=f"{name} was skipped: {_condition(graph, row, n)}"))
        elif status in SKIPPED:
            found.append(Reason(code="step_skipped", text=f"{name} was skipped: {_SKIPPED_BECAUSE[status]}"))
    return found


# conditions as text


def _condition(graph: Graph, row: Flow, n: int) -> str:
    when = graph.steps[n].when
    if when is None:
        return "its condition did not hold"
    values = {_operand(graph, value): _value(row, value) for value in values_in(when)}
    known = ", ".join(f"{name} = {value}" for name, value in values.items())
    return f"{_text(graph, when)} did not hold{f' ({known})' if known else ''}"


def _text(graph: Graph, condition: Condition) -> str:
    match condition:
        case Compare(op=op, left=left, right=right):
            return f"{_operand(graph, left)} {op} {_operand(graph, right)}"
        case IsTrue(operand=operand):
            return _operand(graph, operand)
        case Exists(operand=operand):
            return f"exists({_operand(graph, operand)})"
        case Not(condition=inner):
            return f"not ({_text(graph, inner)})"
        case AllOf(conditions=several):
            return " and ".join(_inner(graph, one) for one in several)
        case AnyOf(conditions=several):
            return " or ".join(_inner(graph, one) for one in several)


def _inner(graph: Graph, condition: Condition) -> str:
    text = _text(graph, condition)
    return f"({text})" if isinstance(condition, AllOf | AnyOf) else text


def _operand(graph: Graph, operand: Operand) -> str:
    match operand:
        case Input(n=n):
            return graph.plan.inputs[n][:50]
        case ValueOf(step=n, path=path):
            parts = (f".{part}" if isinstance(part, str) and part.isidentifier() else f"[{part!r}]" for part in path)
            return graph.steps[n].name + "".join(parts)
        case FirstOf(operands=several):
            return f"first({', '.join(_operand(graph, one) for one in several)})"
    return "…"


def _value(row: Flow, value: ValueOf) -> str:
    """What the value was, as far as the row has it still."""
    if row.statuses[value.step] != StepStatus.COMPLETED:
        return "absent"
    text = row.extracts.get(extract_key(value))
    if text is None and value.step in row.values:
        found = at_path(msgspec.json.decode(row.values[value.step]), value.path)
        text = "absent" if found is ABSENT else msgspec.json.encode(found).decode()
    return "absent" if text is None else text[:50] or "a long value"
