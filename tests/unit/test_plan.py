"""plan(): which due ticks fire, wait, are skipped or missed, by every policy."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring.records.job import State
from mainspring.schedule.edit import create, trigger_now
from mainspring.schedule.job_ended import after_job_ended, after_job_revived
from mainspring.schedule.plan import MAX_TICKS_PER_FIRING, plan
from mainspring.schedule.record import Firing, Schedule, Spec, Tick
from mainspring.schedule.status import MAX_COUNTED_TICKS, MAX_LISTED_JOBS
from mainspring.trigger import Every, Window, cron

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def at(hours: float, *, seconds: float = 0) -> datetime:
    return NOON + timedelta(hours=hours, seconds=seconds)


def hourly(**said: Any) -> Schedule:
    """An hourly schedule whose first tick is at one o'clock."""
    return create("hourly", Spec(**{"trigger": Every(seconds=3600), "task": "task", **said}), owner="user", now=NOON)


def look(row: Schedule, now: datetime, **more: Any) -> Firing:
    numbers = count(row.fired + 1)
    return plan(row, now=now, new_job_id=lambda: f"job {next(numbers)}", **more)


def told(firing: Firing) -> list[str]:
    """The tick records as text: 'fired 1', 'missed catch_up 1-4 (4)'."""
    return [_words(tick) for tick in firing.ticks]


def _words(tick: Tick) -> str:
    def hour(when: datetime) -> str:
        return f"{(when - NOON) / timedelta(hours=1):g}"

    many = "" if tick.last_at is None else f"-{hour(tick.last_at)} ({tick.count})"
    return " ".join(part for part in (tick.what, tick.reason, hour(tick.at) + many) if part)


# catch-up


@pytest.mark.parametrize(
    ("catch_up", "hours", "expected"),
    [
        ("latest", 5.5, ["missed catch_up 1-4 (4)", "fired 5"]),
        ("skip", 5.5, ["missed catch_up 1-5 (5)"]),
        ("all", 5.5, ["fired 1", "fired 2", "fired 3", "fired 4", "fired 5"]),
        # The newest is on time.
        ("latest", 5.01, ["missed catch_up 1-4 (4)", "fired 5"]),
        ("skip", 5.01, ["missed catch_up 1-4 (4)", "fired 5"]),
        ("all", 5.01, ["fired 1", "fired 2", "fired 3", "fired 4", "fired 5"]),
        # Only one tick, on time or late.
        ("latest", 1, ["fired 1"]),
        ("skip", 1, ["fired 1"]),
        ("all", 1, ["fired 1"]),
        ("latest", 1.5, ["fired 1"]),
        ("skip", 1.5, ["missed catch_up 1"]),
        # Older than a day.
        ("latest", 30.5, ["missed too_old 1-6 (6)", "missed catch_up 7-29 (23)", "fired 30"]),
        ("skip", 30.5, ["missed too_old 1-6 (6)", "missed catch_up 7-30 (24)"]),
        ("skip", 30.01, ["missed too_old 1-6 (6)", "missed catch_up 7-29 (23)", "fired 30"]),
        ("all", 30.5, ["missed too_old 1-6 (6)", *(f"fired {n}" for n in range(7, 31))]),
    ],
)
def test_late_ticks_follow_the_catch_up_policy(catch_up: str, hours: float, expected: list[str]) -> None:
    firing = look(hourly(catch_up=catch_up, overlap="allow"), at(hours))
    new = firing.schedule
    assert told(firing) == expected
    assert (new.next_run_at, new.due_at) == (at(int(hours) + 1), at(int(hours) + 1))
    assert new.fired + new.missed == int(hours)


@pytest.mark.parametrize("catch_up", ["latest", "skip", "all"])
@pytest.mark.parametrize(("seconds", "on_time"), [(0, True), (59.999999, True), (60, False)])
def test_a_tick_is_on_time_within_the_grace(catch_up: str, seconds: float, on_time: bool) -> None:
    firing = look(hourly(catch_up=catch_up), at(1, seconds=seconds))
    assert told(firing) == (["fired 1"] if on_time or catch_up != "skip" else ["missed catch_up 1"])


