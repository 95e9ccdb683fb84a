"""Edits of schedules, and schedules after one of their jobs ended."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring.records.job import State
from mainspring.schedule.edit import create, fingerprint, pause, redefine, reschedule, resume, trigger_now
from mainspring.schedule.job_ended import after_dependency_succeeded, after_job_ended, after_job_revived
from mainspring.schedule.plan import plan
from mainspring.schedule.record import Firing, Schedule, Spec
from mainspring.trigger import Every, Window, cron

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def at(hours: float) -> datetime:
    return NOON + timedelta(hours=hours)


def a_spec(**said: Any) -> Spec:
    return Spec(**{"trigger": Every(seconds=3600), "task": "task", **said})


def hourly(*, spec: dict[str, Any] | None = None, **fields: Any) -> Schedule:
    """An hourly schedule whose first tick is at one o'clock."""
    return replace(create("hourly", a_spec(**spec or {}), owner="user", now=NOON), **fields)


def running(spec: dict[str, Any] | None = None, *jobs: str, **fields: Any) -> Schedule:
    """A schedule that fired at one o'clock and whose run is active."""
    given = {"next_run_at": at(2), "due_at": at(2), "last_run_at": at(1), "reached_at": at(1), "fired": 1}
    return hourly(spec=spec, **{**given, "active": jobs or ("x",), **fields})


def told(firing: Firing) -> list[tuple[str, str, int]]:
    return [(tick.what, tick.reason, tick.count) for tick in firing.ticks]


# a run's end


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State.COMPLETED, {"completed": 1, "failures": 0, "succeeded_at": at(1.5)}),
        (State.DEAD, {"failed": 1, "failures": 3}),
        (State.EXPIRED, {"failed": 1, "failures": 3}),
        (State.CANCELLED, {"failures": 2}),
    ],
)
def test_after_job_ended_counts_the_run(state: State, expected: dict[str, Any]) -> None:
    old = running(failures=2)
    new = after_job_ended(old, "x", state, at(1.5))
    common = {"active": (), "revision": 2, "last_outcome": state, "last_finished_at": at(1.5)}
    assert new == replace(old, **common, **expected)


def test_after_job_ended_of_a_deleted_job_has_no_outcome() -> None:
    old = running(last_outcome=State.DEAD, last_finished_at=NOON)
    assert after_job_ended(old, "x", None, at(1.5)) == replace(old, active=(), revision=2)


def test_after_job_ended_ignores_a_job_of_another_schedule() -> None:
    old = running()
    assert after_job_ended(old, "y", State.DEAD, at(1.5)) is old


def test_a_schedule_goes_on_after_failures() -> None:
    row = running()
    for n in range(2, 10):
        row = after_job_ended(row, row.active[0], State.DEAD, at(n - 0.5))
        row = plan(row, now=at(n), new_job_id=lambda n=n: f"job {n}").schedule  # type: ignore[misc]
    assert (row.fired, row.failed, row.status) == (9, 8, "active")


@pytest.mark.parametrize(("failures", "pauses"), [(0, False), (1, True), (5, True)])
def test_pause_after_failures_pauses_the_schedule(failures: int, pauses: bool) -> None:
    new = after_job_ended(running({"pause_after_failures": 2}, failures=failures), "x", State.DEAD, at(1.5))
    assert (new.status, new.paused_at, new.due_at) == (
        ("paused", at(1.5), None) if pauses else ("active", None, at(2))
    )  # fmt: skip
    assert not pauses or f"{failures + 1} failures" in new.note


def test_pause_after_failures_keeps_the_note_of_a_paused_schedule() -> None:
    old = running({"pause_after_failures": 1}, paused_at=NOON, due_at=None, note="mine")
    new = after_job_ended(old, "x", State.DEAD, at(1.5))
    assert (new.paused_at, new.note, new.failures) == (NOON, "mine", 1)


