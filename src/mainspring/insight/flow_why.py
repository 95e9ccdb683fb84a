"""Why a flow waits: down to the steps that run or could run, and why steps were not run. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from ..flow.condition_text import MAX_LITERAL_CHARACTERS, condition_text, operand_text
from ..flow.conditions import ABSENT, at_path
from ..flow.graph import Graph, extract_key, values_in
from ..flow.kept_steps import is_kept
from ..ids import JobId
from ..mask import brief_text
from ..records.flow import SKIPPED, Flow, ItemCounts, StepStatus
from ..records.job import Job
from ..records.plan import ValueOf
from .why import Reason, at_text

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
    is_batch: bool = False
    """Whether it has the jobs of a batch."""

    @property
    def text(self) -> str:
        chain = self.chain
        if len(chain) > MAX_CHAIN_STEPS:
            chain = (chain[0], "…", *chain[2 - MAX_CHAIN_STEPS :])
        return " <- ".join(chain)


def roots(graph: Graph, row: Flow) -> list[Root]:
    """What the flow waits for, first step first, up to a limit."""
    released = [n for n, status in enumerate(row.statuses) if status == StepStatus.RELEASED]
    return [Root(n, _chain(graph, row, n), n in graph.open_steps) for n in released[:MAX_ROOTS]]


def _chain(graph: Graph, row: Flow, n: int) -> tuple[str, ...]:
    chain, at, seen = [graph.steps[n].name], n, {n}
    while waiting := [m for m in graph.dependents[at] if row.statuses[m] == StepStatus.WAITING and m not in seen]:
        at = waiting[-1]
        seen.add(at)
        chain.append(graph.steps[at].name)
    return tuple(reversed(chain))


def waits_for_signals(graph: Graph, row: Flow) -> list[Reason]:
    """A reason for each signal that the flow waits for, up to a limit."""
    found: list[Reason] = []
    for name, deadline in list(row.waits.items())[:MAX_ROOTS]:
        if not name.isprintable():  # a sleep beside the signals of a durable task
            continue
        n = graph.signals.get(name)
        what = f"the signal {name!r}"
        if n is not None:
            what = f"{Root(n, _chain(graph, row, n)).text}: {what} has not been given"
        default = n is not None and (signal := graph.steps[n].signal) is not None and signal.default is not None
        then = "its default is taken" if default else "it is late" if n is None else "it is dead"
        until = "" if deadline is None else f"; at {at_text(deadline.at)} {then}"
        found.append(
            Reason(
                code="waits_for_signal",
                text=f"waits for {what}{until}",
                until=None if deadline is None else deadline.at,
                signal=name if n is None else None,
            )
        )
    return found


def waits_for(root: Root, job: Job | None, why: Sequence[Reason], counts: ItemCounts | None) -> Reason:
    """The reason of a flow that waits for this step. `why` are the reasons of its job, or of its next item's."""
    first = why[0] if why else None
    detail = "its job is gone" if first is None else first.text
    if counts is not None:
        progress = _batch_progress(counts) if root.is_batch else _progress(counts)
        detail = progress + ("" if first is None else f"; the next one: {first.text}")
    elif job is not None and job.attempt and first is not None and first.code == "not_due":
        detail = f"retrying, {first.text}"
    holders: tuple[JobId, ...] = () if job is None else (job.id,)
    until, cause = (None, None) if first is None else (first.until, first.cause or first.code)
    text = f"waits for {root.text}: {detail}"
    return Reason(code="waits_for_steps", text=text, until=until, holders=holders, cause=cause)


def _progress(counts: ItemCounts) -> str:
    more = "" if counts.closed else ", and more are made"
    dead = f", {counts.dead:,} of them dead" if counts.dead else ""
    return f"{counts.ended:,} of {counts.made:,} items have ended{dead}{more}"


def _batch_progress(counts: ItemCounts) -> str:
    dead = f", {counts.dead:,} of them dead" if counts.dead else ""
    more = "" if counts.closed else "; open: its maker adds more"
    return f"{counts.ended:,} of {counts.made:,} have ended{dead}{more}"


def steps_not_run(graph: Graph, row: Flow) -> list[Reason]:
    """A reason for each step that was not run, and will not be."""
    reasons = (reason_not_run(graph, row, n) for n in range(len(graph.steps)))
    return [reason for reason in reasons if reason is not None]


def reason_not_run(graph: Graph, row: Flow, n: int) -> Reason | None:
    """Why the step of this number was not run; None if it was, or may be."""
    name, status = graph.steps[n].name, row.statuses[n]
    if status == StepStatus.UPSTREAM_FAILED:
        failed = [graph.steps[m].name for m in graph.needs[n] if row.statuses[m] in "du"]
        return Reason(code="step_not_run", text=f"{name} was not run: {', '.join(failed)} failed")
    if status == StepStatus.SKIPPED_BY_CONDITION:
        return Reason(code="step_skipped", text=f"{name} was skipped: {_condition(graph, row, n)}")
    if status in SKIPPED:
        said = f" ({row.skipped[n]})" if status == StepStatus.SKIPPED_BY_OPERATOR and row.skipped.get(n) else ""
        return Reason(code="step_skipped", text=f"{name} was skipped: {_SKIPPED_BECAUSE[status]}{said}")
    return None


# conditions as text


def _condition(graph: Graph, row: Flow, n: int) -> str:
    when = graph.steps[n].when
    if when is None:
        return "its condition did not hold"
    values = {operand_text(graph, value): _value(graph, row, value) for value in values_in(when)}
    known = ", ".join(f"{name} = {value}" for name, value in values.items() if value is not None)
    return f"{condition_text(graph, when)} did not hold{f' ({known})' if known else ''}"


def _value(graph: Graph, row: Flow, value: ValueOf) -> str | None:
    """What the value was, as far as the row has it still. None if only the flow that this one replays had it."""
    if row.statuses[value.step] != StepStatus.COMPLETED:
        return "absent"
    text = row.extracts.get(extract_key(value))
    if text is None and value.step in row.values:
        found = at_path(msgspec.json.decode(row.values[value.step]), value.path)
        text = "absent" if found is ABSENT else msgspec.json.encode(found).decode()
    if text is None and is_kept(graph, row, value.step):
        return None
    return "absent" if text is None else brief_text(text, MAX_LITERAL_CHARACTERS) or "a long value"