@pytest.mark.parametrize(("edge", "expected"), [(7200, ["fired 1"]), (7199.999999, ["missed too_old 1", "fired 2"])])
def test_a_tick_exactly_as_old_as_the_window_is_caught_up(edge: float, expected: list[str]) -> None:
    row = hourly(catch_up="all", catch_up_window=edge, end_at=at(2))
    assert told(look(row, at(3)))[: len(expected)] == expected


def test_an_on_time_tick_fires_if_all_missed_ticks_are_too_old() -> None:
    row = hourly(catch_up_window=100.0)
    assert told(look(row, at(3.5))) == ["missed too_old 1-3 (3)"]
    assert told(look(row, at(3, seconds=30))) == ["missed too_old 1-2 (2)", "fired 3"]


def test_an_on_time_tick_fires_if_the_catch_up_window_is_shorter_than_the_grace() -> None:
    row = hourly(catch_up_window=0.0, grace=7200.0)
    assert told(look(row, at(3.5)))[0] == "missed too_old 1"
    assert "fired 2" in told(look(row, at(3.5)))


def test_catch_up_all_fires_in_batches() -> None:
    row = hourly(catch_up="all", overlap="allow", catch_up_window=1e9)
    first = look(row, at(MAX_TICKS_PER_FIRING + 50.5))
    assert (len(first.ticks), first.schedule.due_at) == (MAX_TICKS_PER_FIRING, at(MAX_TICKS_PER_FIRING + 1))
    second = look(first.schedule, at(MAX_TICKS_PER_FIRING + 50.5))
    assert (len(second.ticks), second.schedule.due_at) == (50, at(MAX_TICKS_PER_FIRING + 51))


def test_very_many_missed_ticks_are_passed_with_a_capped_count() -> None:
    firing = look(hourly(catch_up="skip"), at(5 * MAX_COUNTED_TICKS + 0.5))
    old, rest = firing.ticks
    assert (old.count, old.last_at) == (MAX_COUNTED_TICKS, at(5 * MAX_COUNTED_TICKS - 24))
    assert (rest.count, rest.last_at) == (24, at(5 * MAX_COUNTED_TICKS))
    assert firing.schedule.next_run_at == at(5 * MAX_COUNTED_TICKS + 1)


def test_catch_up_all_without_overlap_runs_one_after_the_other() -> None:
    row = hourly(catch_up="all")
    firing = look(row, at(3.5))
    assert (told(firing), firing.schedule.due_at, firing.schedule.next_run_at) == (["fired 1"], None, at(2))
    row = after_job_ended(firing.schedule, "job 1", State.COMPLETED, at(3.6))
    assert row.due_at is not None
    assert row.due_at <= at(3.6)
    firing = look(row, at(3.6))
    assert (told(firing), firing.schedule.due_at) == (["fired 2"], None)
    row = after_job_ended(firing.schedule, "job 2", State.DEAD, at(4.005))
    firing = look(row, at(4.005))
    assert (told(firing), firing.schedule.next_run_at, firing.schedule.due_at) == (
        ["fired 3", "skipped overlap 4"],
        at(5),
        at(5),
    )


# overlap

ON_TIME = at(3, seconds=10)
MINUTELY: dict[str, Any] = {"trigger": Every(seconds=60), "grace": 7200.0}


@pytest.mark.parametrize(
    ("overlap", "expected", "held", "cancels"),
    [
        ("skip", ["skipped overlap 2"], None, False),
        ("queue", [], 2, False),
        ("allow", ["fired 2"], None, False),
        ("cancel", [], 2, True),
    ],
)
def test_a_tick_during_a_run_follows_the_overlap_policy(
    overlap: str, expected: list[str], held: float | None, cancels: bool
) -> None:
    running = look(hourly(overlap=overlap), at(1)).schedule
    firing = look(running, at(2))
    assert told(firing) == expected
    assert firing.schedule.held_at == (None if held is None else at(held))
    assert firing.cancel == (("job 1",) if cancels else ())
    assert (firing.schedule.next_run_at, firing.schedule.due_at) == (at(3), at(3))


