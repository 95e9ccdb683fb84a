"""Flows as users write them: their functions become plans, and what cannot be one is refused with the step's name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from mainspring import (
    Backoff,
    BadFlow,
    BadInput,
    BadPayload,
    BadTask,
    Breaker,
    Context,
    DeadLetter,
    Key,
    Mainspring,
    Results,
    Retention,
    Task,
    cron,
    exists,
    first,
    in_,
    not_,
    signal,
)
from mainspring.flow.function import plan_of
from mainspring.flow.planner import planning
from mainspring.records.plan import (
    AllOf,
    Compare,
    FirstOf,
    Input,
    IsTrue,
    ListOf,
    Not,
    ObjectOf,
    Plan,
    PlannedStep,
    StepOptions,
    ValueOf,
)

app = Mainspring("memory://")


@dataclass
class Order:
    id: str
    items: list[str]


@dataclass
class Check:
    ok: bool
    score: int = 0


@app.task
async def validate(order: Order) -> Check: ...  # type: ignore[empty-body]
@app.task(queue="stock", priority=3)
async def reserve(ctx: Context, item: str, order_id: str) -> int: ...  # type: ignore[empty-body]
@app.task(queue="pay", max_retries=8, tags=["money"])
def charge(order: Order, check: Check) -> str: ...  # type: ignore[empty-body]
@app.task
async def ship(order: Order, txn: str, slots: list[int]) -> str: ...  # type: ignore[empty-body]
@app.task
async def refund(order: Order, txn: str | None) -> None: ...
@app.task
async def total(parts: Results[int]) -> int: ...  # type: ignore[empty-body]
@app.task
async def optional_total(parts: Results[int] | None = None) -> int: ...  # type: ignore[empty-body]
@app.task
async def texts(parts: Results[str]) -> None: ...
@app.task
async def anything(value: Any, other: Any = None) -> Any: ...
@app.task
async def untyped(value, other=5): ...  # type: ignore[no-untyped-def]
@app.task
async def several(*files: str, **sizes: int) -> None: ...
@app.task
async def nothing() -> int: ...  # type: ignore[empty-body]
@app.task(unique_key="one")
async def keyed() -> None: ...
@app.task(expires="1h", backoff=lambda n: 5.0, timeout=9)
async def careful(value: int = 0) -> None: ...
@app.stub(queue="far", timeout=5, max_retries=1)
def lines(file: str) -> AsyncIterator[str]: ...  # type: ignore[empty-body]


ORDER = Order("7", ["a", "b"])


@app.flow
def fulfil(order: Order, express: bool = False) -> str:
    check = validate.step(order)
    slots = reserve.map(order.items, order.id)
    txn = charge.using(when=check.ok & (check.score >= 80)).step(order, check)
    done = ship.using(delay=0 if express else 60).step(order, txn, slots)
    refund.using(on="failure", after=done, optional=True).step(order, txn)
    return done


def planned(fn: Callable[..., Any], *args: Any, **options: Any) -> Plan:
    """The plan of a function, as a flow of another app with the same tasks' app."""
    try:
        return plan_of(app.flow(name="flow", **options)(fn), args, {})
    finally:
        app._registry.tasks.pop("flow")


def step_of(fn: Callable[[], Any]) -> PlannedStep:
    """The last step of a flow's plan."""
    return planned(fn).steps[-1]


# plans


def test_function_with_its_arguments_becomes_a_plan() -> None:
    plan = plan_of(fulfil, (ORDER,), {})
    check, slots, txn, done, back = plan.steps
    assert [step.name for step in plan.steps] == ["validate", "reserve", "charge", "ship", "refund"]
    assert plan.inputs == ('{"id":"7","items":["a","b"]}', '"7"', '["a","b"]', "80")
    assert (check.args, slots.args) == ({"order": Input(0)}, {"order_id": Input(1)})
    assert (slots.over, slots.item) == (Input(2), "item")
    assert txn.args == {"order": Input(0), "check": ValueOf(0)}
    assert txn.when == AllOf((IsTrue(ValueOf(0, ("ok",))), Compare(">=", ValueOf(0, ("score",)), Input(3))))
    assert done.args == {"order": Input(0), "txn": ValueOf(2), "slots": ValueOf(1)}
    assert (back.on, back.optional, back.after, back.accepts_none) == ("failure", True, (3,), ("txn",))
    assert (plan.result, plan.fail_fast) == (ValueOf(3), False)


