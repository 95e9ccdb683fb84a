"""The moves of flows: whatever the order of ends, a flow becomes what its plan and the ends of its jobs say."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from flow_ideal import Ending, Ideal
from mainspring.flow.graph import Graph
from mainspring.flow.moves import add_items, cancel, count_made, end_steps, is_settled, revive, skip, start
from mainspring.flow.row_edit import MAX_INLINE_BYTES, MAX_MOVED_ITEMS
from mainspring.flow.verdict import judge
from mainspring.flow.yielding import ITEMS_STOPPED, NO_MAPS, takes_items
from mainspring.records.flow import FAN_OUT, Flow, Move, StepEnd
from mainspring.records.job import NewJob
from mainspring.records.plan import (
    AllOf,
    Compare,
    Exists,
    FirstOf,
    Input,
    IsTrue,
    Not,
    Plan,
    PlannedStep,
    StepOptions,
    ValueOf,
)
from mainspring.records.step import StepValue, position_of

NOW = datetime(2026, 3, 1, tzinfo=UTC)


class Fate(msgspec.Struct):
    """What the job of a step does, if it is made: of a map, all of its items."""

    state: str = "completed"
    value: Any = None
    skipped: bool = False
    dead_items: int = 0


class Play:
    """A flow whose jobs end as their steps' fates say, in any order."""

    def __init__(self, plan: Plan, fates: Mapping[int, Fate] | None = None) -> None:
        self.plan, self.graph, self.fates = plan, Graph(plan), dict(fates or {})
        self.jobs: dict[int, NewJob] = {}
        self.made: list[NewJob] = []
        self.cancelled: set[int] = set()
        self.wakes = 0
        self.flow = self.apply(start(self.graph, "f", "default", NOW))

    def apply(self, move: Move) -> Flow:
        assert msgspec.convert(msgspec.to_builtins(move.flow), Flow) == move.flow
        for one in move.jobs:
            assert one.step.position not in {other.step.position for other in self.made}
            self.jobs[one.step.position] = one
            self.made.append(one)
        self.cancelled.update(move.cancel)
        self.wakes += move.wake
        return move.flow

    def end(self, *positions: int, **end: Any) -> None:
        ends = []
        for position in positions:
            one = self.jobs.pop(position)
            fate = self.fates.get(one.step.number, Fate())
            if self.plan.steps[one.step.number].over is not None:
                state = "dead" if one.step.index <= fate.dead_items else "completed"
            else:
                state = fate.state
            result = msgspec.json.encode(fate.value).decode() if state == "completed" else None
            values = {"state": state, "result": result, "skipped": fate.skipped} | end
            ends.append(StepEnd(position=position, **values))
        self.flow = self.apply(end_steps(self.graph, self.flow, ends, NOW))

    def run(self, order: random.Random | None = None) -> str:
        while self.jobs:
            waiting = sorted(self.jobs)
            chosen = waiting if order is None else order.sample(waiting, order.randint(1, len(waiting)))
            self.end(*chosen)
        return self.flow.statuses


def step(name: str, /, **fields: Any) -> PlannedStep:
    return PlannedStep(name, fields.pop("task", name), **fields)


def value(n: int, *path: str | int) -> ValueOf:
    return ValueOf(n, path)


# random plans


