"""An interval that grows while runs return the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import json
from msgspec.structs import replace

from mainspring import BadInput, cron, every
from mainspring.records.job import State
from mainspring.schedule.edit import create, pause, redefine, reschedule, resume, trigger_now
from mainspring.schedule.job_ended import after_job_ended
from mainspring.schedule.options import check_spec
from mainspring.schedule.plan import plan
from mainspring.schedule.record import Schedule, Spec
from mainspring.trigger import Window

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def at(minutes: float) -> datetime:
    return NOON + minutes * MINUTE


def minutes(instant: datetime | None) -> float | None:
    return None if instant is None else (instant - NOON) / MINUTE


def new(trigger: Any = None, adapt: float = 480, **said: Any) -> Schedule:
    """A schedule that ticks every minute from noon on; its interval may grow to eight minutes."""
    spec = Spec(trigger=trigger or every().minute, task="look", adapt=adapt, **said)
    return create("look", check_spec("look", spec), owner="user", now=NOON)


def fire(one: Schedule, now: datetime | None = None) -> Schedule:
    """Fires the schedule once, by default when it is due."""
    instant = now or one.due_at
    assert instant is not None
    return plan(one, now=instant, new_job_id=lambda: f"j{one.ticks + 1}").schedule


def end(one: Schedule, result: str | None, seconds: float = 1, state: State = State.COMPLETED) -> Schedule:
    """Ends the oldest active job, `seconds` after the last tick."""
    assert one.last_run_at is not None
    return after_job_ended(one, one.active[0], state, one.last_run_at + timedelta(seconds=seconds), result)


def run(one: Schedule, *results: str, seconds: float = 1) -> Schedule:
    for result in results:
        one = end(fire(one), result, seconds)
    return one


@pytest.mark.parametrize(
    ("results", "runs", "next_at"),
    [
        ("a", [1], 2),
        ("aa", [1, 2], 4),
        ("aaa", [1, 2, 4], 8),
        ("aaaa", [1, 2, 4, 8], 16),
        ("aaaaa", [1, 2, 4, 8, 16], 24),
        ("ab", [1, 2], 3),
        ("aaab", [1, 2, 4, 8], 9),
        ("aaabb", [1, 2, 4, 8, 9], 11),
        ("aabab", [1, 2, 4, 5, 6], 7),
    ],
)
def test_adapt_doubles_the_interval_for_the_same_result_and_resets_it_for_another(
    results: str, runs: list[int], next_at: int
) -> None:  # fmt: skip
    one, ticks = new(), []
    for result in results:
        one = fire(one)
        ticks.append(minutes(one.last_run_at))
        one = end(one, result)
    assert ticks == runs
    assert minutes(one.next_run_at) == next_at
    assert one.due_at == one.next_run_at


def test_adapt_takes_the_first_result_as_baseline() -> None:
    one = run(new(), "a")
    assert (one.stretch, bool(one.digest)) == (1, True)


def test_adapt_treats_no_result_as_a_result() -> None:
    one = end(fire(end(fire(new()), None)), None)
    assert one.stretch == 2


@pytest.mark.parametrize(("cap", "grown"), [(60, 1), (119, 1), (120, 2), (180, 3), (300, 5), (420, 7), (480, 8)])
def test_adapt_grows_up_to_the_cap(cap: float, grown: int) -> None:
    one = run(new(adapt=cap), *"aaaaaaaa")
    assert one.stretch == grown
    assert one.interval == every(grown).minutes


@pytest.mark.parametrize("state", [State.DEAD, State.EXPIRED, State.CANCELLED, None])
def test_adapt_ignores_runs_that_did_not_complete(state: State | None) -> None:
    one = fire(run(new(), "a", "a"))
    after = after_job_ended(one, one.active[0], state, at(4.1), None)
    assert (after.stretch, after.digest, after.next_run_at) == (one.stretch, one.digest, one.next_run_at)
    assert run(after, "a").stretch == 4


def test_adapt_reset_sets_the_next_tick_after_now_despite_a_long_run() -> None:
    one = end(fire(run(new(), "a", "a", "a")), "b", seconds=150)
    assert minutes(one.next_run_at) == 11  # 8:00 + 2:30 is past the ticks of minutes 9 and 10


def test_a_grown_interval_counts_from_the_tick_of_the_run() -> None:
    one = run(new(), "a")
    one = end(fire(one), "a", seconds=50)
    assert minutes(one.next_run_at) == 4


def test_adapt_keeps_ticks_on_multiples_of_the_interval() -> None:
    one = run(new(), *"aaabaabbaaaaab")
    assert one.next_run_at is not None
    assert not (one.next_run_at - NOON) % MINUTE
    assert not (one.anchor_at - NOON) % MINUTE


def test_adapt_keeps_a_given_anchor() -> None:
    one = run(new(every().hour.at(":15"), adapt=8 * 3600), *"aaa")
    assert one.next_run_at == NOON + timedelta(hours=7, minutes=15)
    assert run(one, "b").next_run_at == NOON + timedelta(hours=8, minutes=15)


def test_adapt_is_stored_in_the_schedule() -> None:
    one = run(new(), "a", "a")
    again = json.decode(json.encode(one), type=Schedule)
    assert again == one
    assert run(again, "a").stretch == 4


def test_adapt_survives_an_equal_declaration() -> None:
    one = run(new(), "a", "a")
    assert redefine(one, replace(one.spec, priority=3), now=at(2.5)).schedule.next_run_at == one.next_run_at


def test_a_grown_interval_is_explained() -> None:
    one = new()
    assert one.explain() == "every minute"
    one = run(one, "a", "a")
    assert one.explain() == "every minute, now every 2 minutes as it returns the same"
    assert one.interval == every(2).minutes
    assert create("c", Spec(trigger=cron("0 9 * * *"), task="t"), owner="user", now=NOON).interval is None


def test_preview_shows_the_grown_interval() -> None:
    one = run(new(), "a", "a", "a")
    assert [minutes(tick.at) for tick in one.timetable.preview(2, after=at(4.5))] == [8, 12]


# together with other policies


@pytest.mark.parametrize(
    ("catch_up", "fires", "missed", "next_at"),
    [("latest", [28], 5, 32), ("skip", [], 6, 32), ("all", [8], 0, 12)],
)
def test_missed_ticks_are_those_of_the_grown_interval(
    catch_up: str, fires: list[int], missed: int, next_at: int
) -> None:  # fmt: skip
    one = run(new(catch_up=catch_up), "a", "a", "a")  # next at 8, every 4
    firing = plan(one, now=at(30), new_job_id=lambda: "late")
    assert [minutes(tick.at) for tick in firing.ticks if tick.what == "fired"] == fires
    assert firing.schedule.missed == missed
    assert minutes(firing.schedule.next_run_at) == next_at


def test_adapt_keeps_a_tick_that_is_due_when_the_run_ends() -> None:
    one = run(new(overlap="queue"), "a")
    one = fire(one)  # the tick of minute 2; that of minute 3 is due and has not fired
    after = end(one, "a", seconds=75)
    assert (minutes(after.next_run_at), after.stretch) == (3, 2)
    assert minutes(fire(after, at(3.5)).next_run_at) == 4


def test_skipped_ticks_are_those_of_the_grown_interval() -> None:
    one = fire(run(new(), "a", "a"))  # at 4, next at 6
    one = fire(one)
    assert (one.skipped, minutes(one.next_run_at)) == (1, 8)
    assert minutes(end(one, "b", seconds=130).next_run_at) == 7


def test_adapt_counts_each_of_several_concurrent_runs() -> None:
    one = fire(fire(run(new(overlap="allow"), "a")))
    assert minutes(one.next_run_at) == 4
    one = end(end(one, "a"), "a", seconds=2)
    assert one.stretch == 4


def test_adapt_applies_to_a_paused_schedule() -> None:
    one = pause(fire(run(new(), "a", "a")), "", now=at(4))
    one = end(one, "a")
    assert (one.stretch, one.due_at, minutes(one.next_run_at)) == (4, None, 8)
    assert minutes(resume(one, from_now=True, now=at(5)).schedule.due_at) == 8
    assert minutes(resume(one, from_now=True, now=at(9)).schedule.due_at) == 12


def test_adapt_keeps_a_rescheduled_tick() -> None:
    one = reschedule(fire(run(new(), "a")), at(2.25), now=at(2)).schedule
    one = end(one, "a")
    assert (minutes(one.next_run_at), one.stretch) == (2.25, 2)
    assert minutes(fire(one).next_run_at) == 4


def test_adapt_is_reset_by_a_run_by_hand() -> None:
    one = run(new(), "a", "a", "a")
    one = trigger_now(one, [at(5)], "by_hand", now=at(5), new_job_id=lambda: "hand", joins=True).schedule
    one = after_job_ended(one, "hand", State.COMPLETED, at(5.5), "b")
    assert minutes(one.next_run_at) == 6


@pytest.mark.parametrize(("results", "gap"), [("a", 1), ("aa", 2), ("aaa", 4), ("aab", 1)])
def test_adapt_works_with_after_finish(results: str, gap: float) -> None:
    one = run(new(after="finish"), *results, seconds=90)
    assert one.last_finished_at is not None
    assert one.next_run_at == one.last_finished_at + gap * MINUTE


def test_adapt_works_with_a_window() -> None:
    one = run(new(window=Window.of(("12:00", "12:05"))), "a", "a", "a")
    assert one.next_run_at == datetime(2030, 1, 2, 12, tzinfo=UTC)


def test_adapt_of_the_last_run_sets_no_next_tick() -> None:
    assert run(new(max_runs=3), "a", "a", "a").next_run_at is None


# changes of the schedule


@pytest.mark.parametrize(
    "change",
    [{"adapt": None}, {"adapt": 120.0}, {"payload": '{"a":1}'}, {"task": "other"}],
    ids=lambda one: next(iter(one)),
)
def test_adapt_is_reset_if_task_or_payload_change(change: dict[str, Any]) -> None:
    one = run(new(), "a", "a", "a")
    after = redefine(one, replace(one.spec, **change), now=at(5)).schedule
    assert (after.stretch, after.digest, minutes(after.due_at)) == (1, "", 6)


def test_adapt_is_reset_by_another_interval() -> None:
    one = run(new(), "a", "a", "a")
    after = redefine(one, replace(one.spec, trigger=every(2).minutes), now=at(5)).schedule
    assert (after.stretch, after.digest, minutes(after.next_run_at)) == (1, "", 7)


# refusals


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"trigger": cron("* * * * *"), "adapt": 60}, "adapt needs an interval"),
        ({"trigger": cron("* * * * *"), "spread": True}, "spread needs an interval"),
        ({"trigger": every().minute, "adapt": 59}, "from the interval itself (60 s)"),
        ({"trigger": every().minute, "adapt": 1e10}, "to 3.15576e+09 s"),
        ({"trigger": every().minute, "spread": True, "after": "finish"}, "after='finish' has none"),
        ({"trigger": every().hour.at(":15"), "spread": True}, "spread sets its ticks, and so does"),
        ({"trigger": every().hour.at(":15"), "after": "finish"}, "after sets its ticks, and so does"),
    ],
)
def test_contradictory_options_of_adapt_are_refused(said: dict[str, Any], error: str) -> None:
    with pytest.raises(BadInput) as refused:
        check_spec("look", Spec(task="t", **said))
    assert error in str(refused.value)


@given(
    results=st.lists(st.sampled_from("ab"), min_size=1, max_size=30),
    lengths=st.lists(st.floats(0.1, 400), min_size=30, max_size=30),
    cap=st.sampled_from([60, 180, 480, 3600]),
    overlap=st.sampled_from(["skip", "queue", "allow", "cancel"]),
)
@settings(max_examples=150)
def test_a_grown_interval_is_always_a_multiple_of_its_interval(
    results: list[str], lengths: list[float], cap: float, overlap: str
) -> None:
    one, last = new(adapt=cap, overlap=overlap), None
    for result, seconds in zip(results, lengths, strict=False):
        assert one.due_at is not None
        one = fire(one)
        over = one.last_run_at and one.last_run_at + timedelta(seconds=seconds)
        while one.due_at is not None and over is not None and one.due_at < over:
            one = fire(one)
        for id in one.active:
            one = after_job_ended(one, id, State.COMPLETED, over or NOON, result)
        assert 1 <= one.stretch <= cap / 60
        assert one.stretch == 1 or result == last or overlap == "allow"
        assert one.next_run_at is not None
        assert not (one.next_run_at - NOON) % MINUTE
        last = result