def test_input_of_a_flow_is_real() -> None:
    assert plan_of(fulfil, (ORDER,), {}).steps[3].options.delay == 60
    assert plan_of(fulfil, (ORDER, True), {}).steps[3].options.delay == 0


def test_diamond_passes_both_values_on() -> None:
    """Acceptance test 1, the planner's part."""

    def diamond() -> Any:
        top = nothing.step()
        left, right = anything.step(top), anything.using(step="right").step(top)
        return anything.using(step="last").step(left, right)

    plan = planned(diamond)
    assert [step.name for step in plan.steps] == ["nothing", "anything", "right", "last"]
    assert plan.steps[3].args == {"value": ValueOf(1), "other": ValueOf(2)}


def test_plan_of_a_function_is_the_same_each_time() -> None:
    assert plan_of(fulfil, (ORDER,), {}) == plan_of(fulfil, (ORDER,), {})


def test_flow_in_a_step_is_one_step() -> None:
    plan = planned(lambda: fulfil.map([ORDER], express=True))
    assert [(step.task, step.item) for step in plan.steps] == [("fulfil", "order")]


def test_flow_can_be_a_step_of_itself() -> None:
    again = Mainspring("memory://")

    @again.flow
    def countdown(n: int) -> int:
        return countdown.step(n - 1)

    assert plan_of(countdown, (5,), {}).steps[0].task == "countdown"


def test_values_go_into_lists_and_dicts() -> None:
    def flow() -> Any:
        size = nothing.step()
        anything.step([size, 1], {"a": size, "b": [2]})
        return {"size": size, "all": [size, None]}

    plan = planned(flow)
    assert plan.steps[1].args == {
        "value": ListOf((ValueOf(0), Input(0))),
        "other": ObjectOf({"a": ValueOf(0), "b": Input(1)}),
    }
    assert plan.result == ObjectOf({"size": ValueOf(0), "all": ListOf((ValueOf(0), Input(2)))})


def test_every_kind_of_parameter_takes_values() -> None:
    assert step_of(lambda: several.step("a", charge_one(), size=nothing.step())).args == {
        "*files": ListOf((Input(2), ValueOf(0))),
        "size": ValueOf(1),
    }


def charge_one() -> str:
    return charge.step(ORDER, Check(True))


def test_conditions_are_made_by_operators_and_functions() -> None:
    def flow() -> None:
        check = validate.step(ORDER)
        careful.using(when=not_(in_(check.score, [1, 2])) & exists(check)).step()

    condition = planned(flow).steps[1].when
    assert isinstance(condition, AllOf)
    assert condition.conditions[0] == Not(Compare("in", ValueOf(0, ("score",)), Input(1)))


def test_long_chain_of_conditions_is_one_list() -> None:
    def flow() -> None:
        check = validate.step(ORDER)
        condition = check.ok
        for n in range(5000):
            condition &= check.score != n
        careful.using(when=condition).step()

    condition = planned(flow).steps[1].when
    assert isinstance(condition, AllOf)
    assert len(condition.conditions) == 5001


def test_first_of_two_is_returned() -> None:
    assert planned(lambda: first(nothing.step(), nothing.step())).result == FirstOf((ValueOf(0), ValueOf(1)))


def test_items_of_a_map_come_from_anything_that_can_be_looped_over() -> None:
    for items in (["a", "b"], ("a", "b"), iter("ab"), {"a": 1, "b": 2}.keys()):
        plan = planned(lambda items=items: reserve.map(items, "7"))
        assert plan.inputs[1] == '["a","b"]'