@st.composite
def plans(draw: st.DrawFn) -> tuple[Plan, list[Fate]]:
    steps: list[PlannedStep] = []
    fates: list[Fate] = []
    inputs = ("1", "[1,2,3]", "[]", '"a"')
    for n in range(draw(st.integers(1, 7))):
        before = st.integers(0, n - 1)
        sources = [m for m in range(n) if steps[m].over is None]
        names = draw(st.lists(before, max_size=2, unique=True)) if n else []
        args: dict[str, Any] = {f"p{m}": value(m, *draw(st.sampled_from([(), ("x",)]))) for m in names}
        if n > 1 and draw(st.booleans()):
            args["first"] = FirstOf((value(draw(before)), value(draw(before))))
        on = draw(st.sampled_from(["success", "success", "success", "failure", "end"])) if n else "success"
        after = tuple(draw(st.lists(before, max_size=2, unique=True))) if n else ()
        if on != "success" and not (args or after):
            after = (draw(before),)
        accepts = tuple(args) if on != "success" else tuple(name for name in args if draw(st.booleans()))
        when = draw(conditions(sources)) if sources and draw(st.integers(0, 3)) == 0 else None
        over = None
        if draw(st.integers(0, 3)) == 0 and on == "success":
            over = draw(st.sampled_from([Input(1), Input(2), *(value(m, "items") for m in sources)]))
        fields = {"args": args, "accepts_none": accepts, "after": after, "on": on, "when": when, "over": over}
        optional, ratio = draw(st.integers(0, 3)) == 0, draw(st.sampled_from([0.0, 0.4, 1.0]))
        steps.append(step(f"s{n}", **fields, item="item" if over else "", optional=optional, failed_ratio=ratio))
        state = draw(st.sampled_from(["completed"] * 5 + ["dead", "dead", "cancelled"]))
        result = draw(st.sampled_from([None, {"x": 1, "items": [1, 2]}, {"x": 2, "items": []}, {"items": None}]))
        big = "y" * MAX_INLINE_BYTES if draw(st.integers(0, 3)) == 0 else ""
        result = {**result, "big": big, "items": [1]} if result and big else result
        skipped = state == "completed" and draw(st.integers(0, 5)) == 0
        fates.append(Fate(state, result, skipped, draw(st.integers(0, 3))))
    return Plan(tuple(steps), inputs), fates


@st.composite
def conditions(draw: st.DrawFn, sources: list[int]) -> Any:
    def leaf() -> Any:
        operand = value(draw(st.sampled_from(sources)), "x")
        compare = Compare(draw(st.sampled_from(["==", "!=", "<", ">="])), operand, Input(0))
        return draw(st.sampled_from([compare, Exists(operand), IsTrue(operand), Not(IsTrue(operand))]))

    return AllOf((leaf(), leaf())) if draw(st.booleans()) else leaf()


def ideal(plan: Plan, fates: list[Fate]) -> str:
    """The statuses of an undisturbed flow at its end."""
    flow = Ideal(plan)
    while todo := [(n, index) for _, n, index in sorted(flow.jobs) if index not in flow.steps[n].endings]:
        for n, index in todo:
            fate, is_item = fates[n], index > 0
            state = fate.state if not is_item else "dead" if index <= fate.dead_items else "completed"
            flow.end(n, index, Ending(state, fate.value, fate.skipped and state == "completed"))
    assert flow.over
    return "".join(flow.statuses)


def is_plain(plan: Plan, fates: list[Fate]) -> bool:
    """Whether no map reads a large value: its items are then made by a job."""
    return not any(
        isinstance(one.over, ValueOf)
        and fates[one.over.step].value not in (None,)
        and len(str(fates[one.over.step].value)) > MAX_INLINE_BYTES
        for one in plan.steps
    )


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(plans(), st.randoms(use_true_random=False))
def test_any_order_of_ends_leads_to_the_ideal(made: tuple[Plan, list[Fate]], order: random.Random) -> None:
    plan, fates = made
    if not is_plain(plan, fates):
        return
    play = Play(plan, dict(enumerate(fates)))
    assert play.run(order) == ideal(plan, fates)
    assert play.flow.state == "over"
    assert play.wakes == 1
    assert is_settled(play.flow)
    for n in play.flow.values:
        assert n in play.graph.result_steps


# fates of a flow like the one of the guide

ORDER = Plan(
    (
        step("validate", args={"order": Input(0)}),
        step("reserve", args={}, over=Input(1), item="item"),
        step("charge", args={"check": value(0)}, when=IsTrue(value(0, "ok"))),
        step("ship", args={"txn": value(2), "slots": value(1)}),
        step("refund", args={"txn": value(2)}, accepts_none=("txn",), after=(3,), on="failure"),
    ),
    ('{"id":7}', '["a","b"]'),
    value(3),
)
OK = Fate(value={"ok": True})


@pytest.mark.parametrize(
    ("fates", "statuses", "state"),
    [
        ({}, "cccc" + "n", "completed"),
        ({0: Fate(value={"ok": False})}, "ccfan", "completed"),
        ({0: Fate("dead")}, "dcuuc", "dead"),
        ({1: Fate(dead_items=1)}, "cdcuc", "dead"),
        ({2: Fate("dead")}, "ccduc", "dead"),
        ({3: Fate("dead")}, "cccdc", "dead"),
        ({3: Fate("cancelled")}, "cccxn", "cancelled"),
    ],
)
@pytest.mark.parametrize("seed", range(5))
def test_order_flow_ends_as_meant(fates: dict[int, Fate], statuses: str, state: str, seed: int) -> None:
    play = Play(ORDER, {0: OK, 2: Fate(value="t1"), **fates})
    assert play.run(random.Random(seed)) == statuses
    assert judge(play.graph, play.flow).state == state