@pytest.mark.parametrize(
    ("spec", "fields", "due_at"),
    [
        ({}, {}, at(2)),
        # A tick is held.
        ({"overlap": "queue"}, {"held_at": at(1.2)}, at(1.5)),
        ({"overlap": "queue"}, {"held_at": at(1.2), "waits_on": "other"}, at(2)),
        ({"overlap": "queue"}, {"held_at": at(1.2), "active": ("x", "y")}, at(2)),
        ({"overlap": "allow"}, {"held_at": at(1.2), "active": ("x", "y")}, at(1.5)),
        ({"overlap": "queue"}, {"held_at": at(1.2), "paused_at": NOON, "due_at": None}, None),
        # Missed ticks are caught up one by one.
        ({}, {"next_run_at": at(1.1), "due_at": None}, at(1.1)),
        ({}, {"next_run_at": at(1.1), "due_at": None, "active": ("x", "y")}, None),
        ({}, {"next_run_at": at(1.1), "due_at": None, "paused_at": NOON}, None),
        # The schedule has ended.
        ({}, {"next_run_at": None, "due_at": None}, None),
        # The interval counts from the end of the run.
        ({"after": "finish"}, {"next_run_at": None, "due_at": None}, at(2.5)),
        ({"after": "finish"}, {"next_run_at": None, "due_at": None, "active": ("x", "y")}, None),
        ({"after": "finish"}, {"next_run_at": None, "due_at": None, "held_at": at(1.2)}, at(1.5)),
        ({"after": "finish"}, {"next_run_at": None, "due_at": None, "held_at": at(1.2), "waits_on": "other"}, None),
        ({"after": "finish"}, {"next_run_at": None, "due_at": None, "paused_at": NOON}, None),
        ({"after": "finish", "max_runs": 1}, {"next_run_at": None, "due_at": None}, None),
        ({"after": "finish", "jitter": 0.0, "end_at": at(2)}, {"next_run_at": None, "due_at": None}, None),
    ],
    ids=str,
)
def test_the_end_of_a_run_sets_due_at(spec: dict[str, Any], fields: dict[str, Any], due_at: datetime | None) -> None:
    assert after_job_ended(running(spec, **fields), "x", State.CANCELLED, at(1.5)).due_at == due_at


def test_after_job_revived_lists_the_job_once() -> None:
    assert after_job_revived(running({}, "x", "y"), "z").active == ("x", "y", "z")
    assert after_job_revived(running({}, "x", "y"), "x").active == ("y", "x")
    assert after_job_revived(running(), "z").revision == 2


@pytest.mark.parametrize(
    ("overlap", "active", "due_at"), [("skip", (), at(1.5)), ("skip", ("x",), at(2)), ("allow", ("x",), at(1.5))]
)
def test_after_dependency_succeeded_a_free_schedule_is_due(
    overlap: str, active: tuple[str, ...], due_at: datetime
) -> None:
    old = running({"overlap": overlap, "depends_on": ("up",)}, held_at=at(1.2), waits_on="up")
    new = after_dependency_succeeded(replace(old, active=active), at(1.5))
    assert (new.due_at, new.waits_on, new.held_at, new.revision) == (due_at, None, at(1.2), 2)


def test_after_dependency_succeeded_a_paused_schedule_stays_paused() -> None:
    old = running(paused_at=NOON, due_at=None, held_at=at(1.2), waits_on="up")
    assert after_dependency_succeeded(old, at(1.5)) == old


# an interval that grows


def grow(row: Schedule, *results: str) -> list[int]:
    sizes = []
    for n, result in enumerate(results):
        row = after_job_ended(replace(row, active=("x",)), "x", State.COMPLETED, at(1 + n / 1000), result)
        sizes.append(row.stretch)
    return sizes


def test_an_interval_doubles_up_to_its_cap_while_results_are_the_same() -> None:
    row = running({"adapt": 6 * 3600.0})
    assert grow(row, "a", "a", "a", "a", "a", "b", "b", "b") == [1, 2, 4, 6, 6, 1, 2, 4]