def test_map_over_the_value_of_a_step_a_task_that_yields_or_a_map() -> None:
    def flow(order: Order) -> None:
        reserve.map(lines.step("a.txt"), "7")
        reserve.map(first(anything.step(1), anything.step(2)), "7")
        anything.map(reserve.map(order.items, "7"))
        reserve.map([validate.step(order).score, "b"], "7") if False else None

    plan = planned(flow, ORDER)
    assert [step.over for step in plan.steps if step.over is not None] == [
        ValueOf(0),
        FirstOf((ValueOf(2), ValueOf(3))),
        Input(4),
        ValueOf(5),
    ]


def test_results_parameter_takes_the_value_of_a_map() -> None:
    plan = planned(lambda: total.step(reserve.map(["a"], "7")))
    assert plan.steps[1].args == {"parts": ValueOf(0)}
    assert optional_total.arguments.item_types == {"parts": int}
    assert "parts" not in step_of(lambda: optional_total.step()).args


def test_ten_thousand_steps_of_one_task_are_planned_and_one_more_is_not() -> None:
    def flow(steps: int) -> None:
        for n in range(steps):
            careful.step(n)

    assert planned(flow, 10_000).steps[-1].name == "careful-10000"
    with pytest.raises(BadFlow, match=r"step 'careful-10001': a flow has at most 10,000 steps"):
        planned(flow, 10_001)


# options


def test_step_has_the_options_of_its_task_and_of_the_call() -> None:
    using = charge.using(priority=7, delay="5m", timeout=3, max_retries=1, backoff=Backoff(initial=2), expires=60)
    options = step_of(lambda: using.using(metadata={"a": 1}).step(ORDER, Check(True))).options
    assert options == StepOptions(
        queue="pay",
        priority=7,
        delay=300.0,
        expires=60.0,
        timeout=3.0,
        max_retries=1,
        backoff=Backoff(initial=2),
        tags=("money",),
        metadata={"a": 1},
        fingerprint=charge.arguments.fingerprint,
    )


def test_step_leaves_to_the_task_what_a_deploy_may_change() -> None:
    options = step_of(lambda: careful.step()).options
    assert (options.timeout, options.max_retries, options.backoff) == (StepOptions().timeout, None, None)
    assert options.expires == 3600


def test_step_of_a_stub_has_its_options_and_no_fingerprint() -> None:
    options = planned(lambda: [reserve.map(lines.step("a"), "7")]).steps[0].options
    assert (options.queue, options.timeout, options.max_retries, options.fingerprint) == ("far", 5, 1, None)


def test_map_may_lose_a_share_of_its_items() -> None:
    assert step_of(lambda: reserve.using(failed_ratio=0.1).map(["a"], "7")).failed_ratio == 0.1
    assert step_of(lambda: reserve.map(["a"], "7")).failed_ratio == 0


