"""The supervisor: restarts, kills and giving up, with real processes and shortened waits."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import select
import socket
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from mainspring.clock import SystemClock, Timer
from mainspring.supervisor.command_line import CommandLine
from mainspring.supervisor.supervisor import RESTART_BACKOFF, STEADY_SECONDS, SupervisedProcess, Supervisor

# up() reports that the process is ready, as a worker does.
UP = """
import os, signal, sys
number, line = os.environ["MAINSPRING_SUPERVISED"].split(":")
up = lambda: os.write(int(line), b'{"up":true}\\n')
"""


class Hasty(SystemClock):
    """A clock that is `speed` times as fast; each process appears to be `age` seconds old."""

    def __init__(self, age: float = 0.0, speed: float = 1000.0) -> None:
        self._age = age
        self._speed = speed
        self._time = 0.0

    def monotonic(self) -> float:
        self._time += self._age
        return self._time

    def call_later(self, seconds: float, act: Callable[[], object]) -> Timer:
        return super().call_later(seconds / self._speed, act)


class Ear(logging.Handler):
    """Records the supervisor's log lines; acts when a text has been logged a number of times."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.acts: dict[str, tuple[int, Callable[[], object]]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        for text, (times, act) in self.acts.items():
            if text in self.lines[-1] and len(self.heard(text)) == times:
                asyncio.get_running_loop().call_soon(act)

    def heard(self, text: str) -> list[str]:
        return [line for line in self.lines if text in line]

    def on(self, text: str, times: int, act: Callable[[], object]) -> None:
        self.acts[text] = (times, act)


@pytest.fixture
def ear(caplog: pytest.LogCaptureFixture) -> Iterator[Ear]:
    logger, ear = logging.getLogger("mainspring"), Ear()
    with caplog.at_level(logging.INFO, "mainspring"):
        logger.addHandler(ear)
        yield ear
        logger.removeHandler(ear)


def program(code: str) -> CommandLine:
    return CommandLine([sys.executable, "-I", "-S", "-c", UP + code], os.getcwd(), dict(os.environ))


def supervisor(code: str, count: int = 1, age: float = 0.0, speed: float = 1000.0) -> Supervisor:
    return Supervisor(program(code), count, grace=30, clock=Hasty(age, speed))


def waits(ear: Ear) -> list[float]:
    return [float(wait) for line in ear.lines for wait in re.findall(r"starts in (\S+) s", line)]


async def test_restarts_of_a_failing_process_back_off(ear: Ear) -> None:
    one = supervisor("os._exit(3)")
    ear.on("starts in", 9, one.stop)
    await one.run()
    found = waits(ear)
    assert all(later > 1.4 * sooner for sooner, later in pairwise(found[:7]))
    assert found[-1] <= RESTART_BACKOFF.max
    assert re.fullmatch(r"process 1 \(pid \d+\) ended: exit code 3; the next one starts in 0\.\d+ s", ear.lines[1])


async def test_restart_backoff_is_reset_after_a_steady_run(ear: Ear) -> None:
    one = supervisor("os._exit(3)", age=STEADY_SECONDS)
    ear.on("starts in", 4, one.stop)
    await one.run()
    assert max(waits(ear)) <= RESTART_BACKOFF.initial


async def test_the_signal_that_killed_a_process_is_named(ear: Ear) -> None:
    one = supervisor("os.kill(os.getpid(), signal.SIGSEGV)")
    ear.on("starts in", 1, one.stop)
    await one.run()
    assert ear.heard("ended: killed by SIGSEGV; the next one")


async def test_a_process_that_never_came_up_is_not_recycled_without_backoff(ear: Ear) -> None:
    one = supervisor("os._exit(75)")
    ear.on("starts in", 2, one.stop)
    await one.run()
    assert len(waits(ear)) == 2
    assert not ear.heard("recycled")


@pytest.mark.parametrize("code", [1, 2])
async def test_the_supervisor_gives_up_when_every_process_fails_at_its_start(ear: Ear, code: int) -> None:
    both = supervisor(f"os._exit({code})", count=2)
    await both.run()
    assert both.failure_code == code


async def test_the_supervisor_goes_on_while_one_process_works(ear: Ear) -> None:
    both = supervisor("number == '1' and os._exit(1); up(); signal.pause()", count=2)
    ear.on("starts in", 3, both.stop)
    await both.run()
    assert both.failure_code == 0
    assert len(waits(ear)) >= 3


async def test_a_process_that_came_up_once_is_restarted_after_any_exit(ear: Ear) -> None:
    one = supervisor("up(); os._exit(1)")
    ear.on("starts in", 3, one.stop)
    await one.run()
    assert one.failure_code == 0