@pytest.mark.parametrize(
    ("overlap", "expected", "held"),
    [
        ("skip", ["fired 1", "skipped overlap 2", "skipped overlap 3"], None),
        ("queue", ["fired 1", "skipped overlap 3"], 2),
        ("allow", ["fired 1", "fired 2", "fired 3"], None),
        ("cancel", ["skipped overlap 1", "skipped overlap 2", "fired 3"], None),
    ],
)
def test_several_due_ticks_follow_the_overlap_policy(overlap: str, expected: list[str], held: float | None) -> None:
    firing = look(hourly(overlap=overlap, grace=9e9), at(3.5))
    assert told(firing) == expected
    assert firing.schedule.held_at == (None if held is None else at(held))
    assert firing.cancel == ()


@pytest.mark.parametrize(
    ("overlap", "expected", "held"), [("queue", "skipped overlap 3", 2), ("cancel", "skipped overlap 2", 3)]
)
def test_at_most_one_tick_is_held(overlap: str, expected: str, held: float) -> None:
    row = look(look(hourly(overlap=overlap), at(1)).schedule, at(2)).schedule
    firing = look(row, at(3))
    assert (told(firing), firing.schedule.held_at) == ([expected], at(held))


@pytest.mark.parametrize("overlap", ["queue", "cancel"])
def test_the_held_tick_fires_when_the_run_has_ended(overlap: str) -> None:
    row = look(look(hourly(overlap=overlap), at(1)).schedule, at(2)).schedule
    row = after_job_ended(row, "job 1", State.CANCELLED, at(2.2))
    assert row.due_at == at(2.2)
    firing = look(row, at(2.25))
    assert (told(firing), firing.schedule.held_at, firing.schedule.due_at) == (["fired 2"], None, at(3))
    assert firing.schedule.active == ("job 2",)


def test_a_revived_job_blocks_the_next_tick() -> None:
    row = after_job_revived(hourly(), "old")
    assert told(look(row, at(1))) == ["skipped overlap 1"]


def test_a_tick_rescheduled_to_the_held_instant_fires_once() -> None:
    row = replace(hourly(overlap="allow"), held_at=at(1), next_run_at=at(1))
    firing = look(row, at(1))
    assert told(firing) == ["fired 1", "skipped made_already 1"]
    assert len(firing.schedule.active) == 1


# input


@pytest.mark.parametrize("reason", ["input: ValueError: no", "made_already"])
def test_a_tick_without_a_job_is_skipped_with_the_reason(reason: str) -> None:
    firing = look(hourly(overlap="allow", grace=9e9), at(2), skip_reasons={at(1): reason})
    assert told(firing) == [f"skipped {reason} 1", "fired 2"]


def test_a_held_tick_without_input_is_skipped() -> None:
    row = replace(hourly(overlap="queue"), held_at=NOON)
    firing = look(row, at(0.5), skip_reasons={NOON: "made_already"})
    assert (told(firing), firing.schedule.held_at) == (["skipped made_already 0"], None)


def test_overlap_takes_precedence_over_an_input_error_as_skip_reason() -> None:
    row = look(hourly(), at(1)).schedule
    assert told(look(row, at(2), skip_reasons={at(2): "input: no"})) == ["skipped overlap 2"]


# dependencies


def upstream(succeeded_at: datetime | None, name: str = "up") -> dict[str, Schedule]:
    new = create(name, Spec(trigger=Every(seconds=60), task="task"), owner="user", now=NOON)
    return {name: replace(new, revision=7, succeeded_at=succeeded_at)}


def test_a_tick_fires_if_its_dependency_succeeded_since_the_last_run() -> None:
    row = hourly(depends_on=("up",))
    assert told(look(row, at(1), dependencies=upstream(at(0.5)))) == ["fired 1"]
    again = replace(row, last_fired_at=at(0.5))
    assert told(look(again, at(1), dependencies=upstream(at(0.5)))) == []
    assert told(look(again, at(1), dependencies=upstream(at(0.500001)))) == ["fired 1"]


