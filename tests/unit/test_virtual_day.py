"""The cost of a virtual day is that of its runs: it does not grow with the time that has passed."""

from __future__ import annotations

import asyncio
import subprocess
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
    """Number of Python function calls per run: the same on any machine, however busy.

    In a process of its own: Python 3.11 hangs under a profiler if another thread was interrupted and is blocked, which
    tests of threads leave behind.
    """
    command = [sys.executable, __file__, str(schedules), str(minutes)]
    return float(subprocess.run(command, check=True, capture_output=True, timeout=120).stdout)


def count_calls(schedules: int, minutes: int) -> float:
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


def test_virtual_run_takes_a_bounded_number_of_calls(base: float) -> None:
    assert base < 700


@pytest.mark.parametrize(("schedules", "minutes"), [(2, 300), (40, 15)])
def test_virtual_runs_cost_grows_linearly(base: float, schedules: int, minutes: int) -> None:
    assert calls_of(schedules, minutes) < 1.1 * base


if __name__ == "__main__":
    print(count_calls(*map(int, sys.argv[1:])))
