"""Steps that a flow takes over from the one that it replays: which they are, and what of them it needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from ..records.flow import Flow, GivenSignal, ItemCounts, StepStatus
from ..records.plan import KeptStep
from .graph import Graph, behind

_FAILED = (StepStatus.DEAD, StepStatus.CANCELLED)
# Of a signal without a value.
_TIMED_OUT = (StepStatus.DEAD, StepStatus.COMPLETED)


class Obstacle(NamedTuple):
    """A step that could not run, and the one that keeps it from that; by number."""

    step: int
    need: int


def run_again(graph: Graph, step: int) -> set[int]:
    """The steps that a replay from this one runs: it, and those behind it."""
    return {step, *behind(graph, [step])}


def obstacle(graph: Graph, flow: Flow, again: Collection[int]) -> Obstacle | None:
    """The first of the steps that are to run again, and could not, since one that is kept has failed."""
    for n in sorted(again):
        if graph.steps[n].on != "success":
            continue
        for need in graph.needs[n]:
            if need not in again and _keeps_from_running(graph, flow, need):
                return Obstacle(n, need)
    return None


def _keeps_from_running(graph: Graph, flow: Flow, n: int) -> bool:
    status = flow.statuses[n]
    return status == StepStatus.UPSTREAM_FAILED or (status in _FAILED and not graph.steps[n].optional)


def needed_values(graph: Graph, flow: Flow, again: Collection[int]) -> list[int]:
    """The kept steps whose values the new flow may read. It may have to run kept steps, too: those that have failed, if
    it is retried, and all behind them; and the task whose items a map takes, since nothing keeps these items."""
    failed = {n for n, status in enumerate(flow.statuses) if status in _FAILED and n not in again}
    readers = {*again, *failed, *behind(graph, failed)}
    readers |= {graph.sources[n] for n in readers if n in graph.sources}
    needed = set(graph.result_steps).union(*(graph.value_steps[n] for n in readers))
    return sorted(
        n for n in needed if n not in again and flow.statuses[n] == StepStatus.COMPLETED and not graph.steps[n].yields
    )


def kept_steps(graph: Graph, flow: Flow, again: Collection[int], values: Mapping[int, KeptStep]) -> dict[int, KeptStep]:
    """All other steps as they ended. `values` are those whose values are taken over."""
    deaths = dict.fromkeys(flow.dead)
    order = [*deaths, *(n for n in range(len(graph.steps)) if n not in deaths)]
    found: dict[int, KeptStep] = {}
    for n in order:
        if n in again:
            continue
        status, counts = flow.statuses[n], flow.counts.get(n)
        note = flow.skipped.get(n) if status == StepStatus.SKIPPED_BY_OPERATOR else flow.notes.get(n)
        kept = replace(values.get(n) or KeptStep(status), status=status, note=note)
        if counts is not None:
            kept = replace(kept, made=counts.made, dead=counts.dead, cancelled=counts.cancelled)
        found[n] = kept
    return found


def with_kept_steps(graph: Graph, flow: Flow) -> Flow:
    """The new flow with the steps that its plan takes over."""
    kept = graph.plan.kept
    operator = StepStatus.SKIPPED_BY_OPERATOR
    signals = {n: one for n, one in kept.items() if graph.steps[n].signal is not None}
    given = {graph.steps[n].name: one.value for n, one in signals.items() if one.value is not None}
    return replace(
        flow,
        inbox={**flow.inbox, **{name: GivenSignal(text, "", flow.began_at) for name, text in given.items()}},
        late=tuple(graph.steps[n].name for n, one in signals.items() if one.value is None and one.status in _TIMED_OUT),
        statuses="".join(kept[n].status if n in kept else status for n, status in enumerate(flow.statuses)),
        counts={
            n: ItemCounts(one.made, one.made, one.dead, one.cancelled)
            for n, one in kept.items()
            if one.made is not None
        },
        notes={n: one.note for n, one in kept.items() if one.note is not None and one.status != operator},
        skipped={n: one.note or "" for n, one in kept.items() if one.status == operator},
        dead=tuple(n for n, one in kept.items() if one.status == StepStatus.DEAD),
    )


def is_kept(graph: Graph, flow: Flow, n: int) -> bool:
    """Whether the step was taken over, and was not put back to work since."""
    kept = graph.plan.kept.get(n)
    return kept is not None and flow.statuses[n] == kept.status and not flow.lives.get(n, 0)
