"""How scripts/mutate plays a list: a tiny tree, and a program that answers as pytest does."""

import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Plays the tests of the door: they fail if it is open, hang if it is stuck, take 2 s if it is slow.
# Notes where it has played what.
PYTHON = """#!/bin/bash
case "$*" in
"-c import mainspring"*) echo "$PWD/src/mainspring/__init__.py"; exit ;;
esac
touch "$TMPDIR/mine"
echo "$TMPDIR $(cat src/mainspring/door.py | tr '\\n' ' ')" >>"$NOTES"
if grep -q stuck src/mainspring/*.py; then
    setsid sleep 600 &
    echo $! >>"$NOTES.strays"
    sleep 600
fi
if grep -q together src/mainspring/door.py; then
    touch "$NOTES.$$"
    until [ "$(ls "$NOTES".[0-9]* | wc -l)" = 2 ]; do sleep 0.01; done
fi
if grep -q slow src/mainspring/door.py; then sleep 2; fi
if grep -q open src/mainspring/door.py; then
    echo "FAILED tests/test_door.py::test_the_door_is_shut - AssertionError"
    exit 1
fi
"""
LIST = """
import sys
from pathlib import Path
from typing import NamedTuple

import mutation_runner


class Mutation(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    judges: tuple = ("tests/test_door.py",)


MUTATIONS = [Mutation(*one) for one in {mutations!r}]
sys.exit(mutation_runner.main(MUTATIONS, Path(__file__).resolve().parent.parent, sys.argv[1:]))
"""
KILLED, OTHER = ("door.lock", "door.py", "locked", "open"), ("door.bolt", "door.py", "bolted", "open")
SURVIVES, STUCK = ("door.paint", "door.py", "green", "red"), ("door.hinge", "door.py", "oiled", "stuck")
GONE, LONG = ("door.bell", "door.py", "bell", ""), 60.0
WINDOW = ("window.shut", "window.py", "shut", "ajar")