def test_refund_waits_for_the_charge_that_is_still_to_come() -> None:
    play = Play(ORDER, {0: OK, 1: Fate(dead_items=2), 2: Fate(value="t1")})
    charge = position_of(2)
    play.end(position_of(0))
    play.end(position_of(1, 1), position_of(1, 2))
    assert play.flow.statuses == "cdruw"
    play.end(charge)
    assert play.flow.statuses == "cdcur"
    assert play.jobs[position_of(4)].payload == '{"txn":"t1"}'


def test_returned_handler_of_a_failure_completes_the_flow() -> None:
    plan = Plan((step("main"), step("fallback", after=(0,), on="failure")), result=FirstOf((value(0), value(1))))
    play = Play(plan, {0: Fate("dead")})
    play.run()
    assert judge(play.graph, play.flow).state == "completed"
    assert judge(play.graph, play.flow).result == value(1)
    compensated = Play(msgspec.structs.replace(plan, result=value(0)), {0: Fate("dead")})
    compensated.run()
    assert judge(compensated.graph, compensated.flow).dead == (0,)


# maps


def mapped(over: Any = None, **fields: Any) -> Plan:
    over = over or Input(0)
    each = step("each", over=over, item="x", args={"k": Input(1)}, **fields)
    return Plan((each, step("sum", args={"all": value(0)})), (msgspec.json.encode(list(range(10))).decode(), '"k"'))


def test_items_of_a_map_are_jobs_with_their_item_and_the_other_arguments() -> None:
    play = Play(mapped(options=StepOptions(queue="q", priority=3, tags=("t",))))
    jobs = [play.jobs[position_of(0, index)] for index in range(1, 11)]
    assert [job.payload for job in jobs] == [f'{{"k":"k","x":{n}}}' for n in range(10)]
    assert {(job.queue, job.priority, job.tags, job.task) for job in jobs} == {("q", 3, ("t",), "each")}
    assert len({job.id for job in jobs}) == 10


@pytest.mark.parametrize(("dead", "status"), [(0, "c"), (1, "c"), (2, "d")])
def test_map_is_dead_when_more_than_its_ratio_is(dead: int, status: str) -> None:
    play = Play(mapped(failed_ratio=0.1), {0: Fate(dead_items=dead)})
    assert play.run(random.Random(dead)) == status + ("c" if status == "c" else "u")


def test_map_of_nothing_ends_at_once() -> None:
    play = Play(Plan((step("each", over=Input(0), item="x"), step("sum", args={"all": value(0)})), ("[]",)))
    assert play.flow.statuses == "cr"
    assert play.jobs[position_of(1)].refs == {"/all": StepValue(position_of(0), many=True)}


@pytest.mark.parametrize(("source", "status"), [(None, "a"), ({"a": 1}, "d"), ("text", "d")])
def test_map_over_something_else_makes_no_items(source: Any, status: str) -> None:
    play = Play(Plan((step("list"), step("each", over=value(0), item="x"))), {0: Fate(value=source)})
    assert play.run() == "c" + status
    assert ("a map needs a list" in play.flow.notes.get(1, "")) is (status == "d")


def test_large_map_is_made_by_a_job_in_pages() -> None:
    plan = Plan((step("each", over=Input(0), item="x"),), (msgspec.json.encode([0] * (MAX_MOVED_ITEMS + 1)).decode(),))
    play = Play(plan)
    assert [one.task for one in play.made] == [FAN_OUT]
    play.flow = play.apply(add_items(play.graph, play.flow, 0, 1, ["1", "2"], NOW, last=False))
    play.flow = play.apply(add_items(play.graph, play.flow, 0, 1, ["1", "2"], NOW, last=False))
    play.end(position_of(0, 1), position_of(0, 2))
    assert play.flow.statuses == "r"
    play.flow = play.apply(add_items(play.graph, play.flow, 0, 2, ["2", "3"], NOW, last=True))
    play.end(position_of(0, 3))
    assert (play.flow.statuses, play.flow.counts[0].made) == ("c", 3)


