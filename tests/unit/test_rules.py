"""The rules of a task's circuit, outcome by outcome, and of newer progress."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring.records.circuit import Breaker, Circuit
from mainspring.records.job import State
from mainspring.records.outcome import Outcome
from mainspring.records.run import WENT_WELL, Ending, Progress
from mainspring.stores.rules import is_newer_progress, next_circuit

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SOON, COOL = NOW + timedelta(seconds=3), NOW + timedelta(seconds=10)
BREAKER = Breaker(3, 10.0)
TRIPS = {Ending.FAILED, Ending.TIMEOUT, Ending.CRASHED}
NEUTRAL = set(Ending) - TRIPS - WENT_WELL


def ended(ending: Ending, *, id: str = "job", **fields: Any) -> Outcome:
    given = {"lease": "l", "state": State.DEAD, "finished_at": NOW, "task": "task", "breaker": BREAKER}
    return Outcome(**{"id": id, "ending": ending, **given, **fields})


CLOSED, NEARLY = Circuit("task", 1), Circuit("task", 2)
OPEN, HALF = Circuit("task", 3, SOON), Circuit("task", 3, SOON, "job")
ELSEWHERE = Circuit("task", 3, SOON, "another")
ALL = [None, CLOSED, NEARLY, OPEN, HALF, ELSEWHERE]


@pytest.mark.parametrize("ending", sorted(TRIPS))
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, Circuit("task", 1)),
        (CLOSED, Circuit("task", 2)),
        (NEARLY, Circuit("task", 3, COOL)),
        (OPEN, Circuit("task", 4, SOON)),
        (HALF, Circuit("task", 4, COOL)),
        (ELSEWHERE, Circuit("task", 4, SOON, "another")),
    ],
    ids=["none", "closed", "nearly open", "open", "probe", "another probe"],
)
def test_failed_run_counts_towards_the_circuit(before: Circuit | None, after: Circuit, ending: Ending) -> None:
    assert next_circuit(before, ended(ending)) == after


@pytest.mark.parametrize("before", ALL, ids=str)
def test_successful_run_closes_the_circuit(before: Circuit | None) -> None:
    assert next_circuit(before, ended(Ending.COMPLETED)) is None
    assert next_circuit(before, ended(Ending.COMPLETED, breaker=None)) is None


@pytest.mark.parametrize("ending", sorted(NEUTRAL))
@pytest.mark.parametrize("before", ALL, ids=str)
def test_other_endings_leave_the_circuit_and_end_the_probe(before: Circuit | None, ending: Ending) -> None:
    assert next_circuit(before, ended(ending)) == (OPEN if before is HALF else before)


@pytest.mark.parametrize("ending", sorted(set(Ending) - WENT_WELL))
@pytest.mark.parametrize("before", ALL, ids=str)
def test_run_without_a_breaker_leaves_the_circuit_and_ends_the_probe(before: Circuit | None, ending: Ending) -> None:
    assert next_circuit(before, ended(ending, breaker=None)) == (OPEN if before is HALF else before)


@pytest.mark.parametrize("ending", Ending)
@pytest.mark.parametrize("before", ALL, ids=str)
def test_run_without_a_task_leaves_the_circuit_and_ends_the_probe(before: Circuit | None, ending: Ending) -> None:
    assert next_circuit(before, ended(ending, task="")) == (OPEN if before is HALF else before)


def test_stricter_breaker_opens_at_the_next_failure() -> None:
    assert next_circuit(Circuit("task", 7), ended(Ending.FAILED)) == Circuit("task", 8, COOL)


def a_progress(run: int, at: datetime) -> Progress:
    return Progress(run, at, 1)


@pytest.mark.parametrize(
    ("told", "kept", "counts"),
    [
        (None, None, False),
        (None, a_progress(1, NOW), False),
        (a_progress(1, NOW), None, True),
        (a_progress(1, SOON), a_progress(1, NOW), True),
        (a_progress(1, NOW), a_progress(1, NOW), True),
        (a_progress(1, NOW), a_progress(1, SOON), False),
        (a_progress(2, NOW), a_progress(1, SOON), True),
        (a_progress(1, SOON), a_progress(2, NOW), False),
    ],
)
def test_progress_is_newer_by_its_run_then_by_its_instant(
    told: Progress | None, kept: Progress | None, counts: bool
) -> None:
    assert is_newer_progress(told, kept) == counts