def test_runs_without_a_result_count_as_the_same_result() -> None:
    assert grow(running({"adapt": 9e5}), "", "") == [1, 2]


@pytest.mark.parametrize("state", [State.DEAD, State.CANCELLED, None])
def test_only_a_completed_run_grows_the_interval(state: State | None) -> None:
    row = running({"adapt": 9e5}, digest="", stretch=2)
    assert after_job_ended(row, "x", state, at(1.1)).stretch == 2


def test_an_interval_without_a_cap_does_not_grow() -> None:
    assert grow(running(), "a", "a", "a") == [1, 1, 1]


def test_the_next_tick_moves_with_a_grown_interval() -> None:
    row = after_job_ended(running({"adapt": 9e5}), "x", State.COMPLETED, at(1.1), "a")
    assert (row.next_run_at, row.due_at) == (at(2), at(2))
    row = after_job_ended(replace(row, active=("y",)), "y", State.COMPLETED, at(1.2), "a")
    assert (row.next_run_at, row.due_at) == (at(3), at(3))
    row = after_job_ended(replace(row, active=("z",)), "z", State.COMPLETED, at(1.3), "b")
    assert (row.next_run_at, row.due_at) == (at(2), at(2))


def test_a_reset_interval_has_no_tick_in_the_past() -> None:
    row = running({"adapt": 9e5}, stretch=8, anchor_at=at(1), next_run_at=at(9), due_at=at(9), digest="other")
    new = after_job_ended(row, "x", State.COMPLETED, at(5.5), "a")
    assert (new.stretch, new.next_run_at, new.due_at) == (1, at(6), at(6))


def test_a_tick_that_is_due_already_stays_when_the_interval_changes() -> None:
    row = running({"adapt": 9e5}, stretch=4, anchor_at=at(2), digest="other")
    new = after_job_ended(row, "x", State.COMPLETED, at(2.5), "a")
    assert (new.stretch, new.next_run_at) == (1, at(2))


def test_an_after_finish_interval_grows_too() -> None:
    row = running({"adapt": 9e5, "after": "finish"}, next_run_at=None, due_at=None)
    row = after_job_ended(row, "x", State.COMPLETED, at(1.5), "a")
    assert row.next_run_at == at(2.5)
    row = after_job_ended(replace(row, next_run_at=None, due_at=None, active=("y",)), "y", State.COMPLETED, at(3), "a")
    assert (row.stretch, row.next_run_at, row.due_at) == (2, at(5), at(5))


def test_a_result_by_hand_moves_due_at_with_the_tick() -> None:
    row = running({"adapt": 9e5}, "x", "y", stretch=8, anchor_at=at(1), next_run_at=at(9), due_at=at(9), digest="other")
    new = after_job_ended(row, "x", State.COMPLETED, at(1.1), "a")
    assert new.next_run_at == new.due_at == at(2)


# create


def test_create_sets_the_next_tick() -> None:
    new = create("x", a_spec(trigger=cron("30 * * * *")), owner="user", now=NOON)
    assert (new.next_run_at, new.due_at, new.revision, new.declared) == (at(0.5), at(0.5), 1, "")


def test_create_in_code_records_the_declared_digest() -> None:
    spec = a_spec()
    assert create("x", spec, owner="code", now=NOON).declared == fingerprint(spec) != fingerprint(a_spec(priority=1))


@pytest.mark.parametrize(
    ("spec", "first"),
    [
        ({}, NOON),
        ({"start_at": at(-1)}, NOON),
        ({"start_at": at(1.5)}, at(1.5)),
        ({"end_at": NOON}, NOON),
        ({"end_at": at(-0.1), "start_at": at(-2)}, None),
        ({"window": Window("08:00", "14:00")}, NOON),
        ({"window": Window("14:00", "18:00")}, at(2)),
        ({"exclude": (date(2030, 1, 1),)}, at(12)),
    ],
    ids=str,
)
def test_run_on_start_ticks_at_once_if_the_window_allows(spec: dict[str, Any], first: datetime | None) -> None:
    assert hourly(spec={"run_on_start": True, **spec}).next_run_at == first


