"""Plans without a function: the builder, and readable JSON with the reason why it is no plan."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from mainspring import Backoff, BadFlow, BadInput, Mainspring, first, in_, not_
from mainspring.flow.builder import PlanBuilder
from mainspring.flow.document import (
    MAX_DOCUMENT_BYTES,
    MAX_DOCUMENT_DEPTH,
    builder_from_document,
    document_of,
    plan_from_document,
)
from mainspring.flow.function import plan_of
from mainspring.records.plan import Compare, Input, Plan, StepOptions, ValueOf

app = Mainspring("memory://")


@dataclass
class Check:
    ok: bool
    score: int = 0


@app.task
async def check(order: int) -> Check: ...  # type: ignore[empty-body]
@app.task(queue="pay")
async def charge(order: int, check: Check) -> str: ...  # type: ignore[empty-body]
@app.task
async def each(item: int, by: str = "") -> int: ...  # type: ignore[empty-body]
@app.task
async def refund(txn: str | None) -> None: ...
@app.task
async def anything(value: Any = None, *rest: Any, **more: Any) -> Any: ...


@app.flow(fail_fast=True)
def everything(order: int) -> Any:
    checked = check.step(order)
    when = ((checked.score >= 80) & checked.ok) | not_(in_(checked.score, [1, 2])) | (checked.score != 5)
    txn = charge.using(when=when, delay=5, tags=["a"], backoff=Backoff(initial=2), timeout=None).step(order, checked)
    many = each.using(failed_ratio=0.5, step="many").map([1, 2, order], by=txn)
    anything.using(after=[checked, many]).step({"$step": "no"}, [checked, None], {"a": [1]}, more={"b": txn})
    refund.using(on="failure", optional=True).step(txn)
    return {"first": first(txn, checked), "all": many}


DOCUMENT: dict[str, Any] = {
    "name": "order",
    "steps": [
        {"name": "check", "task": "check", "args": {"order": 7}},
        {
            "name": "charge",
            "task": "charge",
            "args": {"order": 7, "check": {"$step": "check"}},
            "when": {
                "and": [
                    {"$step": "check", "path": ["ok"]},
                    {">=": [{"$step": "check", "path": ["score"]}, 80]},
                    {"not": {"in": [{"$step": "check", "path": ["score"]}, [1, 2]]}},
                    {"or": [{"exists": {"$step": "check"}}, {"$step": "check", "path": ["ok"]}]},
                ]
            },
            "options": {"delay": "5m", "backoff": {"initial": 2}, "priority": 3},
        },
        {"name": "many", "task": "each", "map": {"over": [1, 2]}, "failed_ratio": 0.1},
        {"name": "by", "task": "each", "map": {"over": ["a"], "item": "by"}, "args": {"item": 5}},
        {"name": "back", "task": "refund", "args": {"txn": {"$step": "charge"}}, "on": "failure", "optional": True},
        {"name": "last", "task": "anything", "args": {"value": {"$literal": {"$step": "x"}}}, "after": ["many"]},
    ],
    "result": {"$first": [{"$step": "charge"}, {"$step": "last"}]},
}


def changed(**changes: Any) -> dict[str, Any]:
    """The document with other values; step__field changes the field of a step."""
    document = copy.deepcopy(DOCUMENT)
    for name, value in changes.items():
        step, _, field = name.partition("__")
        if field:
            next(one for one in document["steps"] if one["name"] == step)[field] = value
        else:
            document[name] = value
    return document


# the builder


def test_builder_makes_the_plan_that_a_function_makes() -> None:
    plan = app.plan("order", fail_fast=True)
    checked = plan.step(check, 5)
    txn = plan.step(charge.using(when=checked.ok), 5, checked)
    many = plan.map("each", [1, 2], by=txn)
    plan.returns([txn, many])
    made = plan.plan()
    assert [step.name for step in made.steps] == ["check", "charge", "each"]
    assert (made.steps[2].over, made.steps[2].item, made.fail_fast) == (Input(1), "item", True)
    assert plan_from_document(plan.document(), app) == made


def test_builder_returns_nothing_by_default() -> None:
    plan = app.plan("order")
    plan.step("check", order=5)
    assert plan.plan().result is None
    assert repr(plan) == "<PlanBuilder order>"


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (lambda plan: plan.step("chek", 5), "no task 'chek' is registered in this app; did you mean 'check'"),
        (lambda plan: plan.step(check), "step 'check': argument 'order' of task 'check' is missing"),
        (lambda plan: plan.returns(app.plan("other").step(check, 5)), "flow 'order': check is a value of another flow"),
        (lambda plan: [plan.step(check.using(step="a"), 5) for _ in range(2)], "two steps are named 'a'"),
        (lambda plan: plan.step(Mainspring("memory://").task(lambda n: n, name="x"), 5), "is of another app"),  # type: ignore[call-overload]
        (lambda plan: plan.step(5), "takes a task, or its name"),
    ],
)
def test_builder_refuses_what_is_no_plan(act: Any, text: str) -> None:
    with pytest.raises(BadFlow, match=text):
        act(app.plan("order"))


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"prioriti": 5}, TypeError, "did you mean 'priority'"),
        ({"priority": "high"}, BadInput, "option priority of flow 'order'"),
        ({"unique_key": "a", "idempotency_key": "b"}, BadInput, "exclude each other"),
    ],
)
async def test_bad_option_of_a_plan_is_named(options: Any, error: type[Exception], text: str) -> None:
    plan = app.plan("order", **options)
    plan.step(check, 5)
    with pytest.raises(error, match=text):
        await plan.enqueue()


def test_job_of_a_plan_has_its_options() -> None:
    options = {"queue": "flows", "priority": 3, "unique_key": "order:7", "tags": ["a"], "metadata": {"k": 1}}
    job, within = app._engine.flow_job("order", options)
    assert (job.task, job.queue, job.priority, job.unique_key) == ("mainspring.flow", "flows", 3, "order:7")
    assert (job.metadata, job.tags, within) == ({"flow": "order", "k": 1}, ("a",), None)


async def test_plan_is_enqueued_with_its_job() -> None:
    async with Mainspring("memory://") as own:
        own.task(check.fn)
        plan = own.plan("order")
        plan.step("check", 5)
        job = await (await plan.enqueue()).job()
    assert (job.task, job.metadata) == ("mainspring.flow", {"flow": "order"})


# documents


def test_document_becomes_a_plan() -> None:
    plan = plan_from_document(json.dumps(DOCUMENT), app)
    steps = {step.name: step for step in plan.steps}
    assert list(steps) == ["check", "charge", "many", "by", "back", "last"]
    assert steps["charge"].options == StepOptions(
        queue="pay", priority=3, delay=300, backoff=Backoff(initial=2), fingerprint=charge.arguments.fingerprint
    )
    assert (steps["by"].item, steps["many"].item, steps["many"].failed_ratio) == ("by", "item", 0.1)
    assert (steps["back"].on, steps["back"].optional, steps["back"].accepts_none) == ("failure", True, ("txn",))
    assert plan.inputs[-1] == '{"$step":"x"}'


@pytest.mark.parametrize("form", [json.dumps(DOCUMENT), json.dumps(DOCUMENT).encode(), DOCUMENT], ids=type)
def test_document_is_text_bytes_or_decoded(form: Any) -> None:
    assert len(plan_from_document(form, app).steps) == 6


def test_plan_survives_its_document() -> None:
    plan = plan_of(everything, (5,), {})
    document = document_of(plan, "all")
    assert plan_from_document(json.dumps(document), app) == plan
    assert document == document_of(plan_from_document(document, app), "all")


def test_document_of_a_plan_is_readable() -> None:
    document = document_of(plan_from_document(DOCUMENT, app), "order")
    charged = document["steps"][1]
    assert charged["args"] == DOCUMENT["steps"][1]["args"]
    assert charged["when"] == DOCUMENT["steps"][1]["when"]
    assert document["steps"][5]["args"] == DOCUMENT["steps"][5]["args"]
    assert document["result"] == DOCUMENT["result"]
    assert document["steps"][0] == DOCUMENT["steps"][0]


def test_steps_of_a_document_come_in_any_order() -> None:
    plan = plan_from_document(changed(steps=DOCUMENT["steps"][::-1]), app)
    assert {step.name for step in plan.steps} == {step["name"] for step in DOCUMENT["steps"]}
    assert plan.steps[-1].name in ("charge", "back")


def test_names_and_arguments_of_a_document_may_be_anything() -> None:
    args = {"value": {"a": [{"$step": "check", "path": ["score"]}, None]}, "*rest": [1, {"$step": "check"}], "x": 5}
    plan = plan_from_document(changed(last__args=args), app)
    assert plan.steps[-1].args.keys() == {"value", "*rest", "x"}
    assert document_of(plan)["steps"][-1]["args"] == args


def test_options_of_the_job_come_beside_the_document() -> None:
    builder = builder_from_document(DOCUMENT, app, {"queue": "flows"})
    assert isinstance(builder, PlanBuilder)
    assert isinstance(builder.plan(), Plan)
    assert builder.name == "order"


def test_condition_compares_two_values_of_steps() -> None:
    when = {"<": [{"$step": "check", "path": ["score"]}, {"$step": "many", "path": []}]}
    with pytest.raises(BadFlow, match="a condition reads the map 'many'"):
        plan_from_document(changed(last__when=when), app)
    when = {"<": [{"$step": "check", "path": ["score"]}, {"$step": "check", "path": ["score"]}]}
    plan = plan_from_document(changed(last__when=when), app)
    assert plan.steps[-1].when == Compare("<", ValueOf(0, ("score",)), ValueOf(0, ("score",)))


def nested(levels: int) -> Any:
    value: Any = 5
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ("{", "the plan cannot be read: .*truncated"),
        ("[]", "the plan cannot be read: Expected `object`"),
        ("{}", "missing required field `steps`"),
        ("\ud800", "the plan cannot be read"),
        ({"steps": []}, "a plan has at least one step"),
        ({"steps": [], "extra": 1}, "unknown field `extra`"),
        ({"steps": object()}, "the plan cannot be read"),
        (changed(check__extra=1), r"unknown field `extra` - at `\$\.steps\[0\]`"),
        (changed(many__map={"over": [1], "extra": 1}), "unknown field `extra`"),
        (changed(check__on="always"), "Invalid enum value 'always'"),
        (changed(check__task="chek"), "step 'check': no task 'chek' is registered in this app; did you mean 'check'"),
        (changed(check__name="charge"), "step 'charge' needs step 'check', and there is none|two steps are named"),
        (changed(steps=[*DOCUMENT["steps"], DOCUMENT["steps"][0]]), "two steps are named 'check'"),
        (changed(last__name=" x"), "a step name is 1 to"),
        (changed(last__after=["chek"]), "step 'last' needs step 'chek', and there is none; did you mean 'check'"),
        (changed(last__when={"$step": "nowhere"}), "step 'last' needs step 'nowhere'"),
        (changed(result={"$step": "nowhere"}), "the result: there is no step 'nowhere'"),
        (changed(check__args={"order": {"$step": "check"}}), "in a circle: check -> check"),
        (changed(check__after=["last"], last__after=["charge"]), "in a circle: (check|last|charge) -> "),
        (changed(check__args={}), "step 'check': argument 'order' of task 'check' is missing"),
        (changed(check__args={"order": 5, "oder": 5}), "step 'check': task 'check' has no argument 'oder'"),
        (changed(check__args={"order": "x"}), "step 'check': argument 'order' does not fit"),
        (
            changed(charge__args={"order": {"$step": "check"}, "check": {"$step": "check"}}),
            "takes int, and check is Check",
        ),
        (changed(charge__when={"$step": "check", "path": ["okay"]}), "Check has no field 'okay'"),
        (changed(charge__when={"$step": "check", "path": [1.5]}), "a path is a list of names and numbers"),
        (changed(charge__when={"$step": "check", "path": "ok"}), "a path is a list of names and numbers"),
        (changed(charge__when={"=": [1, {"$step": "check"}]}), "step 'charge': there is no operator '='"),
        (changed(charge__when={"==": [1]}), "operator '==' takes a list of two values"),
        (changed(charge__when={"and": []}), "operator 'and' takes a list of conditions"),
        (changed(charge__when={"and": [], "or": []}), "an object with one operator"),
        (changed(charge__when={"not": 5}), "an object with one operator"),
        (changed(charge__when=True), "an object with one operator"),
        (changed(last__args={"value": {"$stepp": "check"}}), r"there is no value '\$stepp'; did you mean '\$step'"),
        (changed(last__args={"value": {"$step": "check", "pth": []}}), r"a value is .*\$step"),
        (changed(last__args={"value": {"$step": 5}}), r"a value is .*\$step"),
        (changed(last__args={"value": {"$first": []}}), r"first\(\) takes two or more"),
        (changed(last__args={"value": {"$literal": 1, "a": 2}}), r"a value is .*\$literal"),
        (changed(many__map={"over": 5}), "a map takes a list of items"),
        (changed(many__map={"over": ["a"]}), "the items .* does not fit"),
        (changed(many__map={"over": [1], "item": "itm"}), "takes none as 'itm'"),
        (changed(many__map={"over": [1], "item": "item"}, many__args={"item": 1}), "takes none as 'item'"),
        (
            changed(check__options={"prioriti": 1}),
            "step 'check': a step has no option 'prioriti'; did you mean 'priority'",
        ),
        (changed(check__options={"unique_key": "a"}), "a step has no option 'unique_key'"),
        (changed(check__options={"priority": "high"}), "step 'check': option priority"),
        (changed(check__options={"backoff": {"initial": -5}}), "step 'check': option backoff"),
        (changed(check__options={"backoff": {"first": 5}}), "step 'check': option backoff"),
        (changed(check__failed_ratio=7), "step 'check': option failed_ratio"),
        (changed(back__args={"txn": "t"}), "step 'back' has on='failure' and needs nothing"),
        (changed(last__args={"value": nested(MAX_DOCUMENT_DEPTH)}), "nested at most 60 levels"),
        ("[" * 100_000, "nested at most 60 levels"),
        (changed(name="x" * MAX_DOCUMENT_BYTES), "at most 8,388,608 bytes"),
        (changed(steps=[{"name": f"s{n}", "task": "anything"} for n in range(10_001)]), "at most 10,000 steps"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 80 else "",
)
def test_document_that_is_no_plan_is_refused_with_the_reason(document: Any, text: str) -> None:
    with pytest.raises(BadFlow, match=text):
        plan_from_document(document, app)


def test_circle_of_many_steps_is_refused_with_a_short_path() -> None:
    steps = [{"name": f"s{n}", "task": "anything", "after": [f"s{(n + 1) % 10_000}"]} for n in range(10_000)]
    with pytest.raises(BadFlow, match=r"in a circle: s.* -> … -> ") as bad:
        plan_from_document({"steps": steps}, app)
    assert len(str(bad.value)) < 500


def test_plan_of_ten_thousand_steps_survives_its_document() -> None:
    steps = [{"name": f"s{n}", "task": "anything", "args": {"value": n}} for n in range(9_999)]
    steps.append({"name": "last", "task": "anything", "args": {"*rest": [{"$step": f"s{n}"} for n in range(9_999)]}})
    plan = plan_from_document({"steps": steps}, app)
    assert plan_from_document(msgspec.json.encode(document_of(plan)), app) == plan


def test_plan_with_too_many_values_of_steps_is_refused() -> None:
    plan = app.plan("wide")
    values = [plan.step("anything", n) for n in range(1000)]
    for _ in range(200):
        plan.step("anything", values)
    with pytest.raises(BadFlow, match="more than 200,000 values of other steps"):
        plan.step("anything", values)


def test_plan_that_is_too_large_to_be_stored_is_refused() -> None:
    plan = app.plan("large")
    large = anything.using(metadata={"a": "x" * 8000})
    for n in range(3000):
        plan.step(large, n)
    with pytest.raises(BadFlow, match="at most 16,777,216 are stored"):
        plan.plan()


def test_object_that_a_document_cannot_say_is_refused() -> None:
    plan = app.plan("odd")
    plan.step("anything", {"$step": plan.step("check", 5)})
    with pytest.raises(BadFlow, match=r"the name '\$step' and values of steps"):
        plan.document()
