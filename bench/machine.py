"""What the figures depend on: hardware, operating system, versions."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

from .processes import NODE_MODULES, PEERS, PYTHON, REPO, venv
from .server import program

PEER = str(PEERS / "python")
_ASK = "import sqlite3, platform; from importlib.metadata import version; print({})"


def describe(place: Path, store: str) -> list[str]:
    """One line a subject; `place` is where the files lie."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return [
        f"{_cpu_model()}, {os.cpu_count()} cores, {memory:.0f} GiB",
        f"{platform.system()} {platform.release()}, stores on {_said('stat', '-f', '-c', '%T', str(place))}",
        f"Mainspring {_said('git', '-C', str(REPO), 'describe', '--always', '--dirty')}, {_python(PYTHON)}, "
        f"{_versions(PYTHON, 'uvloop', 'msgspec', 'asyncpg')}",
        *(_postgres() if store == "PostgreSQL" else [f"{_versions(PEER, 'huey', 'apscheduler')}, {_python(PEER)}"]),
    ]


def _postgres() -> list[str]:
    peers = {"pgqueuer": "asyncpg", "procrastinate": "psycopg", "chancy": "psycopg", "saq": "psycopg"}
    told = [f"{_versions(venv(name), name)} ({_versions(venv(name), driver)})" for name, driver in peers.items()]
    ask = "console.log(require('graphile-worker/package.json').version)"
    graphile = _said("node", "-e", ask, NODE_PATH=str(NODE_MODULES))
    return [
        _said(program("postgres"), "--version"),
        f"{', '.join(told)}; graphile-worker {graphile} (Node {_said('node', '--version')})",
    ]


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _python(python: str) -> str:
    text = "f'Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}'"
    return _said(python, "-c", _ASK.format(text))


def _versions(python: str, *libraries: str) -> str:
    return ", ".join(f"{name} {_said(python, '-c', _ASK.format(f'version({name!r})'))}" for name in libraries)


def _said(*command: str, **env: str) -> str:
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, env=os.environ | env)
    except FileNotFoundError:
        return "(not here)"
    return answer.stdout.strip() or "(unknown)"
