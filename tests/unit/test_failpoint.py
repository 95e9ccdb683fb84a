"""Failpoints: no-ops unless armed; then they kill or stop their process at the n-th pass."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mainspring.failpoint import POINTS, _parse, failpoint

PASSING = """
from mainspring.failpoint import failpoint
for n in range(1, 6):
    print(n, flush=True)
    failpoint("run.started")
"""


def run(failpoints: str | None, **variables: str) -> subprocess.CompletedProcess[str]:
    """A process that passes run.started five times, and prints the number before each."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAINSPRING_")}
    if failpoints is not None:
        environ["MAINSPRING_FAILPOINTS"] = failpoints
    code = [sys.executable, "-c", PASSING]
    return subprocess.run(code, env=environ | variables, capture_output=True, text=True, timeout=30)


@pytest.mark.parametrize("name", POINTS)
def test_failpoint_that_is_not_armed_does_nothing(name: str) -> None:
    failpoint(name)


@pytest.mark.parametrize("failpoints", [None, "", "run.returned=kill"])
def test_process_passes_failpoints_that_are_not_armed(failpoints: str | None) -> None:
    ended = run(failpoints)
    assert (ended.returncode, ended.stdout.split()) == (0, ["1", "2", "3", "4", "5"])


@pytest.mark.parametrize(("failpoints", "passed"), [("run.started=kill", 1), ("run.started=kill:3", 3)])
def test_failpoint_kills_the_process_at_the_nth_pass(failpoints: str, passed: int) -> None:
    ended = run(failpoints)
    assert ended.returncode == -signal.SIGKILL
    assert len(ended.stdout.split()) == passed


def test_failpoint_with_too_high_a_count_never_triggers() -> None:
    assert run("run.started=kill:6").returncode == 0


def test_failpoint_writes_its_log(tmp_path: Path) -> None:
    log = tmp_path / "reached"
    run("run.started=kill:2", MAINSPRING_FAILPOINT_LOG=str(log))
    assert log.read_text() == "run.started\n"


def test_failpoint_stops_the_process_until_it_is_continued() -> None:
    environ = os.environ | {"MAINSPRING_FAILPOINTS": "run.started=stop:2"}
    process = subprocess.Popen([sys.executable, "-c", PASSING], env=environ, stdout=subprocess.PIPE, text=True)
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        os.kill(process.pid, signal.SIGCONT)
        out, _ = process.communicate(timeout=30)
        assert out.split() == ["1", "2", "3", "4", "5"]
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("text", "armed"),
    [
        ("", {}),
        ("run.started=kill", {"run.started": ("SIGKILL", 1)}),
        ("run.started=stop:7", {"run.started": ("SIGSTOP", 7)}),
        ("run.started=kill,run.returned=kill:2", {"run.started": ("SIGKILL", 1), "run.returned": ("SIGKILL", 2)}),
        ("run.started=kill,", {"run.started": ("SIGKILL", 1)}),
    ],
)
def test_failpoint_variable_has_points_actions_and_counts(text: str, armed: dict[str, tuple[str, int]]) -> None:
    assert _parse(text) == armed


@pytest.mark.parametrize("text", ["nowhere=kill", "run.started", "run.started=", "run.started=hang", "=kill"])
def test_unknown_failpoint_is_refused(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        _parse(text)
    assert str(refused.value) == f"unknown failpoint {text!r} (points: {', '.join(POINTS)}; actions: kill, stop)"


@pytest.mark.parametrize("text", ["run.started=kill:0", "run.started=kill:-1", "run.started=kill:often"])
def test_failpoint_count_below_one_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"run\.started"):
        _parse(text)


def test_bad_failpoint_variable_ends_the_process() -> None:
    ended = run("run.strated=kill")
    assert ended.returncode == 1
    assert "unknown failpoint 'run.strated=kill'" in ended.stderr
    assert ended.stdout == ""
