"""How a plan ends, computed slowly from what each job did: each step's status from the statuses of what it needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from mainspring.flow.conditions import ABSENT, at_path, is_true
from mainspring.flow.graph import Graph
from mainspring.records.plan import FirstOf, Input, ListOf, ObjectOf, Operand, Plan, ValueOf


class Fate(Struct):
    """What the job of a step does, if it is made: of a map, all of its items."""

    state: str = "completed"
    value: Any = None
    skipped: bool = False
    dead_items: int = 0


def ideal(plan: Plan, fates: Sequence[Fate]) -> str:
    """The statuses of an undisturbed flow at its end."""
    graph, statuses, values = Graph(plan), [], {}
    for n, step in enumerate(plan.steps):
        needs = graph.needs[n]
        failed = [m for m in needs if statuses[m] == "u" or (statuses[m] == "d" and not plan.steps[m].optional)]
        gone = [m for m in needs if statuses[m] == "x" and not plan.steps[m].optional]
        skipped = [m for m in needs if statuses[m] in "falsno" or (statuses[m] in "dx" and plan.steps[m].optional)]

        def value(operand: Operand) -> Any:
            match operand:
                case Input(n=i):
                    return msgspec.json.decode(plan.inputs[i])
                case ValueOf(step=source, path=path):
                    return at_path(values[source], path) if statuses[source] == "c" else ABSENT
                case FirstOf(operands=several):
                    return next((v for one in several if (v := value(one)) is not ABSENT), ABSENT)
                case ListOf(items=several):
                    return [None if (v := value(one)) is ABSENT else v for one in several]
                case ObjectOf(fields=fields):
                    return {name: None if (v := value(one)) is ABSENT else v for name, one in fields.items()}

        def is_absent(operand: Operand) -> bool:
            match operand:
                case ValueOf(step=source):
                    return statuses[source] != "c"
                case FirstOf(operands=several):
                    return all(map(is_absent, several))
            return False

        absent = any(is_absent(operand) for name, operand in step.args.items() if name not in step.accepts_none)
        absent = absent or (step.over is not None and is_absent(step.over))
        if step.on == "success" and failed:
            status = "u"
        elif step.on == "success" and gone:
            status = "x"
        elif step.on == "failure" and not failed:
            status = "n"
        elif step.on == "success" and needs and len(skipped) == len(needs):
            status = "l"
        elif absent:
            status = "a"
        elif step.when is not None and not is_true(step.when, value):
            status = "f"
        elif step.over is not None and value(step.over) in (ABSENT, None):
            status = "a"
        elif step.over is not None:
            items, fate = value(step.over), fates[n]
            assert isinstance(items, list)
            dead = min(fate.dead_items, len(items))
            status = "d" if dead > step.failed_ratio * len(items) else "c"
            values[n] = [fate.value] * (len(items) - dead)
        elif fates[n].skipped:
            status = "s"
        else:
            status = {"completed": "c", "dead": "d", "cancelled": "x"}[fates[n].state]
            values[n] = fates[n].value
        statuses.append(status)
    return "".join(statuses)
