"""Tallies: runs by span of time, histograms of durations, and a bounded number of error kinds."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.clock import EPOCH, micros
from mainspring.histogram import bucket_of, count_below, midpoint, percentile
from mainspring.records.job import State
from mainspring.records.outcome import Outcome
from mainspring.records.run import Ending, Failure, Items, RunNotes
from mainspring.records.tally import (
    MAX_ERROR_KINDS,
    NOT_COUNTED,
    OTHER_ERRORS,
    RunSums,
    last_at,
    span_start,
    sums_by_minute,
)

NOW = datetime(2030, 1, 1, 12, 34, 56, 789012, tzinfo=UTC)
MINUTE = datetime(2030, 1, 1, 12, 34, tzinfo=UTC)


def ended(took: float = 1, *, at: datetime = NOW, ending: Ending = Ending.COMPLETED, **fields: Any) -> Outcome:
    given = {"id": "id", "lease": "l", "state": State.COMPLETED, "task": "task", "queue": "q"}
    started = at - timedelta(seconds=took)
    return Outcome(**{**given, "ending": ending, "finished_at": at, "started_at": started, **fields})


def count(sums: RunSums, outcome: Outcome) -> None:
    for more in sums_by_minute([outcome]).values():
        sums.add(more)


def failed(message: str) -> Outcome:
    return ended(ending=Ending.FAILED, failure=Failure("E", message))


# spans


@pytest.mark.parametrize(("span", "began"), [("minute", MINUTE), ("hour", MINUTE.replace(minute=0)), ("ever", EPOCH)])
def test_tally_spans_begin_on_the_clock(span: Any, began: datetime) -> None:
    assert span_start(NOW, span) == span_start(began, span) == began


# buckets


@pytest.mark.parametrize(
    ("us", "number"),
    [(0, 0), (1, 1), (3, 3), (4, 12), (5, 13), (7, 15), (8, 16), (9, 16), (10, 17), (15, 19), (16, 20), (1024, 44)],
)
def test_histogram_has_four_buckets_per_power_of_two(us: int, number: int) -> None:
    assert bucket_of(us) == number


@given(st.integers(0, 10**15), st.integers(0, 10**15))
def test_histogram_buckets_increase_with_duration(one: int, other: int) -> None:
    assert bucket_of(min(one, other)) <= bucket_of(max(one, other))


@given(st.integers(0, 10**15))
def test_the_midpoint_of_a_bucket_is_near_every_duration_in_it(us: int) -> None:
    assert abs(midpoint(bucket_of(us)) * 1e6 - us) <= 0.13 * us


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=50))
def test_percentiles_lie_between_the_observed_ends_and_near_the_exact_value(spans: list[int]) -> None:
    spread = Counter(map(bucket_of, spans))
    for share in (0.5, 0.95, 0.99, 1.0):
        exact = sorted(spans)[min(len(spans) - 1, -int(-share * len(spans) // 1) - 1)]
        found = percentile(spread, share, (min(spans), max(spans)))
        assert found is not None
        assert min(spans) <= found * 1e6 + 1e-3
        assert found * 1e6 <= max(spans) + 1e-3
        assert abs(found * 1e6 - exact) <= 0.13 * exact + 1e-3


@given(st.lists(st.lists(st.integers(0, 10**9), max_size=6), max_size=6))
def test_shortest_and_longest_duration_of_added_sums_are_those_of_all_runs(parts: list[list[int]]) -> None:
    whole = RunSums()
    for part in parts:
        sums = RunSums()
        sums.count(
            "completed", [timedelta(microseconds=us) for us in part], [timedelta(microseconds=2 * us) for us in part]
        )
        whole.add(sums)
    spans = [us for part in parts for us in part]
    assert whole.took_ends == ((min(spans), max(spans)) if spans else None)
    assert whole.wait_ends == ((2 * min(spans), 2 * max(spans)) if spans else None)


def test_shortest_and_longest_duration_are_unknown_with_sums_of_an_earlier_release() -> None:
    earlier = msgspec.json.decode(b'{"endings":{"completed":1},"took":4000000,"spread":{"91":1}}', type=RunSums)
    whole = RunSums()
    whole.count("completed", [timedelta(seconds=1)])
    for sums in (earlier, RunSums(), whole):
        more = RunSums()
        more.add(sums)
        more.add(earlier)
        assert more.took_ends is None
        more.count("completed", [timedelta(seconds=9)])
        assert more.took_ends is None


@given(st.integers(0, 10**15))
def test_the_midpoint_of_a_bucket_lies_in_the_bucket(us: int) -> None:
    assert bucket_of(int(midpoint(bucket_of(us)) * 1e6 + 1e-6)) == bucket_of(us)


def test_a_duration_of_a_year_is_below_bucket_200() -> None:
    assert bucket_of(365 * 86_400 * 1_000_000) < 200


# percentiles


def test_percentile_of_no_runs_is_none() -> None:
    assert percentile({}, 0.5) is None


@pytest.mark.parametrize(
    ("share", "seconds"), [(0, 1), (0.5, 1), (0.8, 1), (0.81, 10), (0.95, 10), (0.96, 99), (1, 99)]
)
def test_a_percentile_is_the_duration_that_a_share_of_runs_does_not_exceed(share: float, seconds: int) -> None:
    spread = {bucket_of(99_000_000): 5, bucket_of(1_000_000): 80, bucket_of(10_000_000): 15}
    found = percentile(spread, share)
    assert found == pytest.approx(seconds, rel=0.13)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=50), st.sampled_from([0.0, 0.5, 0.9, 0.95, 0.99, 1.0]))
def test_a_percentile_of_counted_runs_is_near_the_exact_value(durations: list[int], share: float) -> None:
    sums = RunSums()
    for us in durations:
        count(sums, ended(us / 1e6))
    found = percentile(sums.spread, share)
    true = sorted(durations)[max(0, -int(-share * len(durations) // 1) - 1)]
    assert found is not None
    assert abs(found * 1e6 - true) <= 0.13 * true + 1


# counting


def test_a_run_is_counted_with_its_ending_and_duration() -> None:
    sums = RunSums()
    for took in (1, 1, 3):
        count(sums, ended(took))
    spread, end = {bucket_of(1_000_000): 2, bucket_of(3_000_000): 1}, micros(NOW)
    assert sums == RunSums({"completed": 3}, 5_000_000, spread, {}, end, end, took_ends=(1_000_000, 3_000_000))


@pytest.mark.parametrize("started", [None, NOW + timedelta(seconds=5)], ids=["unknown", "after its end"])
def test_a_run_without_an_earlier_start_has_duration_zero(started: datetime | None) -> None:
    sums = RunSums()
    count(sums, ended(started_at=started))
    assert (sums.took, sums.spread) == (0, {0: 1})


def test_a_duration_of_days_is_counted_in_microseconds() -> None:
    sums = RunSums()
    count(sums, ended(3 * 86_400 + 0.000001))
    assert sums.took == 259_200_000_001


@pytest.mark.parametrize("ending", [Ending.COMPLETED, Ending.FAILED])
def test_a_run_is_counted_with_the_wait_time_of_its_job(ending: Ending) -> None:
    start = NOW - timedelta(seconds=1)
    runs = [ended(ending=ending, due_at=start - timedelta(seconds=wait)) for wait in (0, 7, 7, -3)]
    (sums,) = sums_by_minute([*runs, ended(ending=ending)]).values()
    assert (sums.waits, sums.waited) == ({0: 2, bucket_of(7_000_000): 2}, 14_000_000)
    assert sums.endings == {ending: 5}  # one run has no due time


def test_wait_times_are_added_to_sums_of_an_earlier_release() -> None:
    old = msgspec.json.decode(b'{"endings":{"completed":2},"took":5,"spread":{"3":2},"last":9}', type=RunSums)
    assert (old.waits, old.waited) == ({}, 0)
    count(old, ended(1, due_at=NOW - timedelta(seconds=3)))
    assert (old.endings, old.waits) == ({"completed": 3}, {bucket_of(2_000_000): 1})
    assert msgspec.json.decode(msgspec.json.encode(old), type=RunSums) == old


def test_runs_are_counted_by_minute_queue_and_task() -> None:
    at = MINUTE + timedelta(minutes=1)
    runs = [ended(), ended(at=at), ended(queue="other"), ended(task="other"), ended(at=MINUTE)]
    found = {key: sums.endings for key, sums in sums_by_minute(runs).items()}
    assert found == {
        (MINUTE, "q", "task"): {"completed": 2},
        (at, "q", "task"): {"completed": 1},
        (MINUTE, "other", "task"): {"completed": 1},
        (MINUTE, "q", "other"): {"completed": 1},
    }


def test_a_tally_has_the_end_of_its_last_run() -> None:
    (sums,) = sums_by_minute([ended(at=MINUTE), ended(at=NOW), ended(at=MINUTE)]).values()
    assert (sums.last, last_at(sums)) == (micros(NOW), NOW)
    assert last_at(RunSums()) is None


@pytest.mark.parametrize("ending", Ending)
def test_runs_that_were_snoozed_or_released_are_not_counted(ending: Ending) -> None:
    assert len(sums_by_minute([ended(ending=ending)])) == (ending not in NOT_COUNTED)
    assert {Ending.SNOOZED, Ending.RELEASED, Ending.SUSPENDED} == NOT_COUNTED


def test_a_run_without_a_task_is_not_counted() -> None:
    assert sums_by_minute([ended(task="")]) == {}


# kinds of failure


def test_failures_are_counted_by_kind() -> None:
    sums = RunSums()
    for message in ("disk 1", "disk 2", "gone"):
        count(sums, failed(message))
    assert sums.errors == {"E: disk …": 2, "E: gone": 1}


def test_failure_kinds_of_a_tally_are_bounded() -> None:
    sums = RunSums()
    for n in range(10 * MAX_ERROR_KINDS):
        count(sums, failed("x" * n))
    assert len(sums.errors) == MAX_ERROR_KINDS + 1
    assert sums.errors[OTHER_ERRORS] == 9 * MAX_ERROR_KINDS


def test_a_known_failure_kind_is_counted_when_the_bound_is_reached() -> None:
    sums = RunSums()
    for n in [*range(MAX_ERROR_KINDS + 5), 0, MAX_ERROR_KINDS - 1]:
        count(sums, failed("x" * n))
    assert (sums.errors["E: "], sums.errors["E: " + "x" * (MAX_ERROR_KINDS - 1)], sums.errors[OTHER_ERRORS]) == (
        2,
        2,
        5,
    )


@given(st.lists(st.lists(st.integers(0, 2 * MAX_ERROR_KINDS), max_size=3 * MAX_ERROR_KINDS), max_size=4))
def test_added_sums_lose_no_failure_and_bound_failure_kinds(batches: list[list[int]]) -> None:
    whole = RunSums()
    for batch in batches:
        part = RunSums()
        for n in batch:
            count(part, failed("x" * n))
        whole.add(part)
    assert sum(whole.errors.values()) == sum(map(len, batches))
    assert len(whole.errors) <= MAX_ERROR_KINDS + 1


# adding


@given(st.lists(st.integers(0, 10**9)), st.lists(st.integers(0, 10**9)))
def test_two_sums_added_are_the_sum_of_all_their_runs(one: list[int], other: list[int]) -> None:
    left, right, whole = RunSums(), RunSums(), RunSums()
    for us in one:
        count(left, ended(us / 1e6))
    for us in other:
        count(right, ended(us / 1e6, ending=Ending.FAILED, failure=Failure("E", "no")))
    for sums in (left, right):
        whole.add(sums)
    assert sum(whole.spread.values()) == sum(whole.endings.values()) == len(one) + len(other)
    assert whole.took == left.took + right.took
    assert whole.errors == ({"E: no": len(other)} if other else {})


def test_add_does_not_change_the_added_sums() -> None:
    part, whole = RunSums(), RunSums()
    count(part, ended())
    for _ in range(3):
        whole.add(part)
    assert (part.endings, whole.endings) == ({"completed": 1}, {"completed": 3})
    assert RunSums() == RunSums({}, 0, {}, {}, 0)


def test_added_sums_keep_the_later_last_end() -> None:
    one, other = RunSums(last=7), RunSums(last=5)
    one.add(other)
    other.add(one)
    assert (one.last, other.last) == (7, 7)


@given(st.lists(st.integers(0, 10**12), max_size=30), st.integers(2, 40))
def test_count_below_is_exact_for_powers_of_two(spans: list[int], power: int) -> None:
    spread = dict(Counter(map(bucket_of, spans)))
    assert count_below(spread, power) == sum(us < 2**power for us in spans)


def test_items_are_added_to_sums_of_an_earlier_release() -> None:
    old = msgspec.json.decode(b'{"endings":{"completed":2},"took":5,"spread":{"3":2},"last":7}', type=RunSums)
    count(old, ended(account=RunNotes(items=Items(success=4))))
    assert (old.endings["completed"], old.items, old.well) == (3, {"success": 4}, micros(NOW))


def test_items_of_a_run_without_a_task_are_not_counted() -> None:
    assert sums_by_minute([ended(task="", account=RunNotes(items=Items(success=4)))]) == {}
