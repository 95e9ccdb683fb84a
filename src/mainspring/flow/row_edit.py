"""A flow's row while it changes: statuses, values and jobs to be made, and the rule that decides each step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from heapq import heappop, heappush
from typing import Any

import msgspec
from msgspec.structs import replace

from ..records.flow import OPEN, SKIPPED, Flow, FlowState, ItemCounts, Move, StepEnd, StepStatus
from ..records.job import NewJob
from ..records.plan import FirstOf, Input, ListOf, ObjectOf, Operand, ValueOf
from ..records.step import StepRef, StepValue, position_of, split_position
from .batch_items import close_batch, has_failed, open_batch, summary_text
from .conditions import ABSENT, Absent, LargeValue, at_path, is_true, none_if_absent
from .graph import Graph, extract_key
from .job_template import JobTemplate, fan_out_job, first_job, released
from .json_text import encode_text, object_text, pointer_part
from .map_ends import end_of_map, judge_map
from .signals import SIGNAL_LATE, SignalSteps
from .yielding import ITEMS_STOPPED, close_maps, may_run, open_map

# A larger result is read by the worker that needs it.
MAX_INLINE_BYTES = 4096
# All values of a row together.
MAX_ROW_BYTES = 65_536
# A larger map, or one over a large value, is made by a job of its own.
MAX_MOVED_ITEMS = 200
_NULL = "null"
_COMPLETED = frozenset(StepStatus.COMPLETED)
# Stands in Flow.extracts for a value that is too large. It is no JSON.
_LARGE = ""
_decode = msgspec.json.decode


class Filled(msgspec.Struct):
    """The arguments of a step's job as JSON, and those that the worker reads."""

    texts: dict[str, str] = {}
    refs: dict[str, StepValue] = {}