def test_run_on_start_is_followed_by_one_interval() -> None:
    row = hourly(spec={"run_on_start": True})
    firing = plan(row, now=NOON, new_job_id=lambda: "x")
    assert ([tick.at for tick in firing.ticks], firing.schedule.next_run_at) == ([NOON], at(1))


# redefine


@pytest.mark.parametrize(
    "change",
    [{"priority": 5}, {"overlap": "allow"}, {"catch_up": "all"}, {"payload": "[]"}, {"max_runs": 9}, {"grace": 1.0}],
    ids=str,
)
def test_redefine_keeps_the_next_tick_if_ticks_do_not_change(change: dict[str, Any]) -> None:
    old = running()
    firing = redefine(old, a_spec(**change), now=at(1.5))
    assert firing == Firing(schedule=replace(old, spec=a_spec(**change), revision=2, updated_at=at(1.5)))


@pytest.mark.parametrize(
    ("change", "first"),
    [
        ({"trigger": Every(seconds=1800)}, at(2)),
        ({"trigger": cron("15 * * * *")}, at(2.25)),
        ({"window": Window("20:00", "22:00")}, at(8)),
        ({"exclude": (date(2030, 1, 1),)}, at(12)),
        ({"start_at": at(3.3)}, at(3.3)),
        ({"end_at": at(1.6)}, None),
    ],
    ids=str,
)
def test_redefine_with_other_ticks_sets_the_next_tick(change: dict[str, Any], first: datetime | None) -> None:
    firing = redefine(running(active=()), a_spec(**change), now=at(1.5))
    assert (firing.schedule.next_run_at, firing.schedule.due_at, firing.ticks) == (first, first, ())


def test_redefine_records_due_ticks_as_skipped() -> None:
    firing = redefine(running(), a_spec(trigger=cron("15 * * * *")), now=at(4.5))
    assert told(firing) == [("skipped", "changed", 3)]
    assert (firing.schedule.skipped, firing.schedule.ticks, firing.schedule.next_run_at) == (3, 1, at(5.25))


def test_redefine_with_a_window_skips_no_earlier_ticks() -> None:
    spec = a_spec(window=Window("20:00", "22:00"), trigger=Every(seconds=900))
    row = redefine(running(active=()), spec, now=at(1.75)).schedule
    firing = plan(row, now=at(8), new_job_id=lambda: "y")
    assert told(firing) == [("fired", "", 1), ("skipped", "window", 24)]


def test_redefine_without_the_window_records_its_omitted_ticks() -> None:
    row = running({"window": Window("08:00", "14:00")}, next_run_at=at(20), due_at=at(20), active=())
    firing = redefine(row, a_spec(), now=at(5.5))
    assert told(firing) == [("skipped", "window", 4)]
    assert firing.schedule.next_run_at == at(6)


def test_redefine_stores_the_declared_digest_if_given() -> None:
    assert redefine(running(), a_spec(), now=at(1.5), declared="new").schedule.declared == "new"
    assert redefine(running(declared="old"), a_spec(), now=at(1.5)).schedule.declared == "old"


def test_redefine_with_more_max_runs_revives_an_ended_schedule() -> None:
    old = running({"max_runs": 1}, next_run_at=None, due_at=None, active=())
    firing = redefine(old, a_spec(max_runs=2), now=at(9.5))
    assert (firing.schedule.next_run_at, firing.schedule.due_at, firing.ticks) == (at(10), at(10), ())


def test_redefine_with_fewer_max_runs_ends_it_and_records_due_ticks() -> None:
    old = running({"overlap": "queue"}, held_at=at(1.2))
    firing = redefine(old, a_spec(overlap="queue", max_runs=1), now=at(1.5))
    new = firing.schedule
    assert (new.next_run_at, new.due_at, new.held_at, new.status) == (None, None, None, "ended")
    assert told(firing) == [("skipped", "changed", 1)]


