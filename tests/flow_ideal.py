"""What a flow has to be: its plan, evaluated anew and slowly after each event. It shares no code with the engine.

The events are what happened to the flow's jobs, and what operators did. Everything else follows from the plan.
"""

from __future__ import annotations

import operator
from collections.abc import Container, Iterator, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from mainspring.records.plan import (
    AllOf,
    AnyOf,
    Compare,
    Exists,
    FirstOf,
    Input,
    IsTrue,
    ListOf,
    Not,
    ObjectOf,
    Plan,
    ValueOf,
)

SKIPPED = "falsno"
_ORDERED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


EndState = Literal["completed", "dead", "cancelled"]


class Nothing:
    """The only instance stands for an absent value."""

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING = Nothing()


class Ending(Struct, frozen=True):
    """How the job of a step, or of an item, ended."""

    state: EndState = "completed"
    value: Any = None
    skipped: bool = False
    finish: bool = False


class Released(Struct):
    """A step in its present life: the jobs that it has to have, and how they ended."""

    arguments: dict[str, Any]
    items: list[Any] | None = None
    """Of a map."""
    made: int | None = None
    """The number of its items that were made, if a job makes them."""
    closed: bool = True
    judged: bool = False
    """Whether an item has ended since the map was released, or put back to work."""
    endings: dict[int, Ending] = {}
    """By index; 0 is the step itself, or the job that makes the items."""