class RowEdit:
    """Applies what happened to a flow, in order; move() returns the result."""

    def __init__(self, graph: Graph, flow: Flow, now: datetime) -> None:
        self._graph, self._flow, self.now = graph, flow, now
        self._inputs = graph.plan.inputs
        self.statuses = list(flow.statuses)
        self.state: FlowState = flow.state
        self.values = dict(flow.values)
        self.extracts = dict(flow.extracts)
        self.counts = dict(flow.counts)
        self.lives = dict(flow.lives)
        self.notes = dict(flow.notes)
        self.skipped = dict(flow.skipped)
        self.dead = list(flow.dead)
        self.finish = flow.finish
        self._decoded: dict[int, Any] = {}
        self._to_decide: list[int] = []
        self._queued: set[int] = set()
        self._read: set[int] = set()
        """Steps whose values were read by a step that has been decided."""
        self._jobs: list[NewJob] = []
        self._templates: dict[int, JobTemplate] = {}
        """Of the items of maps."""
        self.signals = SignalSteps(graph, flow, now) if graph.signals else None
        self.cancelled: set[int] = set()
        """Steps whose unfinished jobs are cancelled."""

    def move(self) -> Move:
        self.decide_all()
        self._drop_values()
        over = self.state == "over" or self._has_ended()
        flow = replace(
            self._flow,
            revision=self._flow.revision + 1,
            statuses="".join(self.statuses),
            state="over" if over else self.state,
            values=self.values,
            extracts=self.extracts,
            counts=self.counts,
            lives=self.lives,
            notes=self.notes,
            skipped=self.skipped,
            dead=tuple(self.dead),
            finish=self.finish,
            cancelled=self._flow.cancelled or self.state in ("cancelling", "aborting"),
            ended_at=(self._flow.ended_at or self.now) if over else None,
        )
        move = Move(flow, tuple(self._jobs), tuple(sorted(self.cancelled)), (), over and self._flow.state != "over")
        return move if self.signals is None else self.signals.written_to(move)

    def _has_ended(self) -> bool:
        return OPEN.isdisjoint(self.statuses) and all(counts.done for counts in self.counts.values())

    # what happened

    def look_at(self, steps: Iterable[int]) -> None:
        """Decides these steps in move(), if they wait."""
        for n in steps:
            if n not in self._queued and self.statuses[n] == StepStatus.WAITING:
                self._queued.add(n)
                heappush(self._to_decide, n)

    def end(self, end: StepEnd) -> None:
        """Applies the end of a job. The end of an earlier life, of a step that has ended, and of one that was put back
        to work after its flow has completed changes nothing."""
        life, n, index = split_position(end.position)
        if life != self.lives.get(n, 0) or self.state == "over":
            return
        if self._graph.steps[n].over is not None:
            end_of_map(self, self._graph, n, index, end)
        elif self.statuses[n] == StepStatus.RELEASED:
            self._end_of_step(n, end)
        ends_flow = end.finish and not self._graph.plan.grows
        if ends_flow and self.finish is None and self.state in ("open", "failing"):
            self.finish = end.result or _NULL
            self.stop("finishing")

    def complete_items(self, position: int, count: int) -> None:
        """Applies that this many items of the map at this position have completed."""
        life, n, _ = split_position(position)
        if life == self.lives.get(n, 0) and self._graph.steps[n].over is not None and self.state != "over":
            counts = self.counts.get(n, ItemCounts())
            self.counts[n] = replace(counts, ended=counts.ended + count)
            self.judge_map(n)

    def _end_of_step(self, n: int, end: StepEnd) -> None:
        match end.state:
            case "completed" if end.skipped:
                self.set_status(n, StepStatus.SKIPPED_BY_TASK)
            case "completed":
                self.keep_value(n, end.result or _NULL)
                self.set_status(n, StepStatus.COMPLETED)
            case "dead":
                self.set_status(n, StepStatus.DEAD)
            case "cancelled":
                self.set_status(n, StepStatus.CANCELLED)
        if n in self._graph.yielders:
            close_maps(self, self._graph.yielders[n].maps, n, end)

    def judge_map(self, n: int) -> None:
        """Ends the map if all of its items have ended, or if too many are dead."""
        judge_map(self, self._graph, n)

    def set_status(self, n: int, status: str) -> None:
        if n in self.skipped and status in (StepStatus.DEAD, StepStatus.CANCELLED):
            status = StepStatus.SKIPPED_BY_OPERATOR
        self.statuses[n] = status
        self._read.update(self._graph.value_steps[n])
        self.look_at(self._graph.decided_after[n])
        if status == StepStatus.DEAD:
            self.dead.append(n)
            if self._graph.plan.fail_fast and not self._graph.steps[n].optional and self.state == "open":
                self.stop("failing")

    def stop(self, state: FlowState) -> None:
        """Cancels what may not run any more: see may_run()."""
        self.state = state
        for n, status in enumerate(self.statuses):
            if status == StepStatus.RELEASED and not self.may_run(n):
                self.cancelled.add(n)
                if n in self._graph.open_steps:
                    close_batch(self, self._graph, n, ITEMS_STOPPED)
        self.look_at(range(len(self.statuses)))

    def may_run(self, n: int) -> bool:
        """Whether the flow's state lets the step run."""
        return may_run(self._graph.steps[n], self.state)

    # deciding

    def decide_all(self) -> None:
        """Decides the steps that may have to run, each after those that it needs."""
        while self._to_decide:
            n = heappop(self._to_decide)
            self._queued.discard(n)
            if (status := self._decide(n)) == StepStatus.RELEASED:
                self._release(n)
            elif status is not None:
                self.set_status(n, status)

    def failed(self, n: int) -> bool:
        status = self.statuses[n]
        if status == StepStatus.RELEASED and n in self._graph.open_steps:
            return has_failed(self, n)
        return status == StepStatus.UPSTREAM_FAILED or (status == StepStatus.DEAD and not self._graph.steps[n].optional)

    def _was_cancelled(self, n: int) -> bool:
        return self.statuses[n] == StepStatus.CANCELLED and not self._graph.steps[n].optional

    def _was_skipped(self, n: int) -> bool:
        status = self.statuses[n]
        optional = self._graph.steps[n].optional and status in (StepStatus.DEAD, StepStatus.CANCELLED)
        return status in SKIPPED or optional

    def _have_completed(self, steps: Iterable[int]) -> bool:
        return {self.statuses[n] for n in steps} <= _COMPLETED

    def _ended(self, steps: Iterable[int], source: int | None = None) -> bool:
        """`source` is the step that yields the items of a map: for the map it need only have begun."""
        return all(
            self.statuses[n] not in OPEN or (n == source and self.statuses[n] == StepStatus.RELEASED) for n in steps
        )

    def _decide(self, n: int) -> str | None:
        """The next status of a step that waits; None if it waits on."""
        step, needs, source = self._graph.steps[n], self._graph.needs[n], self._graph.sources.get(n)
        # Hot: nearly always so.
        if step.on == "success" and self.state == "open" and not step.yields and self._have_completed(needs):
            return self._checked(n)
        if step.on == "success" and any(map(self.failed, needs)):
            return StepStatus.UPSTREAM_FAILED
        if not self.may_run(n):
            return StepStatus.CANCELLED
        if n in self._graph.yielders and not self._ended(self._graph.yielders[n].awaited):
            return None
        if step.on == "failure":
            if any(map(self.failed, needs)):
                return self._checked(n) if self._ended(self._graph.value_steps[n], source) else None
            return StepStatus.NOT_NEEDED if self._ended(needs, source) else None
        if step.on == "success" and any(map(self._was_cancelled, needs)):
            return StepStatus.CANCELLED
        if not self._ended(needs, source):
            return None
        if step.on == "success" and needs and all(map(self._was_skipped, needs)):
            return StepStatus.SKIPPED_WITH_ALL
        return self._checked(n)

    def _checked(self, n: int) -> str | None:
        """Released, or skipped because an argument is absent or the condition is false. A signal is decided."""
        step = self._graph.steps[n]
        for operand in self._graph.required[n]:
            if self._is_absent(operand):
                return StepStatus.SKIPPED_ABSENT
        try:
            if step.when is not None and not is_true(step.when, self._value):
                return StepStatus.SKIPPED_BY_CONDITION
        except LargeValue:
            self.notes[n] = f"its condition compares a value of more than {MAX_INLINE_BYTES:,} bytes: compare in a task"
            return StepStatus.DEAD
        if self.signals is None or step.signal is None:
            return StepStatus.RELEASED
        if (status := self.signals.decide(n)) == StepStatus.DEAD:
            self.notes[n] = SIGNAL_LATE
        return status

    # values

    def keep_value(self, n: int, result: str) -> None:
        """Keeps a result that is needed: in the row if it is small, else what conditions read of it. They may need
        it in a later life, too."""
        if n in self._graph.result_steps or self._is_awaited(n):
            size = sum(map(len, self.values.values())) + len(result)
            if len(result) <= MAX_INLINE_BYTES and size <= MAX_ROW_BYTES:
                self.values[n] = result
                return
        self._extract(n, result)

    def _extract(self, n: int, result: str) -> None:
        for value in self._graph.condition_paths.get(n, ()):
            if (found := at_path(_decode(result), value.path)) is not ABSENT:
                text = encode_text(found)
                self.extracts[extract_key(value)] = text if len(text) <= MAX_INLINE_BYTES else _LARGE

    def _is_awaited(self, n: int) -> bool:
        return StepStatus.WAITING in [self.statuses[other] for other in self._graph.value_readers[n]]

    def _drop_values(self) -> None:
        """Drops the values that no step needs any more. What conditions read of them stays, for a later life."""
        for n in self._read & self.values.keys():
            if n not in self._graph.result_steps and not self._is_awaited(n):
                self._extract(n, self.values.pop(n))

    def _is_absent(self, operand: Operand) -> bool:
        """Whether an argument has no value because its step did not complete. A missing field of a value is null."""
        if isinstance(operand, ValueOf):
            status = self.statuses[operand.step]
            yields = status == StepStatus.RELEASED and self._graph.steps[operand.step].yields
            return status != StepStatus.COMPLETED and not yields
        return isinstance(operand, FirstOf) and all(map(self._is_absent, operand.operands))

    def _in_row(self, n: int) -> str | None:
        """The value of a step, if the row has it."""
        signals = None if self._graph.steps[n].signal is None else self.signals
        return self.values.get(n) if signals is None else signals.text(n)

    def _part(self, n: int, text: str, path: tuple[str | int, ...]) -> Any:
        if n not in self._decoded:
            self._decoded[n] = _decode(text)
        return at_path(self._decoded[n], path)

    def _value(self, operand: Operand) -> Any:
        """The JSON value of an operand of a condition."""
        match operand:
            case Input(n=n):
                return _decode(self._inputs[n])
            case ValueOf(step=n, path=path):
                if self.statuses[n] != StepStatus.COMPLETED:
                    return ABSENT
                if (text := self._in_row(n)) is not None:
                    return self._part(n, text, path)
                text = self.extracts.get(extract_key(operand))
                if text == _LARGE:
                    raise LargeValue
                return ABSENT if text is None else _decode(text)
            case FirstOf(operands=operands):
                found = (value for one in operands if (value := self._value(one)) is not ABSENT)
                return next(found, ABSENT)
            case ListOf(items=items):
                return [none_if_absent(self._value(one)) for one in items]
            case ObjectOf(fields=fields):
                return {name: none_if_absent(self._value(one)) for name, one in fields.items()}

    def _text(self, operand: Operand, place: str, filled: Filled) -> str | Absent:
        """The JSON text of an operand; null with an entry of `refs` if the worker reads it."""
        match operand:
            case Input(n=n):
                return self._inputs[n]
            case ValueOf(step=n, path=path):
                if self._is_absent(operand):
                    return ABSENT
                if (text := self._in_row(n)) is None:
                    filled.refs[place] = StepValue(
                        position_of(n, 0, self.lives.get(n, 0)), path, self._graph.steps[n].over is not None
                    )
                    return _NULL
                return encode_text(none_if_absent(self._part(n, text, path))) if path else text
            case FirstOf(operands=operands):
                found = (one for one in operands if not self._is_absent(one))
                chosen = next(found, None)
                return ABSENT if chosen is None else self._text(chosen, place, filled)
            case ListOf(items=items):
                return f"[{','.join(self._or_null(one, f'{place}/{i}', filled) for i, one in enumerate(items))}]"
            case ObjectOf(fields=fields):
                texts = {
                    name: self._or_null(one, f"{place}/{pointer_part(name)}", filled) for name, one in fields.items()
                }
                return object_text(texts)

    def _or_null(self, operand: Operand, place: str, filled: Filled) -> str:
        text = self._text(operand, place, filled)
        return _NULL if isinstance(text, Absent) else text

    # releasing

    def _release(self, n: int) -> None:
        step, filled = self._graph.steps[n], Filled({}, {})
        for name, operand in step.args.items():
            filled.texts[name] = self._or_null(operand, f"/{pointer_part(name)}", filled)
        if step.summary:
            filled.texts[step.summary] = summary_text(self, self._graph, self._flow)
        if step.over is None:
            self._add_job(n, filled)
            self.set_status(n, StepStatus.RELEASED)
        else:
            self._release_map(n, step.over, filled)

    def release_again(self, n: int) -> None:
        """Makes another job of a step that has ended, in another life."""
        self.lives[n] = self.lives.get(n, 0) + 1
        self._release(n)

    def _release_map(self, n: int, over: Operand, filled: Filled) -> None:
        if n in self._graph.sources:
            open_map(self, n, self._graph.sources[n])
            return
        if n in self._graph.open_steps:
            open_batch(self, self._graph, self._flow, n)
            return
        source = Filled({}, {})
        text = self._or_null(over, "/items", source)
        items = None if source.refs else _decode(text)
        if source.refs or (isinstance(items, list) and len(items) > MAX_MOVED_ITEMS):
            self.counts[n] = ItemCounts(closed=False, released_at=self.now)
            self._add_fan_out(n, source, text)
            self.set_status(n, StepStatus.RELEASED)
        elif items is None:
            self.set_status(n, StepStatus.SKIPPED_ABSENT)
        elif not isinstance(items, list):
            self.notes[n] = f"a map needs a list, and got {text[:50]}"
            self.set_status(n, StepStatus.DEAD)
        else:
            self.counts[n] = ItemCounts(made=len(items))
            for index, item in enumerate(items, 1):
                self._add_item(n, index, encode_text(item), filled)
            self.set_status(n, StepStatus.RELEASED)
            self.judge_map(n)

    def add_items(self, n: int, first: int, items: Iterable[str], *, last: bool) -> None:
        """Makes items of a map, from index `first` on; those made before are left out."""
        counts = self.counts.get(n)
        if counts is None or self.statuses[n] != StepStatus.RELEASED or not self.may_run(n) or n in self.skipped:
            return
        filled = Filled({}, {})
        for name, operand in self._graph.steps[n].args.items():
            filled.texts[name] = self._or_null(operand, f"/{pointer_part(name)}", filled)
        made = counts.made
        for index, item in enumerate(items, first):
            if index > made:
                self._add_item(n, index, item, filled)
                made = index
        self.counts[n] = replace(counts, made=made, closed=counts.closed or last)
        self.judge_map(n)

    def _add_item(self, n: int, index: int, item: str, filled: Filled) -> None:
        template = self._templates.get(n)
        if template is None or template.refs != filled.refs:
            template = self._templates[n] = self._template(n, first_job(self._graph, n), filled.refs)
        texts = {**filled.texts, self._graph.steps[n].item: item}
        self._jobs.append(template.job(index, object_text(texts)))

    def add_internal_job(self, job: NewJob) -> None:
        self._jobs.append(job)

    def _add_fan_out(self, n: int, source: Filled, text: str) -> None:
        template = self._template(n, fan_out_job(self._graph, n), source.refs)
        self._jobs.append(template.job(0, f'{{"items":{text},"step":{n}}}'))

    def _add_job(self, n: int, filled: Filled) -> None:
        template = self._template(n, first_job(self._graph, n), filled.refs)
        self._jobs.append(template.job(0, object_text(filled.texts)))

    def _template(self, n: int, job: NewJob, refs: Mapping[str, StepValue]) -> JobTemplate:
        position, needed = position_of(n, 0, self.lives.get(n, 0)), n in self._graph.needed_steps
        ref = StepRef(self._flow.id, position, self._flow.queue, needed)
        counts = self.counts.get(n)
        # So that a page that is made again makes the same jobs.
        ids_of = self.now if counts is None or counts.released_at is None else counts.released_at
        if self._graph.plan.metadata:
            job = replace(job, metadata={**self._graph.plan.metadata, **job.metadata})
        return JobTemplate(released(job, self._graph.steps[n].options, refs, self.now), ref, ids_of)
