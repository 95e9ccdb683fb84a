"""Why a flow waits and why steps were not run, as pure functions of its row."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from mainspring.flow.graph import Graph
from mainspring.insight.flow_why import Root, roots, steps_not_run, waits_for
from mainspring.insight.why import Reason
from mainspring.records.flow import Flow, ItemCounts
from mainspring.records.plan import AllOf, AnyOf, Compare, Exists, Input, IsTrue, Not, Plan, PlannedStep, ValueOf

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def step(name: str, **fields: Any) -> PlannedStep:
    return PlannedStep(name, name, **fields)


def chain(*names: str) -> Graph:
    steps = (step(name, after=(n - 1,) if n else ()) for n, name in enumerate(names))
    return Graph(Plan(tuple(steps), inputs=("80", '"gold"')))


def row(statuses: str, **fields: Any) -> Flow:
    return Flow(id="f", statuses=statuses, began_at=NOW, **fields)


def test_root_names_the_steps_that_wait_for_it() -> None:
    graph = chain("a", "b", "c")
    assert [root.text for root in roots(graph, row("rww"))] == ["c <- b <- a"]
    assert [root.text for root in roots(graph, row("crw"))] == ["c <- b"]
    assert roots(graph, row("ccc")) == []


def test_long_chain_is_folded() -> None:
    graph = chain(*"abcdefgh")
    assert [root.text for root in roots(graph, row("rwwwwwww"))] == ["h <- … <- b <- a"]


def test_reason_of_a_flow_has_that_of_the_job_at_its_root() -> None:
    why = [Reason(code="not_due", text="it is due at noon", until=NOW)]
    found = waits_for(Root(0, ("c", "a")), None, why, None)
    assert (found.code, found.text, found.until) == ("waits_for_steps", "waits for c <- a: it is due at noon", NOW)
    assert found.cause == "not_due"
    gone = waits_for(Root(0, ("a",)), None, [], None)
    assert (gone.text, gone.cause) == ("waits for a: its job is gone", None)


def test_reason_of_a_map_has_its_counts() -> None:
    found = waits_for(Root(0, ("a",)), None, [], ItemCounts(made=40, ended=17, dead=2, closed=False))
    assert found.text == "waits for a: 17 of 40 items have ended, 2 of them dead, and more are made"


def test_step_that_was_not_run_names_what_failed() -> None:
    graph = chain("a", "b", "c")
    assert steps_not_run(graph, row("duu")) == [
        Reason(code="step_not_run", text="b was not run: a failed"),
        Reason(code="step_not_run", text="c was not run: b failed"),
    ]


def test_skipped_step_has_its_condition_and_the_values_it_had() -> None:
    score, kind = ValueOf(0, ("score",)), ValueOf(0, ("tags", 0, "a-b"))
    when = AllOf((Compare(">=", score, Input(0)), AnyOf((Not(IsTrue(ValueOf(0, ("ok",)))), Exists(kind)))))
    graph = Graph(Plan((step("check"), step("charge", when=when)), inputs=("80",)))
    extracts = {'[0,"score"]': "55"}
    (reason,) = steps_not_run(graph, row("cf", values={0: '{"ok":true}'}, extracts=extracts))
    assert reason.code == "step_skipped"
    assert reason.text == (
        "charge was skipped: check.score >= 80 and (not (check.ok) or exists(check.tags[0]['a-b'])) did not hold "
        "(check.score = 55, check.ok = true, check.tags[0]['a-b'] = absent)"
    )


def test_a_long_value_is_masked_before_it_is_cut() -> None:
    url = f'"https://{"u" * 30}:s3cr3t-of-the-shop@example.org/"'
    when = Compare("==", ValueOf(0, ("url",)), Input(0))
    graph = Graph(Plan((step("check"), step("charge", when=when)), inputs=(url,)))
    (reason,) = steps_not_run(graph, row("cf", extracts={'[0,"url"]': url}))
    assert ("s3cr3t" in reason.text, reason.text.count(":***")) == (False, 2)


def test_skipped_steps_say_why() -> None:
    names = ("absent", "all", "said", "needless", "operator")
    texts = [reason.text for reason in steps_not_run(chain(*names), row("alsno"))]
    assert texts == [
        "absent was skipped: an argument has no value, and its parameter does not accept None",
        "all was skipped: everything that it needs was skipped",
        "said was skipped: its task raised Skip",
        "needless was skipped: it runs after a failure, and there was none",
        "operator was skipped: an operator has skipped it",
    ]