def test_map_is_dead_if_the_job_that_makes_its_items_is() -> None:
    play = Play(Plan((step("list"), step("each", over=value(0), item="x"))), {0: Fate(value=["y" * MAX_INLINE_BYTES])})
    play.end(position_of(0))
    assert play.jobs[position_of(1)].refs == {"/items": StepValue(position_of(0))}
    play.end(position_of(1), state="dead")
    assert (play.flow.statuses, play.flow.state) == ("cd", "over")


def test_ten_thousand_items_that_end_together_are_one_move() -> None:
    plan = Plan((step("each", over=Input(0), item="x"),), (msgspec.json.encode([0] * (MAX_MOVED_ITEMS + 1)).decode(),))
    play = Play(plan)
    play.flow = play.apply(add_items(play.graph, play.flow, 0, 1, ["0"] * 10_000, NOW, last=True))
    play.jobs.pop(position_of(0))
    play.end(*[position for position in play.jobs if position])
    assert (play.flow.statuses, play.flow.counts[0].ended) == ("c", 10_000)


# maps over a task that yields

YIELDING = Plan(
    (
        step("by"),
        step("rows", yields=True),
        step("times", over=value(1), item="n", args={"by": value(0)}),
        step("plain", over=value(1), item="n"),
        step("sum", args={"parts": value(3)}, after=(2,), on="end", accepts_none=("parts",)),
    )
)


def pages(play: Play, step: int, first: int, *items: str) -> list[int]:
    """Stores a page of items as a store does, and returns their positions."""
    jobs = add_items(play.graph, play.flow, step, first, items, NOW, last=False).jobs
    for one in jobs:
        play.jobs[one.step.position] = one
    play.flow = play.apply(count_made(play.graph, play.flow, {step: len(jobs)}, NOW))
    return [one.step.position for one in jobs]


def test_source_begins_when_its_maps_can_and_they_begin_with_it() -> None:
    play = Play(YIELDING)
    assert (play.flow.statuses, [one.task for one in play.made]) == ("rwwww", ["by"])
    play.end(position_of(0))
    assert play.flow.statuses == "crrrw"
    assert [one.task for one in play.made] == ["by", "rows"]


def test_page_that_is_made_again_later_has_the_same_jobs() -> None:
    play = Play(YIELDING)
    play.end(position_of(0))
    first, again = (
        add_items(play.graph, play.flow, 2, 1, ["1", "2"], at, last=False).jobs
        for at in (NOW, NOW + timedelta(hours=1))
    )
    assert [job.id for job in first] == [job.id for job in again]


def test_end_of_a_source_closes_its_maps() -> None:
    play = Play(YIELDING)
    play.end(position_of(0))
    made = pages(play, 2, 1, "1", "2") + pages(play, 3, 1, "1", "2")
    assert pages(play, 2, 1, "1", "2") == []
    play.end(*made[:3])
    play.end(position_of(1), result="2")
    assert play.flow.statuses == "cccrw"
    play.end(made[3])
    assert play.flow.statuses == "ccccr"


@pytest.mark.parametrize(("state", "statuses"), [("dead", "cdddr"), ("cancelled", "cxxxr")])
def test_maps_end_with_a_source_that_failed_once_their_items_have(state: str, statuses: str) -> None:
    play = Play(YIELDING)
    play.end(position_of(0))
    made = pages(play, 2, 1, "1")
    play.end(position_of(1), state=state, result=None)
    assert play.flow.statuses == f"{statuses[:2]}r{statuses[3]}w"
    play.end(*made)
    assert play.flow.statuses == statuses


def test_revived_source_goes_on_with_the_items_there_are() -> None:
    play = Play(YIELDING)
    play.end(position_of(0))
    made = pages(play, 2, 1, "1") + pages(play, 3, 1, "1")
    play.end(*made)
    play.end(position_of(1), state="dead", result=None)
    play.end(position_of(4))
    play.flow = play.apply(revive(play.graph, play.flow, [1], [], [2, 3], NOW))
    assert (play.flow.statuses, play.flow.state, dict(play.flow.lives)) == ("crrrw", "open", {4: 1})
    assert (play.flow.counts[2].made, play.flow.counts[2].closed, play.flow.notes) == (1, False, {})
    made = pages(play, 2, 2, "2") + pages(play, 3, 2, "2")
    play.jobs[position_of(1)] = play.made[1]
    play.end(position_of(1), result="2")
    play.end(*made)
    assert play.flow.statuses == "ccccr"


