"""The flows of a plan: how their steps behave, and what operators do to them."""

from __future__ import annotations

from random import Random
from typing import Any

from flow_plans import draw_plan
from mainspring.records.plan import Plan

# A value that does not fit into the row of a flow is read by the worker that needs it.
LONG_CHARACTERS = 5000
# Of the two, the second stops the steps that the first one lets run.
ACTIONS = ("cancel", "cancel", "retry", "retry", "retry")


def draw_flow(chance: Random) -> Plan:
    """A small plan. Some of its steps are flows themselves."""
    return draw_plan(chance, _task)


def _task(chance: Random) -> tuple[str, Any]:
    if chance.random() < 0.15:
        return "nested", {"steps": [draw_behaviour(chance) for _ in range(chance.randint(1, 3))]}
    return "part", draw_behaviour(chance)


def draw_behaviour(chance: Random) -> dict[str, Any]:
    """What a run of the task `part` does. Without `does` it returns."""
    found: dict[str, Any] = {"x": chance.choice((0, 1, 2, None))}
    does = chance.choice((*(None,) * 8, "flaky", "broken", "discard", "skip", "cancel", "snooze", "finish"))
    if does is not None and (does != "finish" or chance.random() < 0.4):
        found["does"] = does
    if chance.random() < 0.5:
        found["seconds"] = round(chance.uniform(0.1, 7.0), 3)
    if chance.random() < 0.8:
        found["items"] = chance.choice(([1, 2], [1, 2, 3], [1, 2, 3], [1, 2, 3, 4], [], None, [4]))
    if chance.random() < 0.45:
        found["long"] = True
    if chance.random() < 0.3:
        found["dies"] = chance.choice(([1], [2], [1, 2]))
    return found