@pytest.mark.parametrize("hours", [-5, 0, 5], ids=["slow", "right", "fast"])
def test_a_success_of_a_dependency_counts_once_despite_clock_skew(hours: float) -> None:
    first, second = upstream(at(hours)), upstream(at(hours + 0.1))
    row = look(hourly(depends_on=("up",), overlap="allow"), at(1), dependencies=first).schedule
    waits = look(row, at(2), dependencies=first)
    assert (told(waits), waits.schedule.waits_on) == ([], "up")
    assert told(look(row, at(2), dependencies=second)) == ["fired 2"]
    assert told(look(waits.schedule, at(2.5), dependencies=second)) == ["fired 2"]


@pytest.mark.parametrize("others", [{}, upstream(None)], ids=["unknown", "never"])
def test_a_tick_waits_for_its_dependency(others: dict[str, Schedule]) -> None:
    firing = look(hourly(depends_on=("up",)), at(1), dependencies=others)
    new = firing.schedule
    assert (told(firing), new.held_at, new.waits_on, new.due_at) == ([], at(1), "up", at(2))
    assert firing.reads == (("up", 7 if others else 0),)


def test_the_next_tick_replaces_the_one_held_for_a_dependency() -> None:
    row = look(hourly(depends_on=("up",)), at(1)).schedule
    firing = look(row, at(2))
    assert (told(firing), firing.schedule.held_at) == (["skipped dependency 1"], at(2))


def test_all_dependencies_must_have_succeeded() -> None:
    row = hourly(depends_on=("a", "b", "c"))
    both = {**upstream(at(0.5), "a"), **upstream(None, "b")}
    assert look(row, at(1), dependencies=both).schedule.waits_on == "b"


def test_one_success_of_a_dependency_allows_one_run() -> None:
    row = hourly(depends_on=("up",), overlap="allow", grace=9e9)
    firing = look(row, at(3), dependencies=upstream(at(9)))
    assert (told(firing), firing.schedule.held_at, firing.schedule.waits_on) == (
        ["fired 1", "skipped dependency 2"],
        at(3),
        "up",
    )


def test_a_tick_held_for_a_dependency_fires_after_its_success() -> None:
    row = look(hourly(depends_on=("up",)), at(1)).schedule
    firing = look(row, at(1.5), dependencies=upstream(at(1.2)))
    assert (told(firing), firing.schedule.held_at, firing.schedule.waits_on) == (["fired 1"], None, None)


def test_a_held_tick_whose_dependency_succeeded_still_waits_for_its_own_run() -> None:
    row = replace(hourly(depends_on=("up",), overlap="queue"), active=("x",), held_at=NOON, waits_on="up")
    new = look(row, at(1), dependencies=upstream(at(0.5))).schedule
    assert (new.held_at, new.waits_on) == (NOON, None)
    assert after_job_ended(new, "x", State.COMPLETED, at(1.1)).due_at == at(1.1)


# windows, dates, jitter


def test_ticks_outside_the_window_are_one_record_with_a_count() -> None:
    row = hourly(window=Window("08:00", "14:00"), catch_up_window=1e9)
    firing = look(look(row, at(1)).schedule, at(20))
    assert told(firing) == ["skipped overlap 20", "skipped window 2-19 (18)"]
    assert firing.schedule.skipped == 19


def test_omitted_ticks_are_recorded_once() -> None:
    row = look(look(hourly(window=Window("08:00", "14:00"), overlap="allow"), at(1)).schedule, at(20)).schedule
    assert told(look(row, at(21))) == ["fired 21"]


def test_excluded_dates_and_windows_have_a_record_each() -> None:
    row = hourly(window=Window("08:00", "14:00"), exclude=(date(2030, 1, 2),), overlap="allow")
    firing = look(look(row, at(1)).schedule, at(44))
    assert sorted(told(firing)) == ["fired 44", "skipped excluded 12-35 (24)", "skipped window 2-43 (18)"]


