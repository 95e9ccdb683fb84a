"""Bugs that can be planted in the code for flows: each breaks one rule of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from mainspring.engine import Engine
from mainspring.flow import moves
from mainspring.flow.row_edit import RowEdit
from mainspring.ids import JobId
from mainspring.records.flow import FAN_OUT, Flow, ItemCounts, StepStatus
from mainspring.records.job import Enqueued, Job, NewJob
from mainspring.records.outcome import Outcome, StepEnding
from mainspring.records.step import StepRef
from mainspring.stores.memory.store import MemoryStore
from mainspring.stores.memory.tables import MemoryTables
from mainspring.stores.rules import enqueue, flows
from mainspring.stores.rules.flow_changes import FlowChanges
from mainspring.task.task import Task
from mainspring.worker import flow_tasks

from .patch import patch

Plant = Callable[[], AbstractContextManager[None]]


def _release_twice() -> AbstractContextManager[None]:
    set_status = RowEdit.set_status

    def again(self: RowEdit, n: int, status: str) -> None:
        set_status(self, n, status)
        released = [m for m in self._graph.dependents[n] if self.statuses[m] == StepStatus.RELEASED]
        if status != StepStatus.RELEASED:
            self._to_decide += released

    return patch(RowEdit, "set_status", again)


def _release_without_fence() -> AbstractContextManager[None]:
    fenced = MemoryStore._finish_one

    def unfenced(self: MemoryStore, outcome: Outcome) -> bool:
        accepted = fenced(self, outcome)
        if not accepted and outcome.step is not None and outcome.state.final:
            end = (outcome.step, outcome.state, outcome.finished_at, outcome.result)
            self._tables.flow_changes.note_end_of(*end)
        return accepted

    return patch(MemoryStore, "_finish_one", unfenced)


def _lost_wake_up() -> AbstractContextManager[None]:
    wake = flows._wake

    def deaf(tables: Any, id: JobId, at: datetime) -> Any:
        flow = tables.flow(id)
        return iter(()) if flow is not None and flow.revision == 1 else wake(tables, id, at)

    return patch(flows, "_wake", deaf)


def _early_fan_in() -> AbstractContextManager[None]:
    return patch(ItemCounts, "done", property(lambda self: self.closed and self.ended >= min(self.made, 1)))


def _cancel_that_releases() -> AbstractContextManager[None]:
    decide = RowEdit._decide

    def as_if_open(self: RowEdit, n: int) -> str | None:
        state, self.state = self.state, "open"
        try:
            return decide(self, n)
        finally:
            self.state = state

    return patch(RowEdit, "_decide", as_if_open)


@contextmanager
def _count_of_repeated_page() -> Iterator[None]:
    enqueue_one = enqueue.enqueue_one

    def counted(tables: MemoryTables, new: NewJob, now: Any) -> Enqueued:
        if new.step is not None and tables.job(new.id) is not None:
            tables.flow_changes.note_made_item(new.step, now)
        return enqueue_one(tables, new, now)

    with _pages_sent_twice(lambda job: job), patch(enqueue, "enqueue_one", counted):
        yield


def _pages_sent_twice(again: Callable[[NewJob], NewJob]) -> AbstractContextManager[None]:
    """Every page of items arrives twice, as after a lost reply. With the same jobs this alone breaks no rule."""
    send = MemoryStore.enqueue

    async def twice(self: MemoryStore, jobs: Sequence[NewJob], **options: Any) -> list[Enqueued]:
        answers = await send(self, jobs, **options)
        if jobs[0].step is not None:
            await send(self, [again(job) for job in jobs], **options)
        return answers

    return patch(MemoryStore, "enqueue", twice)


@contextmanager
def _value_of_a_refused_run() -> Iterator[None]:
    fenced, note_end, refused = MemoryStore._finish_one, FlowChanges.note_end, dict[JobId, str]()

    def remembering(self: MemoryStore, outcome: Outcome) -> bool:
        accepted = fenced(self, outcome)
        if not accepted and outcome.result is not None:
            refused[outcome.id] = outcome.result
        return accepted

    def with_first(self: FlowChanges, ref: StepRef, job: Job, ending: StepEnding | None = None) -> None:
        note_end(self, ref, replace(job, result=refused.get(job.id, job.result)), ending)

    with patch(MemoryStore, "_finish_one", remembering), patch(FlowChanges, "note_end", with_first):
        yield


def _spread_again() -> AbstractContextManager[None]:
    return _pages_sent_twice(lambda job: replace(job, id=f"{job.id}-again"))


def _unserved_fan_out() -> AbstractContextManager[None]:
    make = flow_tasks.flow_tasks

    def without(engine: Engine) -> Mapping[str, Task[Any, Any]]:
        return {name: task for name, task in make(engine).items() if name != FAN_OUT}

    return patch(flow_tasks, "flow_tasks", without)


def _revived_without_descendants() -> AbstractContextManager[None]:
    return patch(moves, "behind", lambda *given: set())


def _wake_before_write() -> AbstractContextManager[None]:
    put_flow = MemoryTables.put_flow

    def late(self: MemoryTables, flow: Flow) -> None:
        if flow.state != "over":
            put_flow(self, flow)

    return patch(MemoryTables, "put_flow", late)


BUGS: Mapping[str, tuple[str, Plant]] = {
    "release-twice": ("a step is released twice by the end of what it needs", _release_twice),
    "release-without-fence": ("an outcome that is refused moves the flow", _release_without_fence),
    "lost-wake-up": ("a flow that is over as soon as it is planned is not woken", _lost_wake_up),
    "early-fan-in": ("a map ends with the first of its items", _early_fan_in),
    "cancel-that-releases": ("a flow that is cancelled releases steps as before", _cancel_that_releases),
    "count-of-repeated-page": ("a page of items that arrives twice is counted twice", _count_of_repeated_page),
    "value-of-a-refused-run": ("a step gets the value of a run that was refused", _value_of_a_refused_run),
    "spread-again": ("a page of items that is sent again has other jobs", _spread_again),
    "unserved-fan-out": ("no worker makes the items of large maps", _unserved_fan_out),
    "revived-without-descendants": ("what is behind a retried step is not decided again", _revived_without_descendants),
    "wake-before-write": ("a flow is woken before its row says that it is over", _wake_before_write),
}
