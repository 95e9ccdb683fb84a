"""The planner: calls of steps become a plan; what cannot be one is refused with the reason."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mainspring.errors import BadFlow, BadPayload
from mainspring.flow.planner import Planner, StepCall, checked_plan, current_planner, planning
from mainspring.flow.values import exists, first, in_, not_
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
    PlannedStep,
    ValueOf,
)


def call(planner: Planner, task: str, /, *, arguments: dict[str, Any] | None = None, **options: Any) -> Any:
    return planner.add(StepCall(task=task, arguments=arguments or {}, **options))


@pytest.fixture
def planner() -> Planner:
    return Planner()


def test_values_of_steps_become_operands_and_everything_else_inputs(planner: Planner) -> None:
    check = call(planner, "check", arguments={"order": {"id": 7}})
    arguments = {"txn": check.txn, "to": check["a"][0], "all": [check, 1], "by": {"x": check}}
    ship = call(planner, "ship", arguments=arguments)
    plan = planner.plan(ship)
    assert plan.steps[1].args == {
        "txn": ValueOf(0, ("txn",)),
        "to": ValueOf(0, ("a", 0)),
        "all": ListOf((ValueOf(0), Input(1))),
        "by": ObjectOf({"x": ValueOf(0)}),
    }
    assert plan.inputs == ('{"id":7}', "1")
    assert plan.result == ValueOf(1)


def test_equal_inputs_are_stored_once(planner: Planner) -> None:
    for _ in range(3):
        call(planner, "a", arguments={"x": 5, "y": [5]})
    assert planner.plan().inputs == ("5", "[5]")


def test_plan_survives_json(planner: Planner) -> None:
    check = call(planner, "check")
    when = (check.ok & (check.n >= 3)) | not_(in_(check.kind, ["a"]))
    each = call(planner, "each", over=[1, 2], item="x", when=when)
    arguments = {"all": each, "one": first(check.a, check.b)}
    call(planner, "last", arguments=arguments, accepts_none=["all", "one"], on="end")
    plan = planner.plan(each)
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


@pytest.mark.parametrize(
    ("make", "condition"),
    [
        (lambda a, b: a.x, IsTrue(ValueOf(0, ("x",)))),
        (lambda a, b: a == 5, Compare("==", ValueOf(0), Input(0))),
        (lambda a, b: a != 5, Compare("!=", ValueOf(0), Input(0))),
        (lambda a, b: a < b, Compare("<", ValueOf(0), ValueOf(1))),
        (lambda a, b: a <= b, Compare("<=", ValueOf(0), ValueOf(1))),
        (lambda a, b: a > 5, Compare(">", ValueOf(0), Input(0))),
        (lambda a, b: a >= 5, Compare(">=", ValueOf(0), Input(0))),
        (lambda a, b: a & b, AllOf((IsTrue(ValueOf(0)), IsTrue(ValueOf(1))))),
        (lambda a, b: a | (b == 5), AnyOf((IsTrue(ValueOf(0)), Compare("==", ValueOf(1), Input(0))))),
        (lambda a, b: (a == 5) & b, AllOf((Compare("==", ValueOf(0), Input(0)), IsTrue(ValueOf(1))))),
        (lambda a, b: not_(a), Not(IsTrue(ValueOf(0)))),
        (lambda a, b: in_(a.x, [1]), Compare("in", ValueOf(0, ("x",)), Input(0))),
        (lambda a, b: in_(1, a), Compare("in", Input(0), ValueOf(0))),
        (lambda a, b: exists(a.x), Exists(ValueOf(0, ("x",)))),
    ],
)
def test_conditions_are_data(planner: Planner, make: Any, condition: Any) -> None:
    a, b = call(planner, "a"), call(planner, "b")
    call(planner, "c", when=make(a, b))
    assert planner.plan().steps[2].when == condition


@pytest.mark.parametrize(
    ("look", "way"),
    [
        (bool, "use when="),
        (list, r"\.map\(\)"),
        (len, "ask in a task"),
        (lambda value: 1 in value, "in_"),
        (str, "make the text in a task"),
        (lambda value: f"{value}", "make the text in a task"),
        (lambda value: bool(value == 1), "use when="),
    ],
)
def test_python_cannot_look_at_a_value(planner: Planner, look: Any, way: str) -> None:
    with pytest.raises(BadFlow, match=f"not known while the flow is planned.*{way}"):
        look(call(planner, "check"))


def test_steps_are_named_after_their_tasks(planner: Planner) -> None:
    for options in ({}, {}, {"step": "mine"}, {}):
        call(planner, "pay", **options)
    assert [step.name for step in planner.plan().steps] == ["pay", "pay-2", "mine", "pay-3"]


def test_first_and_parts_of_values_are_operands(planner: Planner) -> None:
    a, b = call(planner, "a"), call(planner, "b")
    assert planner.plan(first(a, b.x)).result == FirstOf((ValueOf(0), ValueOf(1, ("x",))))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda p: [call(p, "a", step="x"), call(p, "b", step="x")], "two steps are named 'x'"),
        (lambda p: [call(p, "a", on="failure"), p.plan()], "needs nothing that could end"),
        (lambda p: call(p, "a", after=5), "after= takes values"),
        (lambda p: call(p, "a", when=True), "a condition compares values"),
        (lambda p: call(p, "a", arguments={"x": call(p, "b") == 1}), "belongs into when="),
        (lambda p: call(p, "a", arguments={"x": call(Planner(), "b")}), "another flow"),
        (lambda p: call(p, "a", over=[1], item="x").part, "items of a map"),
        (lambda p: first(call(p, "a")), "two or more"),
        (lambda p: first(call(p, "a"), call(p, "b")).x, "take the part of each"),
        (lambda p: in_(1, [2]), "neither"),
        (lambda p: exists(1), "takes the value of a step"),
        (lambda p: call(p, "a")[1.5], "a text or a number"),
        (lambda p: call(p, "a", arguments={"x": "y" * (1 << 20)}), "keep big data"),
    ],
)
def test_what_is_no_flow_is_refused(planner: Planner, make: Any, text: str) -> None:
    with pytest.raises(BadFlow, match=text):
        make(planner)


def test_absent_argument_has_to_be_accepted(planner: Planner) -> None:
    charge = call(planner, "charge")
    call(planner, "refund", arguments={"txn": charge}, on="failure")
    with pytest.raises(BadFlow, match=r"argument 'txn' may have no value.*\| None"):
        planner.plan()


def test_condition_cannot_read_a_map(planner: Planner) -> None:
    each = call(planner, "each", over=[1], item="x")
    call(planner, "last", when=each)
    with pytest.raises(BadFlow, match="a condition reads the map 'each'"):
        planner.plan()


def test_argument_that_json_cannot_carry_is_refused(planner: Planner) -> None:
    with pytest.raises(BadPayload, match="not a type JSON can carry"):
        call(planner, "a", arguments={"x": object()})


def test_steps_are_sorted_by_what_they_need() -> None:
    steps = (
        PlannedStep("c", "c", {"b": ValueOf(1)}, when=IsTrue(ValueOf(2))),
        PlannedStep("b", "b", after=(2,)),
        PlannedStep("a", "a"),
    )
    plan = checked_plan(Plan(steps, result=ValueOf(0)))
    assert [step.name for step in plan.steps] == ["a", "b", "c"]
    assert (plan.steps[1].after, plan.steps[2].args, plan.result) == ((0,), {"b": ValueOf(1)}, ValueOf(2))
    assert plan.steps[2].when == IsTrue(ValueOf(0))


def test_circle_is_refused_with_its_path() -> None:
    steps = (
        PlannedStep("start", "t"),
        PlannedStep("a", "t", {"x": ValueOf(3)}, after=(0,)),
        PlannedStep("b", "t", {"x": ValueOf(1)}),
        PlannedStep("c", "t", after=(2,)),
    )
    with pytest.raises(BadFlow, match=r"in a circle: (a -> b -> c -> a|b -> c -> a -> b|c -> a -> b -> c)"):
        checked_plan(Plan(steps))


@pytest.mark.parametrize("n", [-1, 2, 7])
def test_unknown_step_is_refused(n: int) -> None:
    with pytest.raises(BadFlow, match=f"step 'b' needs step {n}"):
        checked_plan(Plan((PlannedStep("a", "a"), PlannedStep("b", "b", {"x": ValueOf(n)}))))


def test_plan_of_too_many_steps_is_refused_before_anything_else() -> None:
    with pytest.raises(BadFlow, match="at most 10,000 steps, this one has 100,000"):
        checked_plan(Plan(tuple(PlannedStep("a", "a") for _ in range(100_000))))


def test_step_outside_of_a_flow_is_refused() -> None:
    with pytest.raises(BadFlow, match="outside of a flow"):
        current_planner("charge.step()")
    with planning() as planner:
        assert current_planner("charge.step()") is planner