class Project:
    """A tree with a list of mutations, and the copies it plays them in."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.copies, self.notes = folder / "project", folder / "copies", folder / "notes"
        for made in ("scripts", "src/mainspring", "tests", ".venv/bin"):
            (self.folder / made).mkdir(parents=True)
        self.copies.mkdir()
        for module in ROOT.glob("scripts/mutation_*.py"):
            shutil.copy(module, self.folder / "scripts")
        self.write("src/mainspring/door.py", "locked\nbolted\ngreen\noiled\n")
        self.write("src/mainspring/window.py", "shut\n")
        self.write("tests/test_door.py", "")
        self.write("pyproject.toml", "")
        for name, text in {".venv/bin/python": PYTHON, "scripts/setup": "#!/bin/sh\n"}.items():
            self.write(name, text)
            (self.folder / name).chmod(0o755)
        shutil.copy(self.folder / "scripts" / "setup", self.folder / "scripts" / "servers")
        self.environ = os.environ | {"TMPDIR": str(self.copies), "NOTES": str(self.notes)}

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def has(self, *mutations: tuple[str, ...]) -> None:
        self.write("scripts/mutate", LIST.format(mutations=mutations))

    def mutate(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words), env=self.environ, cwd=self.folder, capture_output=True, text=True, timeout=LONG
        )

    def command(self, *words: str) -> list[str]:
        return [sys.executable, str(self.folder / "scripts" / "mutate"), *words]

    @contextmanager
    def mutating(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(self.command(*words), env=self.environ, stdout=subprocess.PIPE, text=True)
        with process:
            try:
                yield process
            finally:
                process.kill()

    def played(self) -> list[str]:
        """What each play saw of the door, since this was last asked."""
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        self.notes.unlink(missing_ok=True)
        return [line.partition(" ")[2].strip() for line in lines]

    def verdicts(self) -> dict[str, str]:
        lines = (self.folder / ".mutate" / "results.jsonl").read_text().splitlines()
        return {one["name"]: one["verdict"] for one in map(json.loads, lines) if "unmutated" not in one["name"]}

    def strays(self) -> list[int]:
        """Processes, in sessions of their own, that plays have left."""
        path = Path(f"{self.notes}.strays")
        pids = path.read_text().split() if path.exists() else []
        return [int(pid) for pid in pids if _runs(int(pid))]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


SOUND, UNLOCKED = "locked bolted green oiled", "open bolted green oiled"


def test_a_mutation_is_killed_if_its_tests_fail_and_survives_if_they_pass(project: Project) -> None:
    project.has(KILLED, SURVIVES, GONE)
    done = project.mutate()
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[0].startswith(f"  1/2 {'door.lock':<48} killed by test_the_door_is_shut (")
    assert done.stdout.splitlines()[2:] == [
        "3 mutations: 1 killed, 1 survived, 1 not-applicable",
        "SURVIVED: door.paint",
        "DOES NOT APPLY, its old text is not in its file exactly once: door.bell",
    ]
    assert project.verdicts() == {"door.bell": "not-applicable", "door.lock": "killed", "door.paint": "survived"}
    assert project.played() == [SOUND, UNLOCKED, "locked bolted red oiled"]
    assert (project.folder / "src/mainspring/door.py").read_text().split() == SOUND.split()


def test_a_second_run_plays_only_what_has_another_text(project: Project) -> None:
    project.has(KILLED, OTHER)
    assert project.mutate().returncode == 0
    assert len(project.played()) == 3
    assert project.mutate().stdout == "2 mutations: 2 killed\n"
    assert project.played() == []
    project.has(KILLED, (*OTHER[:3], "wide open"))
    assert project.mutate().returncode == 0
    assert project.played() == ["locked wide open green oiled"]
    project.write("tests/test_door.py", "# other")
    assert project.mutate().returncode == 0
    assert len(project.played()) == 3
    assert project.mutate("--again", "door.lock").returncode == 0
    assert project.played() == [SOUND, UNLOCKED]


def test_a_cut_line_of_the_results_is_passed_over(project: Project) -> None:
    project.has(KILLED)
    project.mutate()
    path = project.folder / ".mutate" / "results.jsonl"
    path.write_text(path.read_text()[:-20])
    assert "door.lock" in project.mutate().stdout
    assert project.mutate().stdout == "1 mutation: 1 killed\n"


def test_jobs_play_at_once_in_copies_of_their_own(project: Project) -> None:
    project.has((*KILLED[:3], "open together"), (*OTHER[:3], "open together"))
    assert project.mutate("--jobs", "2").returncode == 0  # each play waits for the other
    assert len({line.split()[0] for line in project.notes.read_text().splitlines() if "together" in line}) == 2
    assert list(project.copies.iterdir()) == []


def test_list_has_the_last_verdict_and_plays_nothing(project: Project) -> None:
    project.has(KILLED, SURVIVES)
    project.mutate("door.lock")
    project.played()
    listed = project.mutate("--list").stdout.splitlines()
    assert listed[0].startswith(f"{'door.lock':<48} killed by test_the_door_is_shut (")
    assert listed[1] == f"{'door.paint':<48} -"
    project.write("src/mainspring/door.py", "locked\n")
    assert project.mutate("--list", "door.lock").stdout.endswith(", before a change\n")
    assert project.played() == []


def test_parts_play_each_mutation_once(project: Project) -> None:
    project.has(KILLED, OTHER, SURVIVES)
    listed = [project.mutate("--list", "--part", part).stdout.split()[::2] for part in ("1/2", "2/2")]
    assert listed == [["door.lock", "door.paint"], ["door.bolt"]]
    assert project.mutate("--part", "3/2").returncode == 2


def test_changed_chooses_by_files_that_differ_from_a_revision(project: Project) -> None:
    project.has(KILLED, WINDOW)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "First"]):
        subprocess.run([*git, *words], cwd=project.folder, check=True, timeout=LONG)
    assert project.mutate("--changed", "HEAD", "--list").stdout == ""
    project.write("src/mainspring/window.py", "shut\nclean\n")
    assert project.mutate("--changed", "HEAD", "--list").stdout.split() == ["window.shut", "-"]
    assert project.mutate("--changed", "nothing").returncode == 2


def test_an_unknown_name_is_refused(project: Project) -> None:
    project.has(KILLED)
    done = project.mutate("door.knob")
    assert (done.returncode, done.stderr) == (2, "no mutation door.knob; scripts/mutate --list has the names\n")


def test_a_mutation_that_hangs_is_ended_with_all_it_started(project: Project) -> None:
    project.has(STUCK)
    done = project.mutate("--limit", "1.5")
    assert (done.returncode, project.verdicts()) == (0, {"door.hinge": "timeout"}), done.stdout
    assert project.played() == [SOUND, "locked bolted green stuck", SOUND]
    assert project.strays() == []


def test_a_time_limit_that_unmutated_tests_do_not_meet_gives_no_verdict(project: Project) -> None:
    project.write("src/mainspring/door.py", "slow\ngreen\n")
    project.has(SURVIVES)
    done = project.mutate("--limit", "0.5")
    assert done.returncode == 1
    assert done.stdout.splitlines()[1:] == ["1 mutation: 1 without a verdict", "NO VERDICT: door.paint"]
    assert project.verdicts() == {}


def test_tests_that_are_red_unmutated_prove_nothing(project: Project) -> None:
    project.write("src/mainspring/door.py", "open\ngreen\n")
    project.has(SURVIVES)
    done = project.mutate()
    assert done.returncode == 1
    red = "red before anything was broken, so it proves nothing: tests/test_door.py::test_the_door_is_shut"
    assert done.stdout.splitlines()[0] == red


@pytest.mark.parametrize("signalled", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_but_its_results(project: Project, signalled: signal.Signals) -> None:
    project.has(KILLED, STUCK, OTHER)
    with project.mutating() as process:
        _until(project.strays)
        process.send_signal(signalled)
        said, _ = process.communicate(timeout=LONG)
        assert process.returncode == 128 + signalled
    assert "3 mutations: 1 killed, 2 without a verdict\n" in said
    assert f"interrupted by {signalled.name}" in said
    assert (project.strays(), list(project.copies.iterdir())) == ([], [])
    project.played()
    assert project.mutate("door.lock", "door.bolt").returncode == 0
    assert project.played() == ["locked open green oiled"]


def _until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + LONG
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_every_mutation_applies_to_the_present_text() -> None:
    listed = runpy.run_path(str(ROOT / "scripts" / "mutate"), run_name="listed")["MUTATIONS"]
    texts = {one.file: (ROOT / "src" / "mainspring" / one.file).read_text() for one in listed}
    assert [one.name for one in listed if texts[one.file].count(one.old) != 1] == []