def test_redefine_during_an_after_finish_run_leaves_the_tick_open() -> None:
    old = running({"after": "finish"}, next_run_at=None, due_at=None)
    new = redefine(old, a_spec(after="finish", trigger=Every(seconds=60)), now=at(1.5)).schedule
    assert new.next_run_at is None
    assert after_job_ended(new, "x", State.COMPLETED, at(2)).next_run_at == at(2) + timedelta(minutes=1)


def test_redefine_from_after_finish_to_start_sets_a_next_tick() -> None:
    old = running({"after": "finish"}, next_run_at=None, due_at=None)
    assert redefine(old, a_spec(), now=at(1.5)).schedule.due_at == at(2)


@pytest.mark.parametrize("change", [{}, {"adapt": 7200.0}], ids=["none", "another"])
def test_redefine_resets_a_grown_interval(change: dict[str, Any]) -> None:
    old = running({"adapt": 9e5}, stretch=8, next_run_at=at(9), due_at=at(9), digest="x")
    new = redefine(old, a_spec(**change), now=at(1.5)).schedule
    assert (new.stretch, new.digest, new.next_run_at, new.due_at) == (1, "", at(2), at(2))


def test_redefine_of_dependencies_reconsiders_the_held_tick() -> None:
    old = running({"depends_on": ("up",)}, active=(), held_at=at(1.2), waits_on="up")
    new = redefine(old, a_spec(), now=at(1.5)).schedule
    assert (new.waits_on, new.due_at) == (None, at(1.5))


@pytest.mark.parametrize(("overlap", "due_at"), [("queue", at(2)), ("allow", at(1.5))])
def test_redefine_to_overlap_allow_frees_the_held_tick(overlap: str, due_at: datetime) -> None:
    old = running({"overlap": "queue"}, held_at=at(1.2))
    assert redefine(old, a_spec(overlap=overlap), now=at(1.5)).schedule.due_at == due_at


def test_redefine_leaves_a_paused_schedule_paused() -> None:
    old = running(paused_at=NOON, due_at=None)
    new = redefine(old, a_spec(trigger=Every(seconds=60)), now=at(1.5)).schedule
    assert (new.paused_at, new.due_at, new.next_run_at) == (NOON, None, at(1.5) + timedelta(minutes=1))


def test_redefine_of_a_paused_schedule_keeps_the_held_tick() -> None:
    old = running(paused_at=NOON, due_at=None, active=(), held_at=at(1.2))
    assert redefine(old, a_spec(priority=1), now=at(1.5)).schedule.due_at is None
    assert reschedule(old, at(9), now=at(1.5)).schedule.due_at is None


# pause and resume


def test_pause_keeps_the_next_tick_and_clears_due_at() -> None:
    new = pause(running(), "why", now=at(1.5))
    assert (new.paused_at, new.note, new.due_at, new.next_run_at, new.revision) == (at(1.5), "why", None, at(2), 2)
    again = pause(new, "other", now=at(1.6))
    assert (again.paused_at, again.note) == (at(1.5), "other")


def asleep(spec: dict[str, Any] | None = None, **fields: Any) -> Schedule:
    return running(spec, **{"paused_at": at(1.5), "due_at": None, "note": "why", "failures": 3, "active": (), **fields})


def test_resume_from_now_skips_the_ticks_of_the_pause() -> None:
    firing = resume(asleep(), from_now=True, now=at(4.5))
    new = firing.schedule
    assert (new.paused_at, new.note, new.failures, new.next_run_at, new.due_at) == (None, "", 0, at(5), at(5))
    assert told(firing) == [("skipped", "paused", 3)]


def test_resume_follows_the_catch_up_policy() -> None:
    firing = resume(asleep(), from_now=False, now=at(4.5))
    assert (firing.schedule.next_run_at, firing.schedule.due_at, firing.ticks) == (at(2), at(2), ())
    assert told(plan(firing.schedule, now=at(4.5), new_job_id=lambda: "y")) == [
        ("missed", "catch_up", 2),
        ("fired", "", 1),
    ]


