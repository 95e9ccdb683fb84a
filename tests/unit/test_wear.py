"""How worn a process is, and when that is too much."""

import os

from mainspring.testing import VirtualClock
from mainspring.worker.recycle import MB, RecyclePolicy, _peak, resident


def test_a_process_without_limits_is_never_worn() -> None:
    wear = RecyclePolicy(VirtualClock())
    wear.jobs = 10**9
    assert wear.reason() is None


def test_the_last_of_so_many_jobs_is_the_reason() -> None:
    wear = RecyclePolicy(VirtualClock(), jobs=3)
    wear.jobs = 2
    assert wear.reason() is None
    wear.jobs += 1
    assert wear.reason() == "ran 3 jobs"


def test_more_memory_than_allowed_is_the_reason() -> None:
    wear = RecyclePolicy(VirtualClock(), memory=MB)
    wear.jobs = 1
    assert wear.reason() == f"uses {-(-resident() // MB)} MB, more than 1 MB"


def test_a_process_that_has_run_nothing_stays_however_large_it_is() -> None:
    assert RecyclePolicy(VirtualClock(), memory=MB).reason() is None


def test_the_memory_is_looked_at_once_a_second() -> None:
    clock = VirtualClock()
    wear = RecyclePolicy(clock, memory=resident() + 16 * MB)
    wear.jobs = 1
    assert wear.reason() is None
    held = os.urandom(64 * MB)
    assert wear.reason() is None
    clock.advance(seconds=1)
    assert str(wear.reason()).startswith("uses ")
    assert held


def test_the_memory_is_that_of_this_process() -> None:
    before = resident()
    held = os.urandom(64 * MB)
    assert 56 * MB < resident() - before < 128 * MB
    assert _peak() >= resident() - 8 * MB
    assert held
