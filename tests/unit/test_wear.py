"""RecyclePolicy: when a process has run too many jobs or uses too much memory."""

import os

from mainspring.testing import VirtualClock
from mainspring.worker.recycle import MB, RecyclePolicy, _peak, resident


def test_recycle_policy_without_limits_has_no_reason() -> None:
    wear = RecyclePolicy(VirtualClock())
    wear.jobs = 10**9
    assert wear.reason() is None


def test_recycle_reason_after_the_last_allowed_job() -> None:
    wear = RecyclePolicy(VirtualClock(), jobs=3)
    wear.jobs = 2
    assert wear.reason() is None
    wear.jobs += 1
    assert wear.reason() == "ran 3 jobs"


def test_recycle_reason_with_more_memory_than_allowed() -> None:
    wear = RecyclePolicy(VirtualClock(), memory=MB)
    wear.jobs = 1
    assert wear.reason() == f"uses {-(-resident() // MB)} MB, more than 1 MB"


def test_recycle_policy_keeps_a_process_that_has_run_nothing() -> None:
    assert RecyclePolicy(VirtualClock(), memory=MB).reason() is None


def test_recycle_policy_checks_memory_once_a_second() -> None:
    clock = VirtualClock()
    wear = RecyclePolicy(clock, memory=resident() + 16 * MB)
    wear.jobs = 1
    assert wear.reason() is None
    held = os.urandom(64 * MB)
    assert wear.reason() is None
    clock.advance(seconds=1)
    assert str(wear.reason()).startswith("uses ")
    assert held


def test_recycle_policy_reads_the_memory_of_this_process() -> None:
    before = resident()
    held = os.urandom(64 * MB)
    assert 56 * MB < resident() - before < 128 * MB
    assert _peak() >= resident() - 8 * MB
    assert held
