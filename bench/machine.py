"""What the figures depend on: hardware, operating system, versions."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

from .processes import PEERS, PYTHON, REPO

_ASK = "import sqlite3, platform; from importlib.metadata import version; print({})"


def describe(place: Path) -> list[str]:
    """One line a subject; `place` is where the stores lie."""
    peer = str(PEERS / "python")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return [
        f"{_cpu_model()}, {os.cpu_count()} cores, {memory:.0f} GiB",
        f"{platform.system()} {platform.release()}, stores on {_said('stat', '-f', '-c', '%T', str(place))}",
        f"Mainspring {_said('git', '-C', str(REPO), 'describe', '--always', '--dirty')}, {_python(PYTHON)}, "
        f"uvloop {_version(PYTHON, 'uvloop')}, msgspec {_version(PYTHON, 'msgspec')}",
        f"Huey {_version(peer, 'huey')}, APScheduler {_version(peer, 'apscheduler')}, {_python(peer)}",
    ]


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _python(python: str) -> str:
    text = "f'Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}'"
    return _said(python, "-c", _ASK.format(text))


def _version(python: str, library: str) -> str:
    return _said(python, "-c", _ASK.format(f"version({library!r})"))


def _said(*command: str) -> str:
    answer = subprocess.run(command, capture_output=True, text=True, timeout=30)
    return answer.stdout.strip() or "(unknown)"