def test_options_of_a_step_add_up() -> None:
    def flow() -> None:
        a, b = nothing.step(), nothing.step()
        careful.using(after=[a, b]).using(step="mine", on="end").using(optional=True).step()

    step = planned(flow).steps[2]
    assert (step.name, step.after, step.on, step.optional) == ("mine", (0, 1), "end", True)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: keyed.step(), r"step 'keyed': a step has no unique_key.*using\(unique_key=None\)"),
        (lambda: careful.using(unique_key="a").step(), "no unique_key"),
        (lambda: careful.using(idempotency_key="a").step(), "no idempotency_key"),
        (lambda: careful.using(run_at=datetime(2030, 1, 1, tzinfo=UTC)).step(), "no run_at.*use delay="),
        (lambda: careful.using(expires=datetime(2030, 1, 1, tzinfo=UTC)).step(), "expires of a step is a span"),
        (lambda: careful.using(on_conflict="raise").step(), "no on_conflict"),
        (lambda: careful.using(debounce_limit=5).step(), "no debounce_limit"),
        (lambda: careful.using(at_once=5).step(), "at_once is for the jobs of a map"),
        (lambda: signal("approval", int, default=5), "default= is the value after the timeout"),
    ],
)
def test_option_that_a_step_cannot_have_is_refused(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(BadFlow, match=text):
        planned(make)


def test_within_is_refused_for_a_step() -> None:
    from mainspring.task.options import CheckedOptions
    from mainspring.task.step_options import planned_options

    with pytest.raises(BadFlow, match="no within="):
        planned_options(CheckedOptions(), CheckedOptions(within=object()), None, None)


def test_key_of_a_task_can_be_cleared_for_a_step() -> None:
    assert step_of(lambda: keyed.using(unique_key=None).step()).task == "keyed"


@pytest.mark.parametrize(
    "options",
    [{"when": True}, {"after": 5}, {"on": "end"}, {"optional": True}, {"failed_ratio": 0.5}, {"step": "mine"}],
    ids=str,
)
def test_options_of_steps_are_refused_outside_of_a_flow(options: Any) -> None:
    name = next(iter(options))
    for make in (careful.using(**options).job, lambda: app.job("careful", {}, **options)):
        with pytest.raises(BadInput, match=rf"options of steps \({name}\) act only in a flow"):
            make()
    with pytest.raises(BadInput, match="schedule 'nightly' makes jobs of their own"):
        app.schedule("nightly", cron("0 2 * * *"), careful.using(**options))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"on": "always"}, "option on of task 'careful': is one of success, failure, end"),
        ({"optional": 1}, "option optional of task 'careful': is True or False"),
        ({"failed_ratio": 2}, "failed_ratio"),
        ({"step": " x"}, "a step name is 1 to"),
        ({"after": None}, "may not be None"),
    ],
    ids=str,
)
def test_bad_option_of_a_step_is_named(options: Any, text: str) -> None:
    with pytest.raises(BadInput, match=text):
        careful.using(**options)


def test_misspelt_option_of_a_step_is_suggested() -> None:
    with pytest.raises(TypeError, match="did you mean 'optional'"):
        careful.using(optionel=True)  # type: ignore[call-arg]


# declaration


def test_flow_is_a_task_with_options() -> None:
    own = Mainspring("memory://")

    @own.task
    async def alert(letter: DeadLetter) -> None: ...

    @own.flow(
        name="mine",
        queue="flows",
        priority=1,
        timeout=timedelta(days=10),
        max_retries=2,
        tags=["a"],
        metadata={"k": 1},
        backoff=Backoff(),
        retry_on=ValueError,
        no_retry_on=KeyError,
        on_failure=alert,
        retention=Retention(keep=5),
        unique_key=Key(args=True),
        expires="1d",
        on_conflict="debounce",
        debounce_limit=5,
        breaker=Breaker(3, 60),
        concurrency=2,
        fail_fast=True,
    )
    def flow(n: int) -> None:
        raise AssertionError

    assert isinstance(flow, Task)
    assert (flow.is_flow, flow.options.fail_fast, flow.name, flow.options.queue) == (True, True, "mine", "flows")
    assert flow.using(priority=5).is_flow
    assert flow.job(5).task == "mine"
    assert own._registry.tasks["mine"] is flow
    assert not alert.is_flow


def test_fail_fast_is_in_the_plan() -> None:
    assert planned(lambda: nothing.step(), fail_fast=True).fail_fast


@pytest.mark.parametrize(
    "option",
    ["executor", "memory_limit", "cpu_limit", "soft_timeout", "failed_ratio", "delay", "run_at", "within"],
)
def test_option_that_makes_no_sense_for_a_flow_is_named(option: str) -> None:
    with pytest.raises(BadTask, match=f"flow 'f': option {option} does not belong on a flow"):
        app.flow(name="f", **{option: 5})(lambda: None)


def test_misspelt_option_of_a_flow_is_suggested() -> None:
    with pytest.raises(BadTask, match=r"flow 'f'.*did you mean 'fail_fast'"):
        app.flow(name="f", fail_fats=True)(lambda: None)  # type: ignore[call-overload]


async def coroutine() -> None: ...
def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


def with_context(ctx: Context, n: int) -> None: ...


