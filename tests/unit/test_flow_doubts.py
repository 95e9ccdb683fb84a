"""What looks wrong in a plan that can be run."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.flow.doubts import never_run, unread
from mainspring.flow.graph import Graph
from mainspring.records.plan import AllOf, AnyOf, Exists, FirstOf, IsTrue, ListOf, Not, Plan, PlannedStep, ValueOf

PAY = PlannedStep("pay", "t")
CATCH = PlannedStep("catch", "t", args={"a": ValueOf(0)}, accepts_none=("a",), on="failure")


def graph(*steps: PlannedStep, result: Any = None) -> Graph:
    return Graph(Plan(steps, result=result))


def step(**given: Any) -> PlannedStep:
    return PlannedStep("last", "t", **given)


NEVER = {
    "both values": step(args={"a": ValueOf(0), "b": ValueOf(1)}),
    "a value behind it": step(args={"a": ValueOf(2), "b": ValueOf(1)}),
    "a map": step(args={"b": ValueOf(1)}, over=ValueOf(0)),
    "a condition": step(args={"b": ValueOf(1)}, when=AllOf((IsTrue(ValueOf(0)), Exists(ValueOf(1))))),
}
SOMETIMES = {
    "one accepts None": step(args={"a": ValueOf(0), "b": ValueOf(1)}, accepts_none=("b",)),
    "the first of both": step(args={"a": FirstOf((ValueOf(0), ValueOf(1)))}),
    "a list of both": step(args={"a": ListOf((ValueOf(0), ValueOf(1)))}),
    "order alone": step(args={"a": ValueOf(1)}, after=(0,)),
    "either condition": step(args={"b": ValueOf(1)}, when=AnyOf((IsTrue(ValueOf(0)), Not(Exists(ValueOf(0)))))),
    "a cleanup": step(args={"a": ValueOf(0), "b": ValueOf(1)}, on="end"),
}


@pytest.mark.parametrize("name", NEVER)
def test_a_step_that_needs_a_success_and_its_failure_never_runs(name: str) -> None:
    middle = PlannedStep("middle", "t", args={"a": ValueOf(0)})
    assert never_run(graph(PAY, CATCH, middle, NEVER[name])) == [(3, 1)]


@pytest.mark.parametrize("name", SOMETIMES)
def test_a_step_that_may_run_is_not_reported(name: str) -> None:
    middle = PlannedStep("middle", "t", args={"a": ValueOf(0)})
    assert never_run(graph(PAY, CATCH, middle, SOMETIMES[name])) == []


def test_a_catch_of_another_failure_may_run() -> None:
    catch = PlannedStep("catch", "t", after=(0, 1), on="failure")
    assert never_run(graph(PAY, step(), catch, PlannedStep("x", "t", args={"a": ValueOf(0), "b": ValueOf(2)}))) == []


def test_doubts_about_a_long_chain_are_found_in_a_moment() -> None:
    chain = [PlannedStep(f"s{n}", "t", args={"a": ValueOf(n - 1)} if n else {}) for n in range(10_000)]
    assert never_run(graph(*chain)) == []


def test_values_that_nothing_reads_are_found() -> None:
    steps = (
        PAY,
        PlannedStep("read", "t", args={"a": ValueOf(0)}),
        PlannedStep("returned", "t"),
        PlannedStep("followed", "t"),
        PlannedStep("nothing", "t", after=(3,)),
        PlannedStep("catch", "t", after=(0,), on="failure"),
    )
    found = graph(*steps, result=ListOf((ValueOf(2),)))
    assert [steps[n].name for n in unread(found, lambda n: True)] == ["read", "nothing"]
    assert [steps[n].name for n in unread(found, lambda n: n != 4)] == ["read"]
