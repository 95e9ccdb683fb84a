"""Measurements of the service: one process of it, asked over HTTP by wrk."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from .harness import Lab
from .measures import Figures
from .postgres_rows import build
from .processes import MAINSPRING_INSIGHT, PYTHON, Child, Failed, Program, environment, wait_for

API = "/api/v1"
NOTHING = "/nothing"
SECONDS = 60.0
UVICORN = Program(
    (PYTHON, "-m", "uvicorn", "service_app:both", "--loop", "uvloop", "--http", "httptools", "--log-level", "error",
     "--no-access-log")
)  # fmt: skip
SCRIPT = """
wrk.headers["Authorization"] = "Bearer " .. os.getenv("KEY")
wrk.headers["Content-Type"] = "application/json"
if os.getenv("BODY") then wrk.method, wrk.body = "POST", os.getenv("BODY") end
done = function(summary, latency)
  local wrong = summary.errors.status + summary.errors.read + summary.errors.timeout
  io.write("told ", wrong, " ", latency:percentile(50), " ", latency:percentile(99), "\\n")
end
"""
BODY = json.dumps({"task": "send", "arguments": {"to": "alice@example.com", "subject": "hello"}})


@dataclass(frozen=True)
class Service:
    """A process that answers, and a key to it."""

    child: Child
    address: str
    key: str

    def get(self, path: str) -> dict[str, object]:
        asked = urllib.request.Request(f"{self.address}{path}", headers={"Authorization": f"Bearer {self.key}"})
        with urllib.request.urlopen(asked, timeout=SECONDS) as answer:
            found: dict[str, object] = json.load(answer)
            return found

    def wrk(self, home: Path, path: str, *, seconds: float, connections: int, body: str | None = None) -> Figures:
        """The rate, the delays, and how much of its processor each request took."""
        if shutil.which("wrk") is None:
            raise Failed("there is no wrk: apt-get install wrk")
        script = home / "wrk.lua"
        script.write_text(SCRIPT)
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(script), f"{self.address}{path}"]
        env = os.environ | {"KEY": self.key} | ({} if body is None else {"BODY": body})
        before = self.child.cpu_seconds()
        said = subprocess.run(command, env=env, capture_output=True, text=True, timeout=seconds + SECONDS).stdout
        return _read(said, self.child.cpu_seconds() - before)


def post(lab: Lab, *, store: str, path: str, seconds: float, connections: int) -> Figures:
    """On a store that is empty at the start."""
    with lab.fresh() as home:
        url = f"sqlite:///{home}/jobs.db" if store == "SQLite" else lab.postgres.fresh()
        with served(home, url) as service:
            return service.wrk(home, path, seconds=seconds, connections=connections, body=BODY)


def listed(
    lab: Lab, *, store: str, query: str | None, deep: bool, jobs: int, seconds: float, connections: int
) -> Figures:
    """A page of jobs, the first or one from the middle of them; without a query, the handler that does nothing."""
    url = STORES[store](lab, jobs)
    with lab.fresh() as home, served(home, url) as service:
        path = NOTHING
        if query is not None:
            path = f"{API}/jobs?limit=50{query}{_middle(service, query) if deep else ''}"
            if len(page := service.get(path)["items"]) != 50:  # type: ignore[arg-type]
                raise Failed(f"{path} has {len(page)} jobs")  # type: ignore[arg-type]
        return service.wrk(home, path, seconds=seconds, connections=connections)


def _sqlite(lab: Lab, jobs: int) -> str:
    home = lab.kept(f"insight-{jobs}")
    MAINSPRING_INSIGHT.ask(home, jobs, "newest", 1, timeout=600)
    return f"sqlite:///{home}/insight.db"


def _postgres(lab: Lab, jobs: int) -> str:
    database = f"service{jobs}"
    build(lab, database, finished=jobs)
    return lab.postgres.dsn(database)


STORES: dict[str, Callable[[Lab, int], str]] = {"SQLite": _sqlite, "PostgreSQL": _postgres}


def _middle(service: Service, query: str) -> str:
    """Where half of all jobs are behind: between the oldest and the newest, by when they were made."""
    ends = [service.get(f"{API}/jobs?limit=1&order={order}")["items"] for order in ("asc", "desc")]
    oldest, newest = (datetime.fromisoformat(found[0]["created_at"]).timestamp() for found in ends)  # type: ignore[index]
    middle = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime((oldest + newest) / 2))
    order = "&sort=finished" if "state=" in query else ""
    found = service.get(f"{API}/jobs?limit=1{query}{order}&created_before={middle}")["next"]
    if found is None:
        raise Failed(f"nothing of {query!r} before {middle}")
    return f"&after={quote(str(found))}"


@contextmanager
def served(home: Path, url: str) -> Iterator[Service]:
    key = _key(home, url)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with UVICORN.running(home, "--port", port, MAINSPRING_STORE=url) as child:
        service = Service(child, f"http://127.0.0.1:{port}", key)
        wait_for(lambda: _answers(service), child, timeout=SECONDS, what="the service answers")
        yield service


def _answers(service: Service) -> bool:
    try:
        service.get(f"{API}/session")
    except urllib.error.HTTPError:
        raise
    except OSError:
        return False
    return True


def _key(home: Path, url: str) -> str:
    command = [PYTHON, "-m", "mainspring.cli", "keys", "create", f"bench-{time.time_ns()}", "--role", "operator"]
    env = environment(home) | {"MAINSPRING_STORE": url, "MAINSPRING_APP": "service_app:app"}
    made = subprocess.run(command, cwd=home, env=env, capture_output=True, text=True, timeout=SECONDS)
    if made.returncode:
        raise Failed(f"no key: {made.stderr.strip()}")
    return made.stdout.split()[-1]


def _read(said: str, cpu: float) -> Figures:
    told = re.search(r"told (\d+) ([\d.]+) ([\d.]+)", said)
    counted, rate = re.search(r"(\d+) requests in", said), re.search(r"Requests/sec: +([\d.]+)", said)
    if told is None or counted is None or rate is None:
        raise Failed(f"wrk said: {said[-200:]}")
    if told[1] != "0":
        raise Failed(f"{told[1]} requests were refused or not answered")
    return {
        "rate": float(rate[1]), "p50": float(told[2]) / 1000, "p99": float(told[3]) / 1000,
        "CPU": 1e6 * cpu / int(counted[1]),
    }  # fmt: skip