@pytest.mark.parametrize("fn", [coroutine, generator, async_generator])
def test_function_of_a_flow_is_plain(fn: Any) -> None:
    with pytest.raises(BadTask, match=f"flow '{fn.__name__}' is no plain function: write `def`"):
        app.flow(fn)


def test_flow_has_no_context() -> None:
    with pytest.raises(BadTask, match="flow 'with_context' has no Context"):
        app.flow(with_context)


def test_plan_of_a_task_is_refused() -> None:
    with pytest.raises(BadFlow, match=r"task 'careful' is no flow: declare it with @app\.flow"):
        plan_of(careful, (), {})


def test_task_that_reads_results_has_no_process() -> None:
    with pytest.raises(BadTask, match="reads results of a map, which executor='process' cannot"):
        app.task(name="p", executor="process")(of_results)


def of_results(parts: Results[int]) -> None: ...


def test_flow_does_not_read_results() -> None:
    with pytest.raises(BadTask, match="flow 'p' cannot read results of a map: take list"):
        app.flow(name="p")(of_results)


def test_results_stand_alone_in_an_annotation() -> None:
    def fn(parts: list[Results[int]] | Results[int]) -> None: ...

    with pytest.raises(BadTask, match=r"annotate 'parts' as Results\[…\], and nothing else"):
        app.task(name="p")(fn)


# refused


def use_of_other_flow() -> Any:
    with planning(app):
        return validate.step(ORDER)


def needs_its_own_items() -> None:
    source = lines.step("a")
    count = total.step(reserve.map(source, "7"))
    reserve.map(source, anything.step(count))


def self_containing() -> list[Any]:
    values: list[Any] = [nothing.step()]
    values.append(values)
    return values


def nested(levels: int) -> Any:
    value: Any = nothing.step()
    for _ in range(levels):
        value = [value]
    return value


