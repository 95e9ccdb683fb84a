"""Plans that grow: each run of a durable job adds the steps that it waits for."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ..records.plan import Input, Operand, Plan, PlannedStep


def joined(plans: Iterable[Plan]) -> Plan:
    """A plan that grows, of the steps of these, which need no other steps."""
    steps, inputs = list[PlannedStep](), list[str]()
    for plan in plans:
        steps += (_moved(step, len(inputs)) for step in plan.steps)
        inputs += plan.inputs
    return Plan(tuple(steps), tuple(inputs), grows=True)


def with_steps(plan: Plan, more: Plan) -> Plan:
    """The plan with the steps of another one behind its own; those whose names it has are left out."""
    names = {step.name for step in plan.steps}
    new = replace(more, steps=tuple(step for step in more.steps if step.name not in names))
    if not new.steps:
        return plan
    whole = joined([plan, new])
    return replace(plan, steps=whole.steps, inputs=whole.inputs, metadata={**plan.metadata, **more.metadata})


def _moved(step: PlannedStep, first: int) -> PlannedStep:
    """The step of a plan whose inputs stand behind `first` others now."""
    if not first:
        return step
    args = {name: _operand(operand, first) for name, operand in step.args.items()}
    return replace(step, args=args, over=None if step.over is None else _operand(step.over, first))


def _operand(operand: Operand, first: int) -> Operand:
    return Input(operand.n + first) if isinstance(operand, Input) else operand