def test_source_runs_again_for_a_map_that_comes_after_its_end() -> None:
    play = Play(YIELDING, {0: Fate("dead")})
    play.end(position_of(0))
    made = pages(play, 3, 1, "1")
    play.end(position_of(1), *made, result="1")
    assert play.flow.statuses == "dcucr"
    play.flow = play.apply(revive(play.graph, play.flow, [0], [], [], NOW))
    play.jobs[position_of(0)] = play.made[0]
    play.end(position_of(0), state="completed", result="1")
    assert (play.flow.statuses, play.made[-1].step.position) == ("crrcr", position_of(1, 0, 1))
    made = pages(play, 2, 1, "1")
    play.end(position_of(1, 0, 1), result="1")
    play.end(*made, position_of(4))
    assert (play.flow.statuses, play.flow.state) == ("ccccc", "over")


def test_source_runs_again_for_a_map_that_was_put_back_to_work_beside_it() -> None:
    play = Play(YIELDING)
    play.end(position_of(0))
    pages(play, 2, 1, "1")
    made = pages(play, 3, 1, "1", "2")
    play.end(position_of(1), result="2")
    assert (play.flow.statuses, play.flow.lives) == ("crrrw", {1: 1})
    assert [play.flow.counts[n].closed for n in (2, 3)] == [False, True]
    play.end(position_of(1, 0, 1), result="1")
    assert play.flow.counts[2].closed
    assert len(made) == 2


def test_maps_of_a_cancelled_flow_take_no_items() -> None:
    play = Play(YIELDING)
    play.end(position_of(0))
    assert takes_items(play.graph, play.flow, 2)
    play.flow = play.apply(cancel(play.graph, play.flow, NOW))
    assert (play.flow.statuses, play.cancelled) == ("crrrw", {1, 2, 3})
    assert not takes_items(play.graph, play.flow, 2)
    play.end(position_of(1), state="cancelled")
    assert play.flow.statuses == "cxxxr"


def test_source_runs_once_more_for_all_maps_that_it_has_not_served() -> None:
    play = Play(YIELDING)
    play.end(position_of(0))
    pages(play, 2, 1, "1")
    play.end(position_of(1), result=NO_MAPS)
    assert (play.flow.statuses, play.flow.lives, len(play.made)) == ("crrrw", {1: 1}, 3)
    pages(play, 3, 1, "1")
    play.end(position_of(1, 0, 1), result="1")
    assert [play.flow.counts[n].closed for n in (2, 3)] == [True, True]


def test_source_is_put_back_to_work_as_often_as_any_step() -> None:
    play = Play(YIELDING)
    play.end(position_of(0))
    play.flow = replace(play.flow, lives={1: 127})
    play.jobs[position_of(1, 0, 127)] = play.jobs.pop(position_of(1))
    pages(play, 2, 1, "1")
    play.end(position_of(1, 0, 127), result=NO_MAPS)
    assert (play.flow.lives, play.flow.statuses[3], play.flow.notes[3]) == ({1: 127}, "x", ITEMS_STOPPED)


def test_source_that_was_skipped_skips_maps_that_have_no_items() -> None:
    play = Play(YIELDING)
    play.end(position_of(0))
    made = pages(play, 2, 1, "1")
    play.end(position_of(1), result="null", skipped=True)
    assert play.flow.statuses == "csraw"
    play.end(*made)
    assert play.flow.statuses == "cscar"


def test_source_that_returns_something_else_ends_its_maps_as_dead() -> None:
    play = Play(YIELDING)
    play.end(position_of(0))
    play.end(position_of(1), result="[1,2]")
    assert (play.flow.statuses, play.flow.notes) == ("ccddr", dict.fromkeys((2, 3), "its items could not be made"))


def test_fail_fast_stops_a_source_whose_map_may_have_no_dead_items() -> None:
    plan = Plan((step("rows", yields=True), step("each", over=value(0), item="n")), fail_fast=True)
    play = Play(plan, {1: Fate(dead_items=1)})
    made = pages(play, 1, 1, "1", "2")
    play.end(made[0])
    assert (play.flow.statuses, play.flow.state, play.cancelled) == ("rd", "failing", {0, 1})
    assert not takes_items(play.graph, play.flow, 1)
    play.end(position_of(0), made[1], state="cancelled")
    assert (play.flow.statuses, play.flow.state) == ("xd", "over")