def nested_condition(levels: int) -> Any:
    condition = validate.step(ORDER).ok
    for _ in range(levels):
        condition = not_(condition)
    return condition


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: careful.step(5) if validate.step(ORDER) else None, "validate is not known.*`if` cannot decide on it"),
        (lambda: careful.step(5) if validate.step(ORDER).ok == 1 else None, "a condition is not known"),
        (lambda: f"{validate.step(ORDER)}", "validate is not known.*part of a text"),
        (lambda: nothing.step() + 1, "nothing is not known.*compute in a task"),
        (lambda: 1 - nothing.step(), "compute in a task"),
        (lambda: round(nothing.step()), "compute in a task"),
        (lambda: [0][nothing.step()], "compute in a task"),
        (lambda: charge_one().upper(), r"charge\.upper: str has no parts"),
        (lambda: anything.step(1).get("a"), r"anything\.get is not known.*it has no methods"),
        (lambda: [*anything.step(1)], "cannot be looped over"),
        (lambda: validate.step(ORDER).okay, "validate.okay: Check has no field 'okay'; .*ok"),
        (lambda: validate.step(Order("7", [nothing.step()])), "nothing is not known.*part of an object"),  # type: ignore[list-item]
        (lambda: validate.step(ORDER, 5), "step 'validate': task 'validate' takes at most 1"),
        (lambda: validate.step(order=ORDER, oder=1), "step 'validate'.*no argument 'oder'.*did you mean 'order'"),
        (lambda: charge.step(ORDER), "step 'charge': argument 'check' of task 'charge' is missing"),
        (lambda: reserve.map(["a"]), "step 'reserve': argument 'order_id' of task 'reserve' is missing"),
        (lambda: careful.step("five"), "step 'careful': argument 'value' does not fit: Expected `int`"),
        (lambda: careful.step(object()), "step 'careful': .*not a type JSON can carry"),
        (lambda: validate.step({"id": 5, "items": []}), "argument 'order' does not fit"),
        (
            lambda: charge.step(validate.step(ORDER), ORDER),
            "step 'charge': argument 'order' takes Order, and validate is",
        ),
        (lambda: careful.step(charge_one()), "step 'careful': argument 'value' takes int, and charge is str"),
        (lambda: careful.step(validate.step(ORDER).ok), r"'value' takes int, and validate\.ok is bool"),
        (lambda: several.step(nothing.step()), r"argument '\*files'\[0\] takes str, and nothing is int"),
        (lambda: several.step(size=charge_one()), "argument 'size' takes int, and charge is str"),
        (lambda: validate.step([nothing.step()]), "argument 'order' takes Order, got a list"),
        (lambda: careful.step({"a": nothing.step()}), "argument 'value' takes int, got a dict"),
        (lambda: validate.step({"id": nothing.step(), "items": []}), r"'order'\['id'\] takes str, and nothing is int"),
        (lambda: reserve.map([5], "7"), r"the items \('item'\) does not fit"),
        (lambda: reserve.map([nothing.step()], "7"), r"the items \('item'\)\[0\] takes str, and nothing is int"),
        (lambda: reserve.map(reserve.map(["a"], "7"), "7"), r"takes list\[str\], and reserve is list\[int\]"),
        (lambda: reserve.map(nothing.step(), "7"), r"takes list\[str\], and nothing is int"),
        (lambda: careful.map(lines.step("a")), "'value' takes int, and lines yields str"),
        (lambda: nothing.using(after=lines.step("a")).step(), "step 'lines': its task yields items, and no map takes"),
        (lambda: anything.step(lines.step("a")), "lines yields its items one by one, and only a map takes them"),
        (lambda: anything.step([lines.step("a")]), "lines yields its items one by one"),
        (lambda: lines.step("a").athrow, "lines yields its items one by one"),
        (lambda: lines.step("a")[0], "lines yields its items one by one"),
        (lambda: lines.step("a") == 5, "lines yields its items one by one"),
        (lambda: [*lines.step("a")], "lines yields its items one by one"),
        (lambda: first(lines.step("a"), lines.step("b")), "takes two or more values of steps"),
        (lambda: exists(lines.step("a")), "takes the value of a step, got lines"),
        (lambda: careful.using(when=lines.step("a")).step(1), "a condition compares values of steps"),
        (lambda: lines.step("a"), "flow 'flow': lines yields its items one by one"),
        (lambda: lines.map(["a", "b"]), "task 'lines' yields items, and is no item of a map"),
        (
            lambda: needs_its_own_items(),
            r"in a circle: lines -> reserve -> total -> anything -> lines \(a task that yields begins when all",
        ),
        (lambda: reserve.map("ab", "7"), "a map takes a list of items, got 'ab'"),
        (lambda: reserve.map({"a": 1}, "7"), "a map takes a list of items"),
        (lambda: reserve.map(5, "7"), "a map takes a list of items, got 5"),  # type: ignore[arg-type]
        (lambda: careful.map(count()), "keep big data elsewhere"),
        (lambda: total.map([reserve.map(["a"], "7")]), "'parts' reads the results of a map, and is no item"),
        (lambda: nothing.map([1]), "task 'nothing' has no parameter for an item"),  # type: ignore[misc]
        (lambda: total.step([1]), "step 'total': argument 'parts' reads the results of a map"),  # type: ignore[arg-type]
        (lambda: total.step(anything.step(1)), "reads the results of a map: pass the value of .map"),
        (lambda: texts.step(reserve.map(["a"], "7")), "reads str, and reserve is list"),  # type: ignore[arg-type]
        (lambda: reserve.map(["a"], "7")[0], "the items of a map are not known"),
        (lambda: careful.using(when=reserve.map(["a"], "7")).step(), "a condition reads the map 'reserve'"),
        (lambda: anything.step("x" * 2_000_000), "step 'anything': .*exceed 1,048,576 bytes"),
        (lambda: anything.step(use_of_other_flow()), "step 'anything': validate is a value of another flow"),
        (lambda: careful.using(after=use_of_other_flow()).step(), "validate, a value of another flow"),
        (lambda: careful.using(when=use_of_other_flow().ok).step(), "which is of another flow"),
        (lambda: careful.using(when=nothing.step() == use_of_other_flow()).step(), "of another flow"),
        (lambda: first(nothing.step(), use_of_other_flow()), "values of one flow"),
        (lambda: [careful.using(step="x").step(), careful.using(step="x").step()], "two steps are named 'x'"),
        (lambda: anything.step(self_containing()), "step 'anything': a value is nested too deeply"),
        (lambda: anything.step(nested(60)), "at most 50 levels deep"),
        (lambda: careful.using(when=nested_condition(60)).step(), "conditions are nested at most 50"),
        (lambda: anything.step({nothing.step(): 1}), "step 'anything'"),
        (lambda: anything.step({5: nothing.step()}), "text as keys"),
        (lambda: careful.using(when=5).step(), "step 'careful': a condition compares values of steps"),
        (lambda: not_(5), r"not_\(\) takes a condition"),
        (lambda: careful.using(on="end").step(), "has on='end' and needs nothing"),
        (lambda: careful.using(on="failure").step(nothing.step()), "argument 'value' may have no value"),
        (lambda: untyped.using(on="failure").step(nothing.step()), "argument 'value' may have no value"),
        (lambda: validate.step(ORDER).ok == 1, "a condition belongs into when="),
    ],
)
def test_what_is_no_flow_is_refused_with_the_reason(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(BadFlow, match=text):
        planned(make)


def test_task_of_another_app_is_no_step() -> None:
    other = Mainspring("memory://")

    @other.task
    async def foreign() -> None: ...

    with pytest.raises(BadFlow, match=r"step 'foreign': task 'foreign' is of another app: .* an @app\.stub"):
        planned(lambda: foreign.step())


def returns_nothing() -> int:
    nothing.step()
    return None  # type: ignore[return-value]


def returns_text() -> int:
    return charge.step(ORDER, Check(True))  # type: ignore[return-value]


def returns_literal() -> int:
    nothing.step()
    return "five"  # type: ignore[return-value]


def returns_map() -> list[str]:
    return reserve.map(["a"], "7")  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (returns_nothing, "returns nothing, and its annotation says int"),
        (returns_text, "what its function returns takes int, and charge is str"),
        (returns_literal, "what its function returns does not fit"),
        (returns_map, r"takes list\[str\], and reserve is list\[int\]"),
    ],
)
def test_what_a_flow_returns_is_checked(fn: Callable[[], Any], text: str) -> None:
    with pytest.raises(BadFlow, match=f"flow 'flow': .*{text}"):
        planned(fn)