def test_jitter_delays_due_at_and_not_the_tick() -> None:
    row = hourly(jitter=600.0)
    offset = row.timetable.offset
    assert timedelta(0) < offset < timedelta(seconds=600)
    assert (row.next_run_at, row.due_at) == (at(1), at(1) + offset)
    assert told(look(row, at(1) + offset - timedelta(microseconds=1))) == []
    firing = look(row, at(1) + offset)
    assert (told(firing), firing.schedule.due_at) == (["fired 1"], at(2) + offset)


def test_lateness_counts_from_the_due_time_with_jitter() -> None:
    row = hourly(jitter=600.0, catch_up="skip")
    offset = row.timetable.offset
    assert told(look(row, at(1, seconds=59) + offset)) == ["fired 1"]
    assert told(look(row, at(1, seconds=60) + offset)) == ["missed catch_up 1"]


# the end of a schedule


def test_max_runs_limits_runs() -> None:
    row = hourly(max_runs=2, overlap="allow", grace=9e9)
    firing = look(row, at(5))
    assert told(firing) == ["fired 1", "fired 2"]
    assert (firing.schedule.next_run_at, firing.schedule.due_at, firing.schedule.status) == (None, None, "ended")


def test_skipped_ticks_do_not_count_for_max_runs() -> None:
    row = hourly(max_runs=2, grace=9e9)
    firing = look(row, at(3))
    assert (told(firing), firing.schedule.next_run_at) == (["fired 1", "skipped overlap 2", "skipped overlap 3"], at(4))


def test_the_last_of_max_runs_may_be_a_held_tick() -> None:
    row = replace(hourly(max_runs=2, overlap="queue"), fired=1, held_at=NOON)
    firing = look(row, at(4.5))
    assert (told(firing), firing.schedule.next_run_at, firing.schedule.fired) == (["fired 0"], None, 2)


@pytest.mark.parametrize("after", ["start", "finish"])
def test_a_schedule_past_max_runs_fires_nothing(after: str) -> None:
    row = replace(hourly(max_runs=2, after=after), fired=2)
    firing = look(row, at(1))
    assert (told(firing), firing.schedule.next_run_at, firing.schedule.due_at) == ([], None, None)


def test_a_schedule_has_ended_after_its_last_tick() -> None:
    firing = look(hourly(end_at=at(1)), at(1))
    assert (told(firing), firing.schedule.next_run_at, firing.schedule.status) == (["fired 1"], None, "ended")


def test_start_at_is_the_first_possible_tick() -> None:
    row = hourly(start_at=at(2.5))
    assert row.next_run_at == at(2.5)
    assert look(row, at(2.5)).schedule.next_run_at == at(3.5)


# after="finish"


def test_after_finish_waits_for_the_end_of_the_run() -> None:
    firing = look(hourly(after="finish"), at(1))
    new = firing.schedule
    assert (told(firing), new.next_run_at, new.due_at, new.status) == (["fired 1"], None, None, "active")
    done = after_job_ended(new, "job 1", State.DEAD, at(1.75))
    assert (done.next_run_at, done.due_at) == (at(2.75), at(2.75))


@pytest.mark.parametrize(
    ("said", "expected"),
    [({"catch_up": "skip"}, "missed catch_up 1"), ({"catch_up_window": 60.0}, "missed too_old 1"), ({}, "fired 1")],
    ids=str,
)
def test_after_finish_has_at_most_one_late_tick(said: dict[str, Any], expected: str) -> None:
    firing = look(hourly(after="finish", **said), at(9.5))
    assert told(firing) == [expected]
    assert firing.schedule.next_run_at == (None if expected == "fired 1" else at(10.5))


def test_after_finish_restarts_from_now_if_a_tick_made_no_job() -> None:
    firing = look(hourly(after="finish"), at(1), skip_reasons={at(1): "input: no"})
    assert (told(firing), firing.schedule.next_run_at) == (["skipped input: no 1"], at(2))


@pytest.mark.parametrize("overlap", ["skip", "allow", "queue", "cancel"])
def test_after_finish_is_blocked_by_a_run_by_hand(overlap: str) -> None:
    row = replace(hourly(after="finish", overlap=overlap), active=("x",))
    firing = look(row, at(1))
    assert [tick for tick in firing.ticks if tick.what == "fired"] == []
    done = after_job_ended(firing.schedule, "x", State.COMPLETED, at(1.5))
    assert done.due_at == (at(2.5) if overlap == "skip" else at(1.5))