# stopping


def test_cancel_stops_all_but_steps_that_run_at_the_end() -> None:
    tidy, undo = step("tidy", after=(0, 1), on="end"), step("undo", after=(0,), on="failure")
    plan = Plan((step("a"), step("b", after=(0,)), tidy, undo))
    play = Play(plan)
    play.flow = play.apply(cancel(play.graph, play.flow, NOW))
    assert (play.flow.statuses, play.cancelled) == ("rxwx", {0})
    play.end(position_of(0), state="cancelled")
    assert play.flow.statuses == "xxrx"
    play.end(position_of(2))
    assert (play.flow.state, judge(play.graph, play.flow).state) == ("over", "cancelled")


def test_second_cancel_stops_those_too() -> None:
    play = Play(Plan((step("a"), step("tidy", after=(0,), on="end"))))
    play.flow = play.apply(cancel(play.graph, play.flow, NOW))
    play.end(position_of(0), state="cancelled")
    assert play.flow.statuses == "xr"
    play.flow = play.apply(cancel(play.graph, play.flow, NOW))
    assert play.cancelled == {0, 1}
    play.end(position_of(1), state="cancelled")
    assert play.flow.state == "over"
    assert play.apply(cancel(play.graph, play.flow, NOW)).state == "over"


def test_finish_completes_the_flow_and_cancels_the_rest() -> None:
    play = Play(Plan((step("a"), step("b"), step("c", after=(0, 1))), result=value(2)), {0: Fate(value=5)})
    play.end(position_of(0), finish=True)
    assert (play.flow.statuses, play.cancelled) == ("crx", {1})
    play.end(position_of(1), state="cancelled")
    assert judge(play.graph, play.flow) == type(judge(play.graph, play.flow))("completed", finish="5")


def test_fail_fast_cancels_the_rest_at_once_but_not_what_handles_the_failure() -> None:
    plan = Plan((step("a"), step("b"), step("c", after=(1,)), step("undo", after=(0,), on="failure")), fail_fast=True)
    play = Play(plan, {0: Fate("dead")})
    play.end(position_of(0))
    assert (play.flow.statuses, play.cancelled) == ("drxr", {1})


# lives


def test_end_is_applied_once_and_in_its_own_life_only() -> None:
    play = Play(Plan((step("a"), step("b", args={"a": value(0)}))), {0: Fate("dead")})
    play.end(position_of(0))
    again = StepEnd(position=position_of(0), state="completed", result="1")
    assert end_steps(play.graph, play.flow, [again], NOW).flow.statuses == "du"
    late = StepEnd(position=position_of(0, life=1), state="completed", result="1")
    assert end_steps(play.graph, play.flow, [late], NOW).flow.statuses == "du"


def test_end_that_comes_again_changes_nothing_while_others_run() -> None:
    play = Play(Plan((step("a"), step("b"), step("c", after=(0, 1), on="end"))), {0: Fate("dead")})
    play.end(position_of(0))
    again = StepEnd(position=position_of(0), state="completed", result="1")
    assert end_steps(play.graph, play.flow, [again], NOW).flow.statuses == "drw"
    play.end(position_of(1))
    play.end(position_of(2))
    play.flow = play.apply(revive(play.graph, play.flow, [0], [], [], NOW))
    play.jobs[position_of(0)] = play.made[0]
    play.end(position_of(0), state="completed")
    assert (play.flow.statuses, play.flow.lives) == ("ccr", {2: 1})
    earlier = StepEnd(position=position_of(2), state="completed", result="1")
    assert end_steps(play.graph, play.flow, [earlier], NOW).flow.statuses == "ccr"


def test_revived_step_heals_the_flow() -> None:
    play = Play(ORDER, {0: OK, 2: Fate("dead")})
    assert play.run() == "ccduc"
    play.flow = play.apply(revive(play.graph, play.flow, [2], [], [], NOW))
    assert (play.flow.statuses, play.flow.state, play.flow.lives) == ("ccrww", "open", {4: 1})
    play.jobs[position_of(2)] = next(one for one in play.made if one.step.number == 2)
    play.fates[2] = Fate(value="t1")
    assert play.run() == "ccccn"
    assert judge(play.graph, play.flow).state == "completed"
    assert play.wakes == 2


