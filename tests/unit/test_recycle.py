"""RecyclePolicy: limits on the runs and the memory of a worker process."""

import os

from mainspring.testing import VirtualClock
from mainspring.worker.recycle import MB, RecyclePolicy, _peak_bytes, resident_bytes


def test_without_limits_there_is_no_recycle_reason() -> None:
    wear = RecyclePolicy(VirtualClock())
    wear.jobs = 10**9
    assert wear.reason() is None


def test_the_maximum_of_jobs_is_a_recycle_reason() -> None:
    wear = RecyclePolicy(VirtualClock(), jobs=3)
    wear.jobs = 2
    assert wear.reason() is None
    wear.jobs += 1
    assert wear.reason() == "ran 3 jobs"


def test_too_much_memory_is_a_recycle_reason() -> None:
    wear = RecyclePolicy(VirtualClock(), memory=MB)
    wear.jobs = 1
    assert wear.reason() == f"uses {-(-resident_bytes() // MB)} MB, more than 1 MB"


def test_a_process_without_runs_has_no_recycle_reason() -> None:
    assert RecyclePolicy(VirtualClock(), memory=MB).reason() is None


def test_memory_for_recycling_is_measured_once_a_second() -> None:
    clock = VirtualClock()
    wear = RecyclePolicy(clock, memory=resident_bytes() + 16 * MB)
    wear.jobs = 1
    assert wear.reason() is None
    held = os.urandom(64 * MB)
    assert wear.reason() is None
    clock.advance(seconds=1)
    assert str(wear.reason()).startswith("uses ")
    assert held


def test_resident_bytes_is_the_memory_of_this_process() -> None:
    before = resident_bytes()
    held = os.urandom(64 * MB)
    assert 56 * MB < resident_bytes() - before < 128 * MB
    assert _peak_bytes() >= resident_bytes() - 8 * MB
    assert held
