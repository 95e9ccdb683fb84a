"""Worker processes of one test: started, signalled by pid, and gone when the test is over."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import victim
from audit import Audit, Line, read_log, until
from forked import ForkedProcess
from ground import Ground

from mainspring.records.job import Job, NewJob
from mainspring.records.query import Filter

HERE = Path(__file__).parent


class Member:
    """One worker process, its log and its output."""

    def __init__(
        self, crew: Crew, name: str, program: ModuleType, environ: dict[str, str], settings: dict[str, Any]
    ) -> None:
        self.log, self._said = crew.folder / f"{name}.log", crew.folder / f"{name}.stderr"
        self.process = ForkedProcess(program, [crew.url, str(self.log), json.dumps(settings)], environ, self._said)

    def lines(self, event: str = "start") -> list[Line]:
        return [line for line in read_log(self.log) if line.event == event]

    def said(self) -> str:
        return self._said.read_text()

    def dead(self) -> bool:
        return self.process.poll() is not None

    def died(self, timeout: float = 15.0) -> float:
        """Waits for its end; returns the time of it."""
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
        assert self.process.wait(60) == 0, self.said()  # runs that hang are given up first


def _pending(pid: int, number: signal.Signals) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    masks = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd"))]
    return any(mask >> (number - 1) & 1 for mask in masks)


class Crew:
    """A store, its client and its workers."""

    def __init__(self, folder: Path, ground: Ground, program: ModuleType = victim) -> None:
        """`program` makes the app, and is the worker when it is run."""
        self.folder, self.ground, self.program = folder, ground, program
        self.url = ground.url
        """The way of the workers to the store; the client goes straight to it."""
        self.client = program.make(ground.url)
        self.members: list[Member] = []
        self.acknowledged: list[str] = []

    def start(self, name: str, *, failpoints: str = "", program: ModuleType | None = None, **settings: Any) -> Member:
        """Starts a worker process, or that of another program; a second one of the same name continues the same log."""
        environ = {"MAINSPRING_FAILPOINTS": failpoints, "MAINSPRING_FAILPOINT_LOG": str(self.folder / "failpoints")}
        member = Member(self, name, program or self.program, environ, settings)
        self.members.append(member)
        return member

    def up(self, name: str, **settings: Any) -> Member:
        """Starts a worker, and waits until it claims jobs."""
        member = self.start(name, **settings)
        pid = member.process.pid
        until(lambda: member.dead() or any(live.info.pid == pid for live in self.client.sync.workers.list()))
        return member

    def job(self, task: str, *args: Any) -> NewJob:
        return self.client.tasks[task].job(*args)

    def enqueue(self, task: str, *args: Any, times: int = 1) -> list[str]:
        """Returns their ids, once they are stored."""
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
        """The failpoints that were reached."""
        log = self.folder / "failpoints"
        return log.read_text().split() if log.exists() else []

    def freeze(self, member: Member) -> None:
        """Sends SIGSTOP at a moment when the process holds no lock that blocks the others."""
        freeze(member.process, self.ground.free)

    def audit(self) -> Audit:
        """Returns the audit, after every worker has ended."""
        self.close()
        return Audit(self.ground, {member.log for member in self.members})

    def close(self) -> None:
        for member in self.members:
            if not member.dead():
                member.kill()
        self.client.sync.close()


def freeze(process: ForkedProcess, free: Callable[[], bool]) -> None:
    """Sends SIGSTOP at a moment when no process holds a lock that others wait for."""

    def stopped_in_between() -> bool:
        process.send_signal(signal.SIGSTOP)
        until(lambda: _state(process.pid) == "T")
        if free():
            return True
        process.send_signal(signal.SIGCONT)
        return False

    until(stopped_in_between)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
