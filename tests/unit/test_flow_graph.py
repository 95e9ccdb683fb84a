"""Graphs of plans: flows of a shape share their steps, and nothing else."""

from __future__ import annotations

import msgspec
from msgspec.structs import fields, replace

from mainspring.flow.graph import Graph, known_dependencies, read_graph
from mainspring.records.plan import Input, KeptStep, Plan, PlannedStep, ValueOf

STEPS = (PlannedStep("a", "a", {"x": Input(0)}), PlannedStep("b", "b", {"y": ValueOf(0)}))


def text_of(plan: Plan) -> str:
    return msgspec.json.encode(plan).decode()


def test_a_plan_of_a_known_shape_is_read_with_all_of_its_fields() -> None:
    plan = Plan(STEPS, ("7",), ValueOf(1), fail_fast=True, metadata={"traceparent": "t"}, timeout=60.0)
    plan = replace(plan, kept={0: KeptStep("c", "1")})
    # One that grows has a shape of its own.
    assert [one.name for one in fields(Plan) if getattr(plan, one.name) in (one.default, {})] == ["grows"]
    first = Graph(plan)
    read = read_graph(text_of(plan))
    assert read.plan == plan
    assert read.steps is first.steps


def test_flows_of_a_shape_differ_in_their_inputs() -> None:
    one, other = (Graph(Plan(tuple(STEPS), (text,), ValueOf(1))) for text in ("1", "2"))
    assert (one.plan.inputs, other.plan.inputs) == (("1",), ("2",))
    assert one.steps is other.steps


def test_plans_that_return_something_else_have_another_shape() -> None:
    Graph(Plan(STEPS, ("1",), ValueOf(0)))
    assert known_dependencies(Plan(STEPS, ("2",), ValueOf(0))) is not None
    read = read_graph(text_of(Plan(STEPS, ("1",))))
    assert (read.plan.result, read.result_steps) == (None, frozenset())
