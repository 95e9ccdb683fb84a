"""Bugs that can be planted in the code for signals: each breaks one rule of the engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from mainspring.flow import signals
from mainspring.flow.row_edit import RowEdit
from mainspring.flow.signals import SignalSteps, Waits
from mainspring.records.flow import Flow, GivenSignal, GiveSignal, Move, StepStatus
from mainspring.records.job import Job
from mainspring.stores.rules import flow_requests, flows
from mainspring.stores.rules.tables import Tables

from .patch import patch

Plant = Callable[[], AbstractContextManager[None]]


def _unheard_signal() -> AbstractContextManager[None]:
    take = signals.take_signals

    def deaf(flow: Flow, given: Mapping[str, Any], late: Collection[str], awaits: Any, now: datetime) -> Move:
        move = take(flow, given, late, awaits, now)
        return replace(move, wake=move.wake and not given)

    return patch(flows, "take_signals", deaf)


def _late_signal_accepted() -> AbstractContextManager[None]:
    refusal = flow_requests._signal_refusal

    def forgiving(tables: Tables, flow: Flow | None, job: Job, request: GiveSignal) -> Any:
        return refusal(tables, None if flow is None else replace(flow, late=()), job, request)

    return patch(flow_requests, "_signal_refusal", forgiving)


def _forgotten_timeout() -> AbstractContextManager[None]:
    begin = Waits.begin_wait

    def forgetful(self: Waits, name: str, deadline: datetime | None) -> None:
        begin(self, name, deadline)
        self._jobs.clear()

    return patch(Waits, "begin_wait", forgetful)


def _second_signal_accepted() -> AbstractContextManager[None]:
    give = flow_requests._give

    def again(tables: Tables, id: str, request: GiveSignal, now: datetime) -> Any:
        refusal = give(tables, id, request, now)
        if refusal is None or refusal.signal != "twice":
            return refusal
        job, given = tables.job(id), GivenSignal(request.value, request.delivery, now)
        tables.flow_changes.note_signal(id, now, job.queue if job else "", request.name, given)
        return None

    return patch(flow_requests, "_give", again)


def _signal_that_moves_nothing() -> AbstractContextManager[None]:
    return patch(SignalSteps, "steps", lambda self, names: [])


def _signal_without_default() -> AbstractContextManager[None]:
    decide = SignalSteps.decide

    def hard(self: SignalSteps, n: int) -> str | None:
        late = self._graph.steps[n].name in self._late
        return StepStatus.DEAD if late else decide(self, n)

    return patch(SignalSteps, "decide", hard)


def _early_question() -> AbstractContextManager[None]:
    ask = RowEdit.look_at

    def early(self: RowEdit, steps: Iterable[int]) -> None:
        found = list(steps)
        ask(self, found)
        for n in self._graph.signals.values():
            if self.signals is not None and self.statuses[n] == StepStatus.WAITING:
                self.signals.decide(n)

    return patch(RowEdit, "look_at", early)


BUGS: Mapping[str, tuple[str, Plant]] = {
    "unheard-signal": ("a job is not woken by the signal that it waits for", _unheard_signal),
    "late-signal-accepted": ("a signal is accepted after its time was over", _late_signal_accepted),
    "forgotten-timeout": ("the end of a signal's time is not noted", _forgotten_timeout),
    "signal-that-moves-nothing": ("a flow does not go on when its signal is given", _signal_that_moves_nothing),
    "signal-without-default": ("a signal that is late has no default", _signal_without_default),
    "early-question": ("a flow asks for a signal before what it needs has ended", _early_question),
    "second-signal-accepted": ("another value of a signal takes the place of the first", _second_signal_accepted),
}