def test_revived_item_heals_its_map() -> None:
    play = Play(mapped(), {0: Fate(dead_items=1)})
    assert play.run() == "du"
    play.flow = play.apply(revive(play.graph, play.flow, [], [(0, False)], [], NOW))
    play.jobs[position_of(0, 1)] = play.made[0]
    play.fates[0] = Fate()
    assert play.run() == "cc"


def test_skipped_dead_step_counts_as_optional() -> None:
    plan = Plan(
        (
            step("a"),
            step("b", args={"a": value(0), "c": Input(0)}, accepts_none=("a",)),
        ),
        ("1",),
    )
    play = Play(plan, {0: Fate("dead")})
    assert play.run() == "du"
    play.flow = play.apply(skip(play.graph, play.flow, 0, "", NOW))
    assert play.run() == "ol"


def test_skipped_map_makes_no_more_items() -> None:
    play = Play(Plan((step("a", over=Input(0), item="n"),), (f"[{'1,' * MAX_MOVED_ITEMS}1]",)))
    assert add_items(play.graph, play.flow, 0, 1, ["1"], NOW, last=False).jobs
    play.flow = play.apply(skip(play.graph, play.flow, 0, "", NOW))
    assert add_items(play.graph, play.flow, 0, 1, ["1"], NOW, last=False).jobs == ()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans(), st.randoms(use_true_random=False))
def test_flow_whose_dead_steps_are_revived_ends_as_one_that_went_well(
    made: tuple[Plan, list[Fate]], order: random.Random
) -> None:
    plan, fates = made
    if not is_plain(plan, fates):
        return
    play = Play(plan, dict(enumerate(fates)))
    play.run(order)
    healed = [Fate("completed", fate.value, fate.skipped) if fate.state == "dead" else fate for fate in fates]
    healed = [msgspec.structs.replace(fate, dead_items=0) for fate in healed]
    for _ in range(len(fates)):
        dead = [n for n, status in enumerate(play.flow.statuses) if status == "d" and n not in play.flow.notes]
        if not dead:
            break
        n = order.choice(dead)
        play.fates[n] = healed[n]
        life = play.flow.lives.get(n, 0)
        if plan.steps[n].over is None:
            play.flow = play.apply(revive(play.graph, play.flow, [n], [], [], NOW))
            again = [position_of(n, life=life)]
        else:
            last = min(fates[n].dead_items, play.flow.counts[n].made)
            again = [position_of(n, index, life) for index in range(1, last + 1)]
            play.flow = play.apply(revive(play.graph, play.flow, [], [(n, False)] * len(again), [], NOW))
        play.jobs.update({one.step.position: one for one in play.made if one.step.position in again})
        play.run(order)
        fates[n] = healed[n]
        assert play.flow.statuses == ideal(plan, fates)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans(), st.randoms(use_true_random=False))
def test_cancelled_flow_always_ends_and_releases_only_steps_for_the_end(
    made: tuple[Plan, list[Fate]], order: random.Random
) -> None:
    plan, fates = made
    play = Play(plan, dict(enumerate(fates)))
    for _ in range(order.randint(0, 2)):
        if play.jobs:
            play.end(order.choice(sorted(play.jobs)))
    before = len(play.made)
    play.flow = play.apply(cancel(play.graph, play.flow, NOW))
    while play.jobs:
        position = order.choice(sorted(play.jobs))
        gone = (position >> 32 & 0xFFFFFF) in play.cancelled and order.random() < 0.8
        play.end(position, **({"state": "cancelled", "result": None, "skipped": False} if gone else {}))
    assert play.flow.state == "over"
    assert {plan.steps[one.step.number].on for one in play.made[before:]} <= {"end"}


# the job that makes the items of a map


def large_map(**fields: Any) -> Play:
    items = msgspec.json.encode(list(range(MAX_MOVED_ITEMS + 1))).decode()
    return Play(Plan((step("m", over=Input(0), item="x", **fields), step("after", args={"v": value(0)})), (items,)))


def make_items(play: Play, count: int) -> None:
    first = play.flow.counts[0].made + 1
    play.flow = play.apply(add_items(play.graph, play.flow, 0, first, ["1"] * count, NOW, last=False))


def test_map_over_null_that_a_job_would_make_is_skipped() -> None:
    play = large_map()
    play.end(0, state="completed", skipped=True)
    assert play.flow.statuses == "al"