def test_after_finish_omits_no_ticks_before_its_anchor() -> None:
    said: dict[str, Any] = {"after": "finish", "window": Window("08:00", "14:00"), "trigger": Every(seconds=1800)}
    row = look(hourly(**said), at(0.5)).schedule
    row = after_job_ended(row, "job 1", State.COMPLETED, at(4.25))
    assert told(look(row, at(20.25))) == ["fired 20.25", "skipped window 4.75-19.75 (31)"]


# an interval that has grown


def grown(**said: Any) -> Schedule:
    return replace(hourly(adapt=4 * 3600.0, **said), stretch=4, next_run_at=at(4), due_at=at(4))


def test_a_grown_interval_has_a_later_next_tick() -> None:
    assert look(grown(), at(4)).schedule.next_run_at == at(8)


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [
        ("latest", ["missed catch_up 4-8 (2)", "fired 12"]),
        ("skip", ["missed catch_up 4-12 (3)"]),
        ("all", ["fired 4", "fired 8", "fired 12"]),
    ],
)
def test_a_grown_interval_does_not_miss_ticks_of_the_original_one(catch_up: str, expected: list[str]) -> None:
    firing = look(grown(catch_up=catch_up, overlap="allow"), at(14.5))
    assert (told(firing), firing.schedule.next_run_at) == (expected, at(16))


def test_a_grown_interval_passes_many_ticks_in_one_firing() -> None:
    firing = look(grown(catch_up="skip"), at(9 * MAX_COUNTED_TICKS))
    assert firing.ticks[0].count == MAX_COUNTED_TICKS
    assert firing.schedule.next_run_at is not None
    assert firing.schedule.next_run_at > at(9 * MAX_COUNTED_TICKS)


# other fields of the schedule


def test_the_schedule_records_its_last_fired_tick() -> None:
    new = look(hourly(overlap="allow", grace=9e9), at(2.5)).schedule
    assert (new.last_run_at, new.last_fired_at, new.last_job_id) == (at(2), at(2.5), "job 2")
    assert (new.fired, new.ticks, new.revision, new.reached_at) == (2, 2, 2, at(2))


def test_planning_early_fires_nothing_and_keeps_due_at() -> None:
    row = hourly()
    new = look(row, at(0.5)).schedule
    assert (new.next_run_at, new.due_at, new.ticks, new.last_fired_at) == (at(1), at(1), 0, None)


def test_a_cron_schedule_is_planned_like_an_interval() -> None:
    row = create("x", Spec(trigger=cron("0 * * * *"), task="task"), owner="user", now=at(0.5))
    assert told(look(row, at(3.5))) == ["missed catch_up 1-2 (2)", "fired 3"]


def test_overlapping_jobs_are_listed_up_to_a_limit() -> None:
    row = hourly(overlap="allow", catch_up="all", catch_up_window=10**7)
    for _ in range(3):
        row = look(row, at(3 * MAX_TICKS_PER_FIRING)).schedule
    row = trigger_now(
        row, [at(0)], "by_hand", now=at(3 * MAX_TICKS_PER_FIRING), new_job_id=lambda: "last", joins=True
    ).schedule
    row = after_job_revived(row, "old")
    known = (len(row.active), row.unlisted, row.active[-2:])
    assert known == (MAX_LISTED_JOBS, 3 * MAX_TICKS_PER_FIRING + 2 - MAX_LISTED_JOBS, ("last", "old"))
    new = after_job_ended(row, "not listed", State.COMPLETED, at(3 * MAX_TICKS_PER_FIRING))
    assert (len(new.active), new.unlisted, new.completed) == (MAX_LISTED_JOBS, row.unlisted - 1, 1)
    assert after_job_ended(
        replace(row, unlisted=0), "a stranger", State.COMPLETED, at(3 * MAX_TICKS_PER_FIRING)
    ) == replace(row, unlisted=0)