class Ideal:
    """One flow. Statuses are the characters of mainspring.records.flow.StepStatus."""

    def __init__(self, plan: Plan, by_job: Container[tuple[int, int]] = ()) -> None:
        """`by_job` has the maps, by life and step, whose items are made by a job: it may grow."""
        self.plan, self.statuses = plan, ["w"] * len(plan.steps)
        self.lives = [0] * len(plan.steps)
        self.steps: dict[int, Released] = {}
        self.deaths: list[int] = []
        self.finish: Any = NOTHING
        self.state = "open"
        self.cancelled = False
        self.given: dict[str, Any] = {}
        """The values of signals."""
        self.late: set[str] = set()
        self._by_job = by_job
        self._decided: dict[int, str] = {}
        """Steps that were stopped, or were decided without a job, until something before them is put back to work."""
        self._evaluate()

    # events

    def end(self, n: int, index: int, ending: Ending) -> None:
        """A job of the step's present life has ended."""
        step = self.steps[n]
        assert index not in step.endings, f"step {n} ended twice"
        step.endings[index], step.judged = ending, True
        if index == 0 and step.items is not None:
            step.closed = True
        if ending.finish and self.finish is NOTHING and self.state in ("open", "failing"):
            self.finish, self.state = ending.value, "finishing"
        self._evaluate()

    def make_item(self, n: int) -> None:
        """A job of the engine has made an item of the map."""
        self.steps[n].made = (self.steps[n].made or 0) + 1

    def give(self, name: str, value: Any) -> None:
        """A signal was given, perhaps before anything waits for it."""
        self.given[name] = value
        self._evaluate()

    def time_out(self, name: str) -> None:
        """The time of a signal is over."""
        self.late.add(name)
        self._evaluate()

    def cancel(self) -> None:
        if not self.over:
            self.cancelled = True
            self._stop("aborting" if self.state in ("cancelling", "aborting") else "cancelling")

    def revive(self, jobs: Sequence[tuple[int, int]], steps: Sequence[int] = ()) -> None:
        """These jobs, by step and index, were put back to work, and these steps are decided again."""
        self.state, self.cancelled = "open", False
        again = {n for n, _ in jobs} | set(steps)
        self.late -= {self.plan.steps[n].name for n in steps}
        for n in self._behind(again) - again | set(steps):
            if self.statuses[n] != "r":
                self._forget(n)
        for n, index in jobs:
            step = self.steps[n]
            del step.endings[index]
            step.judged = False
            if index == 0 and step.items is not None:
                step.closed = False
            self._decided.pop(n, None)
            self.deaths = [m for m in self.deaths if m != n]
        for n in again:
            self.statuses[n] = "w"
        self._evaluate()

    # what follows

    @property
    def over(self) -> bool:
        return not {"w", "r"} & set(self.statuses) and all(map(self._all_ended, self.steps.values()))

    @property
    def asked(self) -> set[str]:
        """The signals that are waited for now."""
        waiting = [step.name for n, step in enumerate(self.plan.steps) if step.signal is not None and self._asks(n)]
        return set(waiting)

    def _asks(self, n: int) -> bool:
        return self.statuses[n] == "w" and self._decide(n) == "r"

    @property
    def jobs(self) -> set[tuple[int, int, int]]:
        """The jobs that there have to be: life, step and index. Items that a job makes are not among them."""
        found = set[tuple[int, int, int]]()
        for n, step in self.steps.items():
            indexes = [0] if step.items is None or step.made is not None else range(1, len(step.items) + 1)
            found |= {(self.lives[n], n, index) for index in indexes}
        return found

    @property
    def counts(self) -> dict[int, tuple[int, int, int]]:
        """For each map: the items that were made, that have ended, and that are dead."""
        found = dict[int, tuple[int, int, int]]()
        for n, step in self.steps.items():
            if step.items is not None:
                states = [ending.state for index, ending in step.endings.items() if index]
                found[n] = (self._made(step), len(states), states.count("dead"))
        return found

    @staticmethod
    def _made(step: Released) -> int:
        return len(step.items or ()) if step.made is None else step.made

    def arguments(self, n: int, index: int, *, as_of_now: bool = False) -> dict[str, Any]:
        """What the job of a step, or of an item, gets: as of its release, or if it were released now."""
        step, item = self.steps[n], self.plan.steps[n].item
        arguments = self._arguments(n) if as_of_now else step.arguments
        return arguments if step.items is None else {**arguments, item: step.items[index - 1]}

    def verdict(self) -> tuple[str, Any]:
        """The end of the flow's own job, and its value."""
        if self.finish is not NOTHING:
            return "completed", self.finish
        if self.cancelled:
            return "cancelled", None
        caught = self._caught()
        if any(not self.plan.steps[n].optional and n not in caught for n in self.deaths):
            return "dead", None
        if any(status == "x" and not self.plan.steps[n].optional for n, status in enumerate(self.statuses)):
            return "cancelled", None
        value = None if self.plan.result is None else self.value(self.plan.result)
        return "completed", None if value is NOTHING else value

    def _evaluate(self) -> None:
        """Decides every step, in order: each needs only steps before it."""
        for n in range(len(self.statuses)):
            before, self.statuses[n] = self.statuses[n], self._status(n)
            if self.statuses[n] == "d" != before:
                self.deaths.append(n)
                if self.plan.fail_fast and not self.plan.steps[n].optional and self.state == "open":
                    self._stop("failing")

    def _stop(self, state: str) -> None:
        self.state = state
        self._evaluate()

    def _status(self, n: int) -> str:
        if n in self._decided:
            return self._decided[n]
        if n not in self.steps:
            status = self._decide(n)
            if status == "r":
                status = self._release(n) if self.plan.steps[n].signal is None else self._answer(n)
            elif status != "w":
                self._decided[n] = status
            if status != "r":
                return status
        return self._outcome(n)

    def _answer(self, n: int) -> str:
        """The status of a signal that is asked for: it has no job."""
        step = self.plan.steps[n]
        if step.name in self.given:
            status = "c"
        elif step.name in self.late:
            status = "d" if step.signal is None or step.signal.default is None else "c"
        else:
            return "w"
        self._decided[n] = status
        return status

    def _release(self, n: int) -> str:
        step = self.plan.steps[n]
        released = Released(self._arguments(n), endings={})
        if step.over is not None:
            items = _or_none(self.value(step.over))
            released.items = items if isinstance(items, list) else []
            if (self.lives[n], n) in self._by_job:
                released.made, released.closed = 0, False
            elif not isinstance(items, list):
                self._decided[n] = "a" if items is None else "d"
                return self._decided[n]
        self.steps[n] = released
        return "r"

    def _arguments(self, n: int) -> dict[str, Any]:
        return {name: _or_none(self.value(operand)) for name, operand in self.plan.steps[n].args.items()}

    def _outcome(self, n: int) -> str:
        """The status of a step that has been released."""
        step, plan = self.steps[n], self.plan.steps[n]
        if step.items is None:
            if 0 not in step.endings:
                return "r"
            ending = step.endings[0]
            if ending.skipped:
                return "s"
            return {"completed": "c", "dead": "d", "cancelled": "x"}[ending.state]
        states = [ending.state for index, ending in step.endings.items() if index]
        allowed = plan.failed_ratio * self._made(step)
        maker = step.endings[0].state if 0 in step.endings else "completed"
        if 0 in step.endings and step.endings[0].skipped:  # it maps over null
            return "a"
        failed = states.count("dead") > allowed or maker == "dead"
        if not self._all_ended(step):
            final = step.closed or not plan.failed_ratio  # more items change nothing
            return "d" if failed and final and step.judged and self.plan.fail_fast else "r"
        stopped = maker == "cancelled" or len(states) - states.count("completed") > allowed
        return "d" if failed else "x" if stopped else "c"

    def _all_ended(self, step: Released) -> bool:
        if step.items is None:
            return 0 in step.endings
        return step.closed and sum(index > 0 for index in step.endings) >= self._made(step)

    def _forget(self, n: int) -> None:
        """The step waits again; if it had a job, the next one belongs to another life."""
        had_job = self.statuses[n] in "cdxso" or n in self.steps
        self.lives[n] += had_job
        self.steps.pop(n, None)
        self._decided.pop(n, None)
        self.deaths = [m for m in self.deaths if m != n]
        self.statuses[n] = "w"

    # deciding

    def _decide(self, n: int) -> str:
        step, needs = self.plan.steps[n], self._needs(n)
        statuses = [(self.statuses[m], self.plan.steps[m].optional) for m in needs]
        failed = any(status == "u" or (status == "d" and not optional) for status, optional in statuses)
        if step.on == "success" and failed:
            return "u"
        if not self._may_run(n):
            return "x"
        if step.on == "success" and any(status == "x" and not optional for status, optional in statuses):
            return "x"
        if step.on == "failure" and failed:
            return self._check(n) if self._have_ended(self._sources(n)) else "w"
        if not self._have_ended(needs):
            return "w"
        if step.on == "failure":
            return "n"
        skipped = [status in SKIPPED or (status in "dx" and optional) for status, optional in statuses]
        if step.on == "success" and needs and all(skipped):
            return "l"
        return self._check(n)

    def _may_run(self, n: int) -> bool:
        on = self.plan.steps[n].on
        allowed = {"open": ("success", "failure", "end"), "failing": ("failure", "end"), "aborting": ()}
        return on in allowed.get(self.state, ("end",))

    def _check(self, n: int) -> str:
        step = self.plan.steps[n]
        required = [operand for name, operand in step.args.items() if name not in step.accepts_none]
        required += [] if step.over is None else [step.over]
        if any(map(self._is_absent, required)):
            return "a"
        return "r" if step.when is None or self._holds(step.when) else "f"

    def _have_ended(self, steps: set[int]) -> bool:
        return not any(self.statuses[n] in "wr" for n in steps)

    def _sources(self, n: int) -> set[int]:
        """The steps whose values the step reads."""
        step = self.plan.steps[n]
        return {m for part in (*step.args.values(), step.over, step.when) for m in _steps_in(part)}

    def _needs(self, n: int) -> set[int]:
        return self._sources(n) | set(self.plan.steps[n].after)

    def _behind(self, steps: set[int]) -> set[int]:
        found = set(steps)
        for n in range(len(self.statuses)):
            if self._needs(n) & found:
                found.add(n)
        return found

    # values

    def _is_absent(self, operand: Any) -> bool:
        match operand:
            case ValueOf(step=n):
                return self.statuses[n] != "c"
            case FirstOf(operands=several):
                return all(map(self._is_absent, several))
        return False

    def _result(self, n: int) -> Any:
        if (signal := self.plan.steps[n].signal) is not None:
            return self.given.get(self.plan.steps[n].name, self.value(signal.default))
        endings = self.steps[n].endings
        if self.plan.steps[n].over is None:
            return endings[0].value
        completed = [endings[index] for index in sorted(endings) if index]
        return [one.value for one in completed if one.state == "completed" and not one.skipped]

    def value(self, operand: Any) -> Any:
        match operand:
            case Input(n=n):
                return msgspec.json.decode(self.plan.inputs[n])
            case ValueOf(step=n, path=path):
                return _at(self._result(n), path) if self.statuses[n] == "c" else NOTHING
            case FirstOf(operands=several):
                return next((self.value(one) for one in several if not self._is_absent(one)), NOTHING)
            case ListOf(items=several):
                return [_or_none(self.value(one)) for one in several]
            case ObjectOf(fields=fields):
                return {name: _or_none(self.value(one)) for name, one in fields.items()}

    def _holds(self, condition: Any) -> bool:
        match condition:
            case AllOf(conditions=several):
                return all(map(self._holds, several))
            case AnyOf(conditions=several):
                return any(map(self._holds, several))
            case Not(condition=inner):
                return not self._holds(inner)
            case Exists(operand=operand):
                return self._compared(operand) not in (NOTHING, None)
            case IsTrue(operand=operand):
                value = self._compared(operand)
                return value is not NOTHING and bool(value)
            case Compare(op=op, left=left, right=right):
                return _compare(op, self._compared(left), self._compared(right))
        raise TypeError(condition)

    def _compared(self, operand: Any) -> Any:
        """A value in a condition: first() takes the first that is there, a missing field is not."""
        if isinstance(operand, FirstOf):
            found = [value for one in operand.operands if (value := self._compared(one)) is not NOTHING]
            return found[0] if found else NOTHING
        return self.value(operand)

    def _caught(self) -> set[int]:
        """The dead steps behind a returned step that ran after a failure."""
        found = set[int]()
        for n in self._returned(self.plan.result):
            if self.plan.steps[n].on == "failure" and self.statuses[n] == "c":
                found |= self._causes(n)
        return found

    def _causes(self, n: int) -> set[int]:
        needs = self._needs(n)
        dead = {m for m in needs if self.statuses[m] == "d"}
        return dead.union(*(self._causes(m) for m in needs if self.statuses[m] == "u"))

    def _returned(self, operand: Any) -> Iterator[int]:
        match operand:
            case ValueOf(step=n):
                yield n
            case FirstOf(operands=several):
                for one in several:
                    if not isinstance(one, ValueOf) or self.statuses[one.step] == "c":
                        yield from self._returned(one)
                        return
            case ListOf(items=several):
                for one in several:
                    yield from self._returned(one)
            case ObjectOf(fields=fields):
                for one in fields.values():
                    yield from self._returned(one)


