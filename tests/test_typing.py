"""Types survive the decorator: mypy --strict and pyright pass the right sample and report each wrong line."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "tests" / "typing"
BIN = Path(sys.executable).parent
LIMIT = 120

Found = dict[str, dict[int, str]]
"""For each sample, what was said about which line."""


def mypy(out: str) -> Found:
    found: Found = {}
    for line in out.splitlines():
        if match := re.fullmatch(r"(.+?):(\d+): error: (.*)", line):
            found.setdefault(Path(match[1]).name, {})[int(match[2])] = match[3]
    return found


def pyright(out: str) -> Found:
    found: Found = {}
    for said in json.loads(out)["generalDiagnostics"]:
        line = said["range"]["start"]["line"] + 1
        found.setdefault(Path(said["file"]).name, {})[line] = said["message"]
    return found


CHECKERS: dict[str, tuple[Path, list[str], Callable[[str], Found]]] = {
    "mypy": (BIN / "mypy", ["--strict", "--no-pretty"], mypy),
    "pyright": (ROOT / "scripts" / "pyright", ["--outputjson"], pyright),
}


@pytest.fixture(scope="module")
def said() -> dict[str, Found]:
    """The reports of both checkers, which run in parallel."""
    running = {
        name: subprocess.Popen(
            [command, *options, *sorted(SAMPLES.glob("*.py"))],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, (command, options, _) in CHECKERS.items()
    }
    outs = {}
    for name, process in running.items():
        out, trouble = process.communicate(timeout=LIMIT)
        assert process.returncode == 1, f"{name} did not check the samples: {trouble or out}"
        outs[name] = CHECKERS[name][2](out)
    return outs


@pytest.mark.parametrize("checker", CHECKERS)
def test_valid_user_code_passes_the_type_checkers(said: dict[str, Found], checker: str) -> None:
    assert said[checker].get("right.py", {}) == {}


@pytest.mark.parametrize("checker", CHECKERS)
def test_the_type_checkers_report_each_wrong_line_and_no_other(said: dict[str, Found], checker: str) -> None:
    lines = SAMPLES.joinpath("wrong.py").read_text().splitlines()
    ends = ("# wrong", f"# wrong for {checker}")
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith(ends)}
    reported = said[checker]["wrong.py"]
    missed = [f"{number}: {lines[number - 1].strip()}" for number in sorted(wrong - set(reported))]
    unfounded = {number: reported[number] for number in sorted(set(reported) - wrong)}
    assert (missed, unfounded) == ([], {})
