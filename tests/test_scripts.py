"""Which Python the scripts choose, tested with programs that answer like interpreters."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Answers the questions of scripts/python; makes environments that answer alike; its pip installs nothing.
FAKE = """#!/bin/bash
release={release} home={home}
case "$*" in
"-c import os, sys"*) echo "$release $home" ;;
"-c import platform"*) echo "$release" ;;
"-c "*) exit 0 ;;
--version) echo "Python $release" ;;
"-m venv "*)
    folder="${{@: -1}}"
    case "$*" in *--clear*) rm -rf "$folder" ;; esac
    mkdir -p "$folder/bin" && cp "$0" "$folder/bin/python" ;;
"-m pip "*) ;;
"-m pytest "*) echo "1 passed"; exit {status} ;;
*) exit 3 ;;
esac
"""
SHIM = '#!/bin/bash\necho "pyenv: $0: command not found" >&2\nexit 127\n'


class Machine:
    """A copy of the scripts, and the interpreters that its PATH and its home have."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin, self.home = folder / "project", folder / "bin", folder / "home"
        for made in (self.folder, self.bin, self.home):
            made.mkdir()
        shutil.copytree(ROOT / "scripts", self.folder / "scripts")
        shutil.copy(ROOT / "pyproject.toml", self.folder)
        for tool in (
            "bash",
            "sed",
            "find",
            "sort",
            "mktemp",
            "rm",
            "mkdir",
            "cp",
            "touch",
            "cat",
            "dirname",
            "tail",
            "env",
        ):
            (self.bin / tool).symlink_to(shutil.which(tool) or tool)

    def has(self, name: str, release: str, folder: Path | None = None, status: int = 0) -> str:
        path = (folder or self.bin) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self._write(path, FAKE.format(release=release, home=path, status=status))
        return str(path)

    def has_shim(self, name: str) -> None:
        self._write(self.bin / name, SHIM)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def run(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        known = {"PATH": str(self.bin), "HOME": str(self.home), **environ}
        return subprocess.run(words, cwd=self.folder, env=known, capture_output=True, text=True, timeout=60)

    def chosen(self, **environ: str) -> str:
        done = self.run("scripts/python", **environ)
        return done.stdout.strip() or done.stderr.strip()

    def set_up(self, **environ: str) -> str:
        done = self.run("scripts/setup", "run", **environ)
        assert done.returncode == 0, done.stderr
        return done.stderr.strip()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


WAY_OUT = "set PYTHON to the name or the path of Python 3.11 or newer, or leave it unset"


def test_a_real_interpreter_is_found_by_its_path() -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "python"],
        env=os.environ | {"PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.strip() == os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def test_the_python_variable_names_the_interpreter(machine: Machine) -> None:
    machine.has("python3", "3.11.2")
    assert machine.chosen(PYTHON="python3.13") == f"PYTHON=python3.13 is no Python that runs: {WAY_OUT}"
    path = machine.has("python3.13", "3.13.0")
    assert machine.chosen(PYTHON="python3.13") == machine.chosen(PYTHON=path) == path


def test_an_empty_python_variable_is_refused(machine: Machine) -> None:
    machine.has("python3", "3.11.2")
    assert machine.chosen(PYTHON="") == f"PYTHON is empty: {WAY_OUT}"


@pytest.mark.parametrize("release", ["3.10.13", "2.7.18", "3.9.1"])
def test_an_interpreter_that_is_too_old_is_refused(machine: Machine, release: str) -> None:
    machine.has("python3", "3.12.1")
    machine.has("python-old", release)
    assert machine.chosen(PYTHON="python-old") == f"PYTHON=python-old is Python {release}: {WAY_OUT}"


def test_a_pyenv_shim_that_fails_is_replaced_by_the_newest_pyenv_version(machine: Machine) -> None:
    machine.has_shim("python3.13")
    machine.has("python3.13", "3.13.0", machine.home / ".pyenv" / "versions" / "3.13.0" / "bin")
    newer = machine.has("python3.13", "3.13.10", machine.home / ".pyenv" / "versions" / "3.13.10" / "bin")
    assert machine.chosen(PYTHON="python3.13") == newer


def test_without_the_python_variable_the_first_suitable_interpreter_is_chosen(machine: Machine) -> None:
    assert machine.chosen().startswith("Mainspring needs Python 3.11 or newer; none was found.")
    machine.has("python3", "3.9.2")
    machine.has_shim("python3.14")
    path = machine.has("python3.12", "3.12.1")
    assert machine.chosen() == path


def test_scripts_python_all_lists_each_patch_release_of_the_claimed_versions_once(machine: Machine) -> None:
    versions = machine.home / ".pyenv" / "versions"
    machine.has("python3.12", "3.12.1")
    machine.has("python3.12", "3.12.1", versions / "3.12.1" / "bin")
    machine.has("python3.10", "3.10.1")
    machine.has_shim("python3.13")
    older = machine.has("python3.12", "3.12.0", versions / "3.12.0" / "bin")
    assert machine.run("scripts/python", "--all").stdout.splitlines() == [
        f"3.12.0 {older}",
        f"3.12.1 {machine.bin / 'python3.12'}",
    ]


def test_setup_reports_a_change_of_the_interpreter(machine: Machine) -> None:
    first, second = machine.has("python3", "3.11.2"), machine.has("python3.13", "3.13.0")
    assert machine.set_up() == "setting up .venv (run) with Python 3.11.2"
    assert machine.set_up(PYTHON="python3") == ""
    assert machine.set_up(PYTHON="python3.13") == f"setting up .venv (run) with Python 3.13.0, in place of {first}"
    assert machine.run(".venv/bin/python", "--version").stdout == "Python 3.13.0\n"
    assert machine.set_up() == ""  # without PYTHON the present interpreter is kept
    assert machine.set_up(PYTHON=second) == ""


def test_setup_keeps_an_environment_if_the_python_variable_is_invalid(machine: Machine) -> None:
    machine.has("python3", "3.11.2")
    machine.set_up()
    for bad in ("", "python3.10", "nothing"):
        assert machine.run("scripts/setup", "run", PYTHON=bad).returncode == 1
    assert machine.set_up() == ""


def test_setup_recreates_an_environment_whose_interpreter_is_gone(machine: Machine) -> None:
    machine.has("python3", "3.11.2")
    machine.set_up()
    (machine.folder / ".venv" / "bin" / "python").unlink()
    said = machine.set_up()
    assert said == "setting up .venv (run) with Python 3.11.2, in place of one that is gone, or too old"
    assert machine.set_up() == ""


def test_scripts_test_pythons_reports_a_version_without_an_interpreter(machine: Machine) -> None:
    machine.has("python3", "3.11.7")
    failing = machine.has("python3.13", "3.13.0")
    machine.set_up()
    done = machine.run("scripts/test-pythons")
    assert (done.returncode, done.stderr) == (0, "setting up .venv (pythons) with Python 3.11.7\n")
    assert done.stdout.splitlines() == [
        f"Python 3.13.0: 1 passed ({failing})",
        "Python 3.11.7: that of .venv, where scripts/test runs everything",
        "Python 3.12: no interpreter found, not run",
    ]
    machine.has("python", "3.13.0", machine.folder / ".venv-3.13.0" / "bin", status=1)
    done = machine.run("scripts/test-pythons")
    assert done.returncode == 1
    assert f"Python 3.13.0: failed ({failing})\n" in done.stdout


def test_scripts_test_pythons_runs_the_newest_release_of_each_other_version(machine: Machine) -> None:
    machine.has("python3", "3.11.2")
    pyenv = machine.home / ".pyenv" / "versions"
    for release in ("3.11.7", "3.12.1", "3.12.10", "3.12.9"):
        machine.has(f"python{release.rpartition('.')[0]}", release, pyenv / release / "bin")
    machine.set_up()
    done = machine.run("scripts/test-pythons")
    assert done.stdout.splitlines() == [
        f"Python 3.12.10: 1 passed ({pyenv / '3.12.10' / 'bin' / 'python3.12'})",
        "Python 3.11.2: that of .venv, where scripts/test runs everything",
        "Python 3.13: no interpreter found, not run",
    ]