def test_flow_may_return_what_is_known() -> None:
    plan = planned(lambda: [nothing.step()] and {"done": True})
    assert (plan.result, plan.inputs) == (Input(0), ('{"done":true}',))


@pytest.mark.parametrize("call", [lambda: careful.step(), lambda: careful.map([1]), lambda: fulfil(ORDER)])
def test_step_outside_of_a_flow_is_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(BadFlow, match=r"\.(step|map)\(\) is called outside of a flow"):
        call()


def test_error_of_the_function_is_its_own() -> None:
    with pytest.raises(ZeroDivisionError):
        planned(lambda: 1 / 0)


# results outside of a flow


@pytest.mark.parametrize("make", [lambda: total.job(), lambda: total.job([1, 2]), lambda: optional_total.job([1])])  # type: ignore[call-arg, arg-type, list-item]
def test_task_that_reads_results_is_not_enqueued_by_itself(make: Callable[[], Any]) -> None:
    with pytest.raises(BadPayload, match="the results of a map are passed to a task in a flow only"):
        make()


def test_optional_results_may_be_left_out() -> None:
    assert optional_total.job().payload == "{}"
    assert optional_total.job(None).payload == '{"parts":null}'


def test_worker_puts_results_into_the_arguments() -> None:
    marker = object()
    assert total.arguments.decode('{"parts":null}', {"parts": marker}) == ([], {"parts": marker})
    with pytest.raises(BadPayload, match="argument 'parts'"):
        total.arguments.decode('{"parts":null}')
