"""Worker processes of one test: started, signalled by pid, and gone when the test is over."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import victim
from audit import Audit, Line, read_log, until

from mainspring.job import Filter, Job, NewJob

HERE = Path(__file__).parent


class Member:
    """One worker process, its log and what it said."""

    def __init__(self, crew: Crew, name: str, environ: dict[str, str], settings: dict[str, Any]) -> None:
        self.log, self._said = crew.folder / f"{name}.log", crew.folder / f"{name}.stderr"
        command = [sys.executable, str(crew.program.__file__), str(crew.path), str(self.log), json.dumps(settings)]
        with self._said.open("ab") as said:
            self.process = subprocess.Popen(command, env={**os.environ, **environ}, stderr=said, stdout=said)

    def lines(self, event: str = "start") -> list[Line]:
        return [line for line in read_log(self.log) if line.event == event]

    def said(self) -> str:
        return self._said.read_text()

    def dead(self) -> bool:
        return self.process.poll() is not None

    def died(self, timeout: float = 15.0) -> float:
        """Waits for its end; when that was."""
        self.process.wait(timeout)
        return time.monotonic()

    def send(self, number: signal.Signals) -> None:
        """Returns once the process has taken the signal."""
        self.process.send_signal(number)
        until(lambda: self.dead() or not _pending(self.process.pid, number))

    def kill(self) -> float:
        self.process.kill()
        return self.died()

    def end(self) -> None:
        """A graceful stop, which must succeed."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(20) == 0, self.said()


def _pending(pid: int, number: signal.Signals) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    masks = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd"))]
    return any(mask >> (number - 1) & 1 for mask in masks)


class Crew:
    """A SQLite file, its client and its workers."""

    def __init__(self, folder: Path, program: ModuleType = victim) -> None:
        """`program` makes the app, and is the worker when it is run."""
        self.folder, self.path, self.program = folder, folder / "store" / "jobs.db", program
        self.path.parent.mkdir()
        self.client = program.make(self.path)
        self.members: list[Member] = []
        self.acknowledged: list[str] = []

    def start(self, name: str, *, failpoints: str = "", **settings: Any) -> Member:
        """A worker process under way; the same name again goes on in the same log."""
        environ = {"MAINSPRING_FAILPOINTS": failpoints, "MAINSPRING_FAILPOINT_LOG": str(self.folder / "failpoints")}
        member = Member(self, name, environ, settings)
        self.members.append(member)
        return member

    def up(self, name: str, **settings: Any) -> Member:
        """A worker that takes jobs already."""
        member = self.start(name, **settings)
        pid = member.process.pid
        until(lambda: member.dead() or any(live.info.pid == pid for live in self.client.sync.workers.list()))
        return member

    def job(self, task: str, *args: Any) -> NewJob:
        return self.client.tasks[task].job(*args)

    def enqueue(self, task: str, *args: Any, times: int = 1) -> list[str]:
        """Their ids, once they are safe."""
        handles = self.client.sync.enqueue_many([self.job(task, *args) for _ in range(times)])
        self.acknowledged += (ids := [handle.id for handle in handles])
        return ids

    def jobs(self, ids: Iterable[str]) -> list[Job]:
        return list(self.client.sync.jobs.list(Filter(ids=tuple(ids)), limit=1000))

    def all_final(self) -> bool:
        stats = self.client.sync.stats()
        return not (stats.pending + stats.scheduled + stats.retrying + stats.running)

    def finished(self, timeout: float = 15.0) -> None:
        """Waits until no job is left to run."""
        until(self.all_final, timeout)

    def reached(self) -> list[str]:
        """The failpoints that killed somebody."""
        log = self.folder / "failpoints"
        return log.read_text().split() if log.exists() else []

    def writable(self) -> bool:
        """Whether nobody holds the file's write lock."""
        db = sqlite3.connect(self.path, timeout=0, isolation_level=None)
        try:
            db.execute("BEGIN IMMEDIATE")
            db.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return False
        finally:
            db.close()
        return True

    def freeze(self, member: Member) -> None:
        """SIGSTOP, at a moment when it does not hold the write lock and with it everybody else."""

        def stopped_outside_a_write() -> bool:
            member.process.send_signal(signal.SIGSTOP)
            until(lambda: _state(member.process.pid) == "T")
            if self.writable():
                return True
            member.process.send_signal(signal.SIGCONT)
            return False

        until(stopped_outside_a_write)

    def audit(self) -> Audit:
        """The books, after every worker has ended."""
        self.close()
        return Audit(self.path, {member.log for member in self.members})

    def close(self) -> None:
        for member in self.members:
            if not member.dead():
                member.kill()
        self.client.sync.close()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
