"""Random small plans of flows, with everything that a step can have."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from msgspec import json

from mainspring.records.plan import (
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Exists,
    FirstOf,
    Input,
    IsTrue,
    ListOf,
    Not,
    ObjectOf,
    Operand,
    Plan,
    PlannedStep,
    StepOptions,
    ValueOf,
)

MAX_STEPS = 6
# Inputs that every plan has, before those of its steps: a number to compare with, and lists to map over.
INPUTS = ("1", "[1,2,3]", "[]", "null", '"text"')
QUEUES = ("default", "mail")


def draw_plan(chance: Random, task_of: Callable[[Random], tuple[str, Any]]) -> Plan:
    """`task_of` draws the task of a step, and its first argument, `how`. Results are objects with `x` and `items`."""
    inputs: list[str] = [*INPUTS]
    steps = list[PlannedStep]()
    for n in range(chance.randint(1, MAX_STEPS)):
        task, how = task_of(chance)
        steps.append(_step(chance, steps, n, task, Input(len(inputs))))
        inputs.append(json.encode(how).decode())
    result = None if chance.random() < 0.2 else _result(chance, steps)
    return Plan(tuple(steps), tuple(inputs), result, fail_fast=chance.random() < 0.15)


def _step(chance: Random, steps: list[PlannedStep], n: int, task: str, how: Input) -> PlannedStep:
    maps = chance.random() < (0.5 if n == 1 else 0.25)
    on = chance.choice(("success",) * 6 + ("failure", "end")) if n else "success"
    args: dict[str, Operand] = {"how": how}
    after: tuple[int, ...] = ()
    if n and chance.random() < 0.8:
        args |= {name: _operand(chance, n) for name in ("a", "b")[: chance.randint(1, 2)]}
    if n and (chance.random() < 0.3 or (on != "success" and len(args) == 1)):
        after = tuple(sorted(chance.sample(range(n), chance.randint(1, min(n, 2)))))
    single = [m for m in range(n) if steps[m].over is None]
    over = None
    if maps:
        over = ValueOf(chance.choice(single), ("items",)) if single and chance.random() < 0.8 else _list(chance)
    return PlannedStep(
        name=f"s{n}",
        task=task,
        args=args,
        accepts_none=tuple(name for name in args if on != "success" or chance.random() < 0.4),
        after=after,
        when=_condition(chance, single) if single and chance.random() < 0.25 else None,
        on=on,  # type: ignore[arg-type]
        optional=chance.random() < 0.2,
        over=over,
        item="item" if maps else "",
        failed_ratio=chance.choice((0.0, 0.0, 0.4, 1.0)) if maps else 0.0,
        options=StepOptions(
            queue=chance.choice(QUEUES),
            delay=chance.choice((0.0, 0.0, 0.0, 3.0)),
            max_retries=chance.choice((None, 0, 1)),
        ),
    )


def _list(chance: Random) -> Input:
    return Input(chance.choice((1, 1, 1, 1, 2, 3, 4)))


def _operand(chance: Random, n: int) -> Operand:
    def one() -> ValueOf:
        return ValueOf(chance.randrange(n), chance.choice(((), ("x",), ("nothing",))))

    match chance.randrange(8):
        case 0:
            return FirstOf((one(), one()))
        case 1:
            return ListOf((one(), Input(0)))
        case 2:
            return ObjectOf({"of": one()})
    return one()


def _condition(chance: Random, single: list[int]) -> Condition:
    def one() -> Condition:
        part = ValueOf(chance.choice(single), ("x",))
        match chance.randrange(6):
            case 0:
                return Exists(part)
            case 1:
                return IsTrue(part)
            case 2:
                return Not(IsTrue(part))
        return Compare(chance.choice(("==", "!=", "<", ">=")), part, Input(0))

    match chance.randrange(5):
        case 0:
            return AllOf((one(), one()))
        case 1:
            return AnyOf((one(), one()))
    return one()


def _result(chance: Random, steps: list[PlannedStep]) -> Operand:
    handlers = [n for n, step in enumerate(steps) if step.on == "failure"]
    if handlers and chance.random() < 0.5:
        return FirstOf(
            (ValueOf(steps[handlers[-1]].after[0] if steps[handlers[-1]].after else 0), ValueOf(handlers[-1]))
        )
    return _operand(chance, len(steps))