def test_map_whose_making_was_cancelled_is_cancelled_and_not_complete() -> None:
    play = large_map(failed_ratio=0.5)
    make_items(play, 2)
    play.end(0, state="cancelled")
    play.end(position_of(0, 1), position_of(0, 2))
    assert play.flow.statuses == "xx"


def test_job_that_makes_items_is_put_back_to_work_with_its_map() -> None:
    play = large_map()
    make_items(play, 2)
    fan_out = play.made[0]
    play.end(0, state="dead", result=None)
    play.end(position_of(0, 1), position_of(0, 2))
    assert play.flow.statuses == "du"
    play.flow = play.apply(revive(play.graph, play.flow, [0], [], [], NOW))
    assert play.flow.statuses == "rw"
    assert not play.flow.counts[0].closed
    play.jobs[0] = fan_out
    make_items(play, 1)
    play.end(position_of(0, 3))
    assert play.flow.statuses == "rw"
    play.end(0, state="completed", result=None)
    assert play.flow.statuses == "cr"


def test_cancelled_items_that_are_put_back_to_work_no_longer_count_as_cancelled() -> None:
    play = Play(Plan((step("m", over=Input(0), item="x"),), ("[1,2]",)))
    play.end(position_of(0, 1), position_of(0, 2), state="cancelled")
    assert play.flow.statuses == "x"
    play.flow = play.apply(revive(play.graph, play.flow, [], [(0, True), (0, True)], [], NOW))
    for index in (1, 2):
        play.jobs[position_of(0, index)] = next(job for job in play.made if job.step.index == index)
        play.end(position_of(0, index), state="completed", result="1")
    assert play.flow.statuses == "c"


@pytest.mark.parametrize(
    ("when", "status"),
    [
        (IsTrue(value(0, "text")), "r"),
        (Exists(value(0, "text")), "r"),
        (Not(IsTrue(value(0, "text"))), "f"),
        (Compare("==", value(0, "text"), Input(0)), "d"),
        (Compare("==", value(0, "text"), value(0, "text")), "d"),
        (Compare("in", Input(0), value(0, "text")), "d"),
        (Compare("==", value(0, "small"), Input(0)), "r"),
    ],
)
def test_condition_on_a_large_part_is_never_wrong(when: Any, status: str) -> None:
    play = Play(Plan((step("a"), step("b", when=when)), ('"x"',)))
    play.end(0, result=msgspec.json.encode({"text": "x" * 10_000, "small": "x"}).decode())
    assert play.flow.statuses == f"c{status}"
    assert ("more than 4,096 bytes" in play.flow.notes.get(1, "")) is (status == "d")


def test_item_that_is_put_back_to_work_leaves_the_count_of_its_own_end() -> None:
    play = Play(Plan((step("m", over=Input(0), item="x"),), ("[1,2]",)))
    play.end(position_of(0, 1), state="dead")
    play.end(position_of(0, 2), state="cancelled")
    play.flow = play.apply(revive(play.graph, play.flow, [], [(0, True)], [], NOW))
    play.jobs[position_of(0, 2)] = next(job for job in play.made if job.step.index == 2)
    play.end(position_of(0, 2))
    assert (play.flow.statuses, play.flow.counts[0].dead, play.flow.counts[0].cancelled) == ("d", 1, 0)


def test_map_over_no_value_belongs_to_another_life_after_a_job_has_found_that_out() -> None:
    plan = Plan((step("list"), step("each", over=value(0, "items"), item="x")))
    play = Play(plan, {0: Fate(value={"items": None, "long": "y" * MAX_INLINE_BYTES})})
    play.end(position_of(0))
    play.end(position_of(1), skipped=True)
    assert play.flow.statuses == "ca"
    play.flow = play.apply(revive(play.graph, play.flow, [0], [], [], NOW))
    play.jobs[position_of(0)] = play.made[0]
    play.end(position_of(0))
    assert [job.step.position for job in play.made[1:]] == [position_of(1), position_of(1, life=1)]


def test_condition_of_a_step_that_was_cancelled_is_decided_after_its_retry() -> None:
    plan = Plan((step("a"), step("b", when=IsTrue(value(0, "x")))))
    play = Play(plan, {0: Fate(value={"x": 1})})
    play.flow = play.apply(cancel(play.graph, play.flow, NOW))
    play.end(position_of(0))
    assert play.flow.statuses == "cx"
    play.flow = play.apply(revive(play.graph, play.flow, [], [], [1], NOW))
    assert play.flow.statuses == "cr"
