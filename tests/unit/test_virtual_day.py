"""A virtual day costs what its runs cost: nothing in it grows with what has been."""

from __future__ import annotations

import asyncio
import sys
from types import FrameType

import pytest

from mainspring import Mainspring


def make(schedules: int) -> Mainspring:
    app = Mainspring("memory://")
    for n in range(schedules):

        async def work() -> None: ...

        app.every(minutes=1)(app.task(name=f"work_{n}")(work))
    return app


def calls_of(schedules: int, minutes: int) -> float:
    """Calls of Python functions for each run: the same on any machine, however busy."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    async def advance() -> int:
        async with make(schedules).testing() as jobs:
            sys.setprofile(count)
            try:
                return len(await jobs.advance(minutes=minutes, limit=1_000_000))
            finally:
                sys.setprofile(None)

    runs = asyncio.run(advance())
    assert runs == schedules * minutes
    return calls / runs


@pytest.fixture(scope="module")
def base() -> float:
    return calls_of(2, 60)


def test_a_run_in_virtual_time_takes_a_bounded_number_of_calls(base: float) -> None:
    assert base < 700


@pytest.mark.parametrize(("schedules", "minutes"), [(2, 600), (40, 30)])
def test_ten_times_the_runs_in_virtual_time_cost_ten_times_as_much(base: float, schedules: int, minutes: int) -> None:
    assert calls_of(schedules, minutes) < 1.1 * base