def _steps_in(part: Any) -> set[int]:
    """The steps named in an operand or a condition: whatever it is, its fields are."""
    match part:
        case ValueOf(step=n):
            return {n}
        case tuple() | list():
            return set().union(*map(_steps_in, part))
        case dict():
            return _steps_in(list(part.values()))
        case Struct():
            return _steps_in([getattr(part, name) for name in part.__struct_fields__])
    return set()


def _or_none(value: Any) -> Any:
    return None if value is NOTHING else value


def _at(value: Any, path: Sequence[str | int]) -> Any:
    for part in path:
        try:
            value = NOTHING if isinstance(value, str) else value[part]
        except (KeyError, IndexError, TypeError):
            return NOTHING
    return value


def _compare(op: str, left: Any, right: Any) -> bool:
    if left is NOTHING or right is NOTHING:
        return False
    text, other = (msgspec.json.encode(value, order="sorted") for value in (left, right))
    kinds = [bool if isinstance(value, bool) else float if isinstance(value, int | float) else type(value)
             for value in (left, right)]  # fmt: skip
    equal = kinds[0] == kinds[1] and (left == right if kinds[0] is float else text == other)
    if op in ("==", "!="):
        return equal is (op == "==")
    if op == "in":
        if isinstance(right, list):
            return any(_compare("==", left, item) for item in right)
        return isinstance(right, str | dict) and isinstance(left, str) and left in right
    return kinds[0] == kinds[1] and kinds[0] in (float, str) and _ORDERED[op](left, right)
