"""A job: the tables of its state machine, and the state people see."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import msgspec
import pytest

from mainspring import Job, State
from mainspring.records.job import (
    ALLOWED,
    FINAL,
    IDEMPOTENT_STATES,
    SHOWN,
    TRANSITIONS,
    UNFINISHED,
    Action,
    NewJob,
    Shown,
)
from mainspring.records.run import MAX_KIND_CHARACTERS, WENT_WELL, WENT_WRONG, Ending, Execution, Failure, Items
from mainspring.stores.rules import apply_action

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SOON, EARLIER = NOW + timedelta(seconds=1), NOW - timedelta(seconds=1)


def a_job(state: State = State.PENDING, **fields: Any) -> Job:
    given = {"id": "id", "task": "task", "payload": "{}", "queue": "default", "priority": 0, "run_at": NOW}
    return Job(**{**given, "created_at": EARLIER, "state": state, **fields})


def test_every_state_has_transitions() -> None:
    assert set(TRANSITIONS) == set(State)


def test_every_state_is_either_final_or_unfinished() -> None:
    assert set(State) == FINAL | UNFINISHED
    assert not FINAL & UNFINISHED
    assert {state for state in State if state.final} == FINAL


def test_a_completed_job_has_no_transition() -> None:
    assert TRANSITIONS[State.COMPLETED] == set()


@pytest.mark.parametrize("state", FINAL - {State.COMPLETED})
def test_a_dead_cancelled_or_expired_job_can_only_be_retried(state: State) -> None:
    assert TRANSITIONS[state] == {State.PENDING, State.WAITING}
    assert state in ALLOWED[Action.RETRY]


@pytest.mark.parametrize("state", UNFINISHED)
def test_every_unfinished_state_can_reach_every_final_state(state: State) -> None:
    reached, frontier = set(), {state}
    while frontier:
        reached |= frontier
        frontier = set().union(*(TRANSITIONS[at] for at in frontier)) - reached
    assert reached & FINAL == FINAL


def test_only_a_pending_job_can_start() -> None:
    assert {state for state in State if State.RUNNING in TRANSITIONS[state]} == {State.PENDING}


def test_only_a_running_job_can_complete_or_die() -> None:
    for end in (State.COMPLETED, State.DEAD):
        assert {state for state in State if end in TRANSITIONS[state]} == {State.RUNNING}


def test_no_state_leads_to_itself() -> None:
    assert not [state for state in State if state in TRANSITIONS[state]]


def test_every_action_has_a_set_of_allowed_states() -> None:
    assert set(ALLOWED) == set(Action)


@pytest.mark.parametrize(
    ("action", "state"),
    [(action, state) for action in Action if action is not Action.DELETE for state in sorted(ALLOWED[action])],
)
def test_an_allowed_action_makes_an_allowed_transition(action: Action, state: State) -> None:
    after = apply_action(action, a_job(state), NOW, "because").state
    assert after == state or after in TRANSITIONS[state]


@pytest.mark.parametrize(
    ("action", "leads_to"),
    [
        (Action.CANCEL, State.CANCELLED),
        (Action.RETRY, State.PENDING),
        (Action.PAUSE, State.PAUSED),
        (Action.RESUME, State.PENDING),
    ],
)
def test_an_action_leads_to_its_state(action: Action, leads_to: State) -> None:
    after = {state: apply_action(action, a_job(state), NOW, "because").state for state in ALLOWED[action]}
    assert after == {state: State.RUNNING if state is State.RUNNING else leads_to for state in ALLOWED[action]}


def test_a_repeated_cancel_pause_or_resume_is_allowed() -> None:
    assert State.CANCELLED in ALLOWED[Action.CANCEL]
    assert State.PAUSED in ALLOWED[Action.PAUSE]
    assert State.PENDING in ALLOWED[Action.RESUME]


def test_a_running_job_can_only_be_cancelled() -> None:
    assert [action for action in Action if State.RUNNING in ALLOWED[action]] == [Action.CANCEL]


def test_an_idempotency_key_is_held_in_unfinished_and_completed_states() -> None:
    assert UNFINISHED | {State.COMPLETED} == IDEMPOTENT_STATES


# the state people see


def test_shown_states_are_the_stored_states_plus_scheduled_and_retrying() -> None:
    assert set(SHOWN) == {state.value for state in State} | {"scheduled", "retrying"}
    assert get_args(Shown) == SHOWN


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"run_at": NOW}, "pending"),
        ({"run_at": EARLIER}, "pending"),
        ({"run_at": SOON}, "scheduled"),
        ({"run_at": SOON, "attempt": 1}, "retrying"),
        ({"run_at": EARLIER, "attempt": 1}, "retrying"),
        ({"run_at": EARLIER, "expires_at": SOON}, "pending"),
        ({"run_at": EARLIER, "expires_at": NOW}, "expired"),
        ({"run_at": SOON, "expires_at": EARLIER}, "expired"),
        ({"attempt": 1, "expires_at": EARLIER}, "expired"),
    ],
)
def test_a_pending_job_is_shown_as_pending_scheduled_retrying_or_expired(fields: dict[str, Any], shown: str) -> None:
    assert a_job(**fields).shown(NOW) == shown


@pytest.mark.parametrize("state", [state for state in State if state is not State.PENDING])
def test_every_state_except_pending_is_shown_unchanged(state: State) -> None:
    assert a_job(state, run_at=SOON, attempt=1, expires_at=EARLIER).shown(NOW) == state.value


def test_a_shown_state_changes_with_time_alone() -> None:
    job = a_job(run_at=SOON, expires_at=SOON + timedelta(seconds=1))
    later = [NOW + timedelta(seconds=n) for n in range(3)]
    assert [job.shown(at) for at in later] == ["scheduled", "pending", "expired"]


def test_an_execution_has_a_duration() -> None:
    execution = Execution(
        job_id="id",
        number=1,
        attempt=1,
        ending="completed",
        worker="ada",
        lease="l",
        started_at=EARLIER,
        finished_at=SOON,
    )
    assert execution.duration == timedelta(seconds=2)


# the kind of a failure


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("", "OSError: "),
        ("gone", "OSError: gone"),
        ("disk 7 is full", "OSError: disk … is full"),
        ("took 1.25 s", "OSError: took ….… s"),
        ("at 0xDEADbeef", "OSError: at …"),
        ("no user '42'", "OSError: no user …"),
        ('no user "ada"', "OSError: no user …"),
        ("no bytes b'\\x00'", "OSError: no bytes …"),
        ("can't open 'a.txt' of ada's", "OSError: can't open … of ada's"),
        ("job 018f0e0c-0000-7000-8000-000000000001 is gone", "OSError: job … is gone"),
        ("first\nsecond 1", "OSError: first"),
        ("日本 '語'", "OSError: 日本 …"),
    ],
)
def test_the_kind_of_a_failure_omits_numbers_ids_and_quoted_values(message: str, kind: str) -> None:
    assert Failure("OSError", message, "a stack").kind == kind


@pytest.mark.parametrize("one", ["can't open 'a'", "row 1 of 'b'", "0x1f at 'x'"])
def test_messages_that_differ_in_values_have_the_same_failure_kind(one: str) -> None:
    other = one.replace("'a'", "'other'").replace("1", "22").replace("'b'", "'c'").replace("'x'", "''")
    assert other != one
    assert Failure("OSError", one).kind == Failure("OSError", other).kind


@pytest.mark.parametrize(
    ("message", "line"),
    [("disk 1", "OSError: disk 1"), ("a \nb", "OSError: a"), ("", "OSError"), ("x" * 999, f"OSError: {'x' * 231}")],
)
def test_the_line_of_a_failure_is_the_start_of_its_message(message: str, line: str) -> None:
    assert Failure("OSError", message).line == line


def test_failures_of_different_types_have_different_kinds() -> None:
    assert Failure("OSError", "gone").kind != Failure("KeyError", "gone").kind


@pytest.mark.parametrize("message", ["x" * 10_000, "1" * 10_000, "' " * 10_000, "1x" * 10_000])
def test_the_kind_of_a_failure_is_bounded(message: str) -> None:
    assert len(Failure("T" * 256, message).kind) == MAX_KIND_CHARACTERS
    assert len(Failure("T", message).kind) <= MAX_KIND_CHARACTERS


# how runs and their items went


def test_no_ending_counts_as_success_and_failure() -> None:
    assert not WENT_WELL & WENT_WRONG
    assert set(Ending) - WENT_WELL - WENT_WRONG == {Ending.SNOOZED, Ending.RELEASED, Ending.CANCELLED, Ending.SUSPENDED}


@pytest.mark.parametrize(
    ("items", "ratio", "verdict"),
    [
        (Items(), 0.5, "success"),
        (Items(success=3), 0.5, "success"),
        (Items(skipped=3), 0.0, "success"),
        (Items(success=3, failed=1), 0.5, "partial"),
        (Items(success=1, failed=1), 0.5, "partial"),
        (Items(success=1, failed=2), 0.5, "failed"),
        (Items(success=1, failed=1, skipped=1), 0.5, "partial"),
        (Items(failed=1), 0.5, "failed"),
        (Items(failed=1), 1.0, "partial"),
        (Items(success=99, failed=1), 0.0, "failed"),
    ],
    ids=str,
)
def test_items_fail_a_run_above_the_failed_ratio(items: Items, ratio: float, verdict: str) -> None:
    assert items.verdict(ratio) == verdict


def test_half_of_the_items_may_fail_by_default() -> None:
    assert (Items(1, 1).verdict(), Items(1, 2).verdict()) == ("partial", "failed")


def test_items_total_is_the_sum_of_all_items() -> None:
    assert Items(1, 2, 3).total == 6


# former names

FORMER: dict[str, tuple[Callable[[], Any], Any]] = {
    "Job.met": (lambda: a_job(expires_at=EARLIER).met(NOW), State.EXPIRED),
    "Job.series": (lambda: a_job(schedule="daily").series, "daily"),
    "Job.beside": (lambda: a_job(schedule="daily", detached=True).beside, True),
    "NewJob.beside": (lambda: NewJob(id="id", task="task", payload="{}", detached=True).beside, True),
}


@pytest.mark.parametrize("name", FORMER)
def test_a_deprecated_alias_warns_and_has_the_same_value(name: str) -> None:
    read, value = FORMER[name]
    with pytest.warns(DeprecationWarning, match=name):
        assert read() == value


@pytest.mark.parametrize("detached", [True, False])
def test_a_detached_job_counts_for_no_schedule(detached: bool) -> None:
    job = a_job(schedule="daily", detached=detached)
    assert job.counted_schedule == (None if detached else "daily")
    assert msgspec.to_builtins(job)["beside"] is detached