async def test_a_program_that_cannot_be_started_is_retried(ear: Ear) -> None:
    one = Supervisor(CommandLine(["/no/such/program"], os.getcwd(), {}), 1, grace=30, clock=Hasty())
    ear.on("starts in", 2, one.stop)
    await one.run()
    assert ear.heard("process 1 cannot be started: [Errno 2]")


DEAF = "[signal.signal(number, signal.SIG_IGN) for number in (signal.SIGTERM, signal.SIGINT)]; up();"


async def test_a_third_stop_kills_the_process(ear: Ear) -> None:
    one = supervisor(f"{DEAF} signal.pause()", speed=0.001)
    ear.on("take jobs", 1, lambda: [one.stop() for _ in range(3)])
    await one.run()
    assert ear.heard("does not end: killing it")
    assert ear.lines[-1].endswith("ended: killed by SIGKILL")


@pytest.mark.parametrize("stops", [1, 2])
async def test_a_process_that_does_not_end_in_time_is_killed(ear: Ear, stops: int) -> None:
    one = supervisor(f"{DEAF} signal.pause()")
    ear.on("take jobs", 1, lambda: [one.stop() for _ in range(stops)])
    await one.run()
    assert ear.lines[-1].endswith("ended: killed by SIGKILL")


async def test_a_recycling_process_that_does_not_end_is_killed(ear: Ear) -> None:
    one = supervisor('up(); os.write(int(line), b\'{"recycling":"stuck"}\\n\'); signal.pause()')
    ear.on("ended: killed by SIGKILL", 1, one.stop)
    await one.run()
    assert ear.heard("does not end: killing it")


async def test_a_kill_also_kills_the_children_of_the_process(ear: Ear, tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    held = f"os.dup2(os.open({str(path)!r}, os.O_WRONLY), 1); os.fork() or os.execlp('sleep', 'sleep', '60');"
    one = supervisor(f"{held} {DEAF} signal.pause()")
    ear.on("take jobs", 1, one.stop)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    await one.run()
    ready, _, _ = select.select([reader], [], [], 10)
    assert ready, "somebody still holds the pipe"
    os.close(reader)


async def test_a_stop_during_the_start_of_a_process_ends_it(ear: Ear) -> None:
    one, loop = supervisor("up(); signal.pause()"), asyncio.get_running_loop()
    loop.call_soon(loop.call_soon, one.stop)
    await one.run()
    assert ear.heard("started")
    assert not ear.heard("starts in")


async def test_a_stop_does_not_wait_for_a_pending_restart(ear: Ear) -> None:
    one = supervisor("up(); os._exit(3)", speed=0.001)
    ear.on("starts in", 1, one.stop)
    await one.run()
    assert len(ear.heard("started")) == 1


async def test_a_reload_during_the_start_of_a_process_replaces_it(ear: Ear) -> None:
    one = supervisor("up(); signal.pause()")
    ear.on("take jobs", 1, one.stop)
    loop = asyncio.get_running_loop()
    loop.call_soon(loop.call_soon, one.reload)  # after its start has begun, before it has returned
    await one.run()
    assert len(ear.heard("started")) == 2
    assert not ear.heard("did not come up")


class SlowToReturn(Supervisor):
    """A supervisor whose start returns after the process is up; a reload is requested before that."""

    fifo: Path

    async def _start(self, child: SupervisedProcess, line: socket.socket) -> asyncio.subprocess.Process:
        process = await super()._start(child, line)
        if self.started == 1:
            self.reload()
        await asyncio.to_thread(self.fifo.read_bytes)
        return process


async def test_a_reload_replaces_a_process_that_is_up_before_its_start_has_returned(ear: Ear, tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    code = f"up(); open({str(path)!r}, 'w').close(); signal.pause()"
    one = SlowToReturn(program(code), 1, grace=30, clock=Hasty())
    one.fifo = path
    ear.on("take jobs", 1, one.stop)
    await one.run()
    assert len(ear.heard("started")) == 2
    assert not ear.heard("did not come up")


async def test_a_reload_does_not_wait_for_a_pending_restart(ear: Ear) -> None:
    one = supervisor("up(); os._exit(3)", speed=0.001)
    ear.on("starts in", 1, one.reload)
    ear.on("started", 2, one.stop)
    await one.run()
    assert len(ear.heard("started")) == 2


async def test_a_reload_during_a_reload_starts_another_reload(ear: Ear) -> None:
    one = supervisor("up(); signal.pause()")
    ear.on("take jobs", 1, one.reload)
    ear.on("the next one starts", 1, one.reload)
    ear.on("started", 3, one.stop)
    await one.run()
    assert len(ear.heard("replacing 1 processes")) == 2
