"""Child processes: started, asked, watched through /proc, and ended by whoever started them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BENCH = Path(__file__).resolve().parent
REPO = BENCH.parent
PYTHON = str(REPO / ".venv/bin/python")
PEERS = BENCH / ".venv-peers/bin"
NODE_MODULES = BENCH / ".node/node_modules"

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Failed(Exception):
    """A measurement that gave no figure; the message says why."""


class Child:
    """A running process whose standard error goes to the log in its home."""

    def __init__(self, process: subprocess.Popen[str], home: Path) -> None:
        self._process = process
        self._home = home

    def answer(self, timeout: float) -> dict[str, float]:
        """The last line of its output, once it has ended well."""
        try:
            out, _ = self._process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise Failed(f"no answer within {timeout:g} s; {log_tail(self._home)}") from None
        if self._process.returncode:
            raise Failed(f"exit code {self._process.returncode}; {log_tail(self._home)}")
        return json.loads(out.splitlines()[-1])

    def check(self) -> None:
        if self._process.poll() is not None:
            raise Failed(f"the worker ended early ({self._process.returncode}); {log_tail(self._home)}")

    def kill(self) -> None:
        """As the kernel would, for want of memory."""
        self._process.kill()
        self._process.wait()

    def cpu_seconds(self) -> float:
        text = Path(f"/proc/{self._process.pid}/stat").read_text()
        user, system = text.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / _TICKS

    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * _PAGE


@dataclass(frozen=True)
class Program:
    """A command that takes BENCH_HOME as its place on the disk."""

    command: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()
    """Of its environment, beside those of every program."""

    @contextmanager
    def running(self, home: Path, *args: object, **env: str) -> Iterator[Child]:
        """Ended at the latest when the block is left: first politely, then not."""
        command = [*self.command, *map(str, args)]
        if shutil.which(command[0]) is None:
            raise Failed(f"there is no {command[0]}: bench/peers installs it")
        with open(home / "log", "a") as log:
            process = subprocess.Popen(
                command,
                cwd=home,
                env=environment(home) | dict(self.variables) | env,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        try:
            yield Child(process, home)
        finally:
            if process.poll() is None:
                process.terminate()
            try:
                process.communicate(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()

    def ask(self, home: Path, *args: object, timeout: float = 120, **env: str) -> dict[str, float]:
        with self.running(home, *args, **env) as child:
            return child.answer(timeout)


def venv(name: str) -> str:
    """The Python of a peer's own environment."""
    return str(BENCH / f".venv-{name}/bin/python")


def _peer(name: str, app: str = "") -> Program:
    return Program((venv(name), "-c", f"from {app or name}_app import main; main()"))


MAINSPRING = Program((PYTHON, "-c", "from mainspring_app import main; main()"))
MAINSPRING_CLAIM = Program((PYTHON, "-c", "from mainspring_claim import main; main()"))
MAINSPRING_INSIGHT = Program((PYTHON, "-c", "from mainspring_insight import main; main()"))
CRON = Program((PYTHON, "-c", "from cron_app import main; main()"))
MAINSPRING_SCHEDULES = Program((PYTHON, "-c", "from mainspring_schedules import main; main()"))
MAINSPRING_MANY = Program((PYTHON, "-c", "from mainspring_many import main; main()"))
APSCHEDULER = Program((str(PEERS / "python"), "-c", "from apscheduler_app import main; main()"))
HUEY = Program((str(PEERS / "python"), "-c", "from huey_app import main; main()"))
HUEY_WORKER = Program((str(PEERS / "huey_consumer"), "huey_app.huey", "-k", "thread", "-q"))
RAW_SQLITE = Program((PYTHON, str(BENCH / "raw_sqlite.py")))
RAW_POSTGRES = Program((PYTHON, str(BENCH / "raw_postgres.py")))
RAW_REDIS = Program((PYTHON, str(BENCH / "raw_redis.py")))
PGQUEUER = _peer("pgqueuer")
PROCRASTINATE = _peer("procrastinate")
CHANCY = _peer("chancy")
SAQ = _peer("saq")
ARQ = _peer("arq")
TASKIQ = _peer("taskiq")
DRAMATIQ = _peer("dramatiq")
RQ = _peer("rq")
CELERY = _peer("celery")
CELERY_BEAT = _peer("celery", "celery_beat")
HUEY_REDIS = _peer("huey", "huey_redis")
FLOW_MAINSPRING = Program((PYTHON, "-c", "from flow_mainspring_app import main; main()"))
FLOW_CELERY = _peer("celery", "flow_celery")
FLOW_STREAQ = _peer("streaq", "flow_streaq")
FLOW_CHANCY = _peer("chancy", "flow_chancy")
FLOW_DBOS = _peer("dbos", "flow_dbos")
FLOW_ABSURD = _peer("absurd", "flow_absurd")
FLOW_BULLMQ = Program(("node", str(BENCH / "apps/flow_bullmq_app.js")))
STEP_MAINSPRING = Program((PYTHON, "-c", "from step_mainspring_app import main; main()"))
STEP_DBOS = _peer("dbos", "step_dbos")
STEP_ABSURD = _peer("absurd", "step_absurd")
STEP_OPENWORKFLOW = Program(("node", str(BENCH / "apps/step_openworkflow_app.js")))
STEP_PGWORKFLOWS = Program(("node", str(BENCH / "apps/step_pgworkflows_app.js")))
BULLMQ = Program(("node", str(BENCH / "apps/bullmq_app.js")))
GRAPHILE = Program(("node", str(BENCH / "apps/graphile_app.js")))


def environment(home: Path) -> dict[str, str]:
    """Ours, without what would change a figure: settings by variable, bytecode that is never kept."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("MAINSPRING_") and name != "PYTHONDONTWRITEBYTECODE"
    }
    paths = {"PYTHONPATH": f"{REPO / 'src'}:{BENCH / 'apps'}", "NODE_PATH": str(NODE_MODULES)}
    return kept | paths | {"BENCH_HOME": str(home)}


def wait_for(done: Callable[[], bool], *workers: Child, timeout: float, what: str) -> None:
    """Looks every few milliseconds, as long as the workers live."""
    end = time.monotonic() + timeout
    while not done():
        for worker in workers:
            worker.check()
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {timeout:g} s")
        time.sleep(0.005)


def log_tail(home: Path) -> str:
    lines = (home / "log").read_text(errors="replace").strip().splitlines()
    return "log ends: " + " | ".join(lines[-4:]) if lines else "nothing in its log"