@pytest.mark.parametrize("from_now", [True, False])
def test_resume_before_the_next_tick_misses_nothing(from_now: bool) -> None:
    firing = resume(asleep(), from_now=from_now, now=at(1.75))
    assert (firing.schedule.due_at, firing.ticks) == (at(2), ())


@pytest.mark.parametrize("from_now", [True, False])
@pytest.mark.parametrize(
    ("fields", "next_at", "due_at"),
    [
        ({}, at(4), at(4)),
        ({"active": ("x",)}, None, None),
        ({"held_at": at(1.2)}, None, at(3)),
        ({"fired": 9}, None, None),
    ],
    ids=str,
)
def test_resume_restarts_an_after_finish_interval(
    from_now: bool, fields: dict[str, Any], next_at: datetime | None, due_at: datetime | None
) -> None:
    old = asleep({"after": "finish", "max_runs": 9}, next_run_at=None, **fields)
    new = resume(old, from_now=from_now, now=at(3)).schedule
    assert (new.next_run_at, new.due_at) == (next_at, due_at)


@pytest.mark.parametrize(
    ("spec", "fields", "free"),
    [
        ({"overlap": "queue"}, {}, True),
        ({"overlap": "queue"}, {"active": ("x",)}, False),
        ({"overlap": "allow"}, {"active": ("x",)}, True),
        ({"overlap": "queue"}, {"waits_on": "up"}, False),
    ],
    ids=str,
)
def test_resume_keeps_the_held_tick(spec: dict[str, Any], fields: dict[str, Any], free: bool) -> None:
    new = resume(asleep(spec, held_at=at(1.2), **fields), from_now=True, now=at(1.75)).schedule
    assert (new.held_at, new.due_at) == (at(1.2), at(1.75) if free else at(2))


# reschedule and trigger


def test_reschedule_sets_one_tick() -> None:
    firing = reschedule(running(active=()), at(2.3), now=at(1.5))
    assert (firing.schedule.next_run_at, firing.schedule.due_at, firing.ticks) == (at(2.3), at(2.3), ())
    assert plan(firing.schedule, now=at(2.3), new_job_id=lambda: "y").schedule.next_run_at == at(3)


def test_reschedule_records_due_ticks_as_skipped() -> None:
    firing = reschedule(running(), at(9.5), now=at(4.5))
    assert told(firing) == [("skipped", "changed", 3)]


def test_reschedule_to_the_past_means_now() -> None:
    assert reschedule(running(), at(0.5), now=at(1.5)).schedule.next_run_at == at(1.5)


def test_reschedule_of_a_due_tick_to_now_does_not_skip_it() -> None:
    firing = reschedule(running(), at(2), now=at(2))
    assert (firing.ticks, firing.schedule.next_run_at) == ((), at(2))


def test_reschedule_keeps_a_pause_and_a_held_tick() -> None:
    assert reschedule(asleep(), at(9), now=at(2)).schedule.due_at is None
    free = running({"overlap": "queue"}, active=(), held_at=at(1.2), due_at=at(1.4))
    assert reschedule(free, at(9), now=at(1.5)).schedule.due_at == at(1.5)


@pytest.mark.parametrize("joins", [True, False])
def test_trigger_now_does_not_change_the_next_tick(joins: bool) -> None:
    numbers = count()
    old = running(paused_at=NOON, due_at=None, ticks=4)
    firing = trigger_now(
        old, [at(1), at(1.5)], "by_hand", now=at(1.5), new_job_id=lambda: f"m{next(numbers)}", joins=joins
    )
    assert [(tick.n, tick.at, tick.job_id, tick.reason) for tick in firing.ticks] == [
        (5, at(1), "m0", "by_hand"),
        (6, at(1.5), "m1", "by_hand"),
    ]
    active = ("x", "m0", "m1") if joins else ("x",)
    assert firing.schedule == replace(old, revision=2, ticks=6, active=active, last_job_id="m1")
