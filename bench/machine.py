"""What the figures depend on: hardware, operating system, versions."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path

from . import redis_server
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
        f"{_versions(PYTHON, 'uvloop', 'msgspec', 'asyncpg', 'redis', 'hiredis')}",
        *_OF[store](),
    ]


def _schedules() -> list[str]:
    servers = [_said(program("postgres"), "--version"), _said(redis_server.program(), "--version")]
    return [*servers, f"{_versions(PEER, 'apscheduler')}, {_versions(venv('celery'), 'celery', 'redis')}"]


def _sqlite() -> list[str]:
    return [f"{_versions(PEER, 'huey', 'apscheduler')}, {_python(PEER)}"]


def _postgres() -> list[str]:
    peers = {"pgqueuer": "asyncpg", "procrastinate": "psycopg", "chancy": "psycopg", "saq": "psycopg"}
    told = [f"{_versions(venv(name), name)} ({_versions(venv(name), driver)})" for name, driver in peers.items()]
    return [_said(program("postgres"), "--version"), f"{', '.join(told)}; {_node('graphile-worker')}"]


def _redis() -> list[str]:
    peers = {"arq": "arq", "saq": "saq", "taskiq": "taskiq-redis", "dramatiq": "dramatiq", "rq": "rq",
             "celery": "celery", "huey": "huey"}  # fmt: skip
    told = [
        f"{_versions(venv(name), library)} (redis-py {_version(venv(name), 'redis')})"
        for name, library in peers.items()
    ]
    return [_said(redis_server.program(), "--version"), f"{', '.join(told)}, all with hiredis; {_node('bullmq')}"]


def _service() -> list[str]:
    libraries = _versions(PYTHON, "litestar", "uvicorn", "httptools")
    wrk = _said("sh", "-c", "wrk --version | head -1").partition(" [")[0]
    return [_said(program("postgres"), "--version"), f"{libraries}; {wrk}"]


def _flows() -> list[str]:
    peers = {"celery": "celery", "streaq": "streaq", "dbos": "dbos", "absurd": "absurd-sdk", "chancy": "chancy"}
    told = [_versions(venv(name), library) for name, library in peers.items()]
    servers = [_said(program("postgres"), "--version"), _said(redis_server.program(), "--version")]
    return [*servers, f"{', '.join(told)}; {_node('bullmq')}"]


def _steps() -> list[str]:
    servers = [_said(program("postgres"), "--version"), _said(redis_server.program(), "--version")]
    told = [_versions(venv("dbos"), "dbos"), _versions(venv("absurd"), "absurd-sdk")]
    return [*servers, f"{', '.join(told)}; {_node_file('openworkflow')}, {_node_file('pg-workflows')}"]


_OF = {
    "SQLite": _sqlite, "PostgreSQL": _postgres, "Redis": _redis, "Service": _service, "Schedules": _schedules,
    "Flows": _flows, "Steps": _steps,
}  # fmt: skip


def _node(package: str) -> str:
    ask = f"console.log(require('{package}/package.json').version)"
    return f"{package} {_said('node', '-e', ask, NODE_PATH=str(NODE_MODULES))} (Node {_said('node', '--version')})"


def _node_file(package: str) -> str:
    """For a package that does not export its package.json."""
    return f"{package} {json.loads((NODE_MODULES / package / 'package.json').read_text())['version']}"


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _python(python: str) -> str:
    text = "f'Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}'"
    return _said(python, "-c", _ASK.format(text))


def _versions(python: str, *libraries: str) -> str:
    return ", ".join(f"{name} {_version(python, name)}" for name in libraries)


def _version(python: str, library: str) -> str:
    return _said(python, "-c", _ASK.format(f"version({library!r})"))


def _said(*command: str, **env: str) -> str:
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, env=os.environ | env)
    except FileNotFoundError:
        return "(not here)"
    return answer.stdout.strip() or "(unknown)"
