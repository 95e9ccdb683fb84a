"""Run requests for child processes, and a process pool with its own event loop, for tests."""

from __future__ import annotations

import asyncio
import json
import os
import select
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mainspring import Job, State, Task
from mainspring.executor.pool import ProcessPool, import_path_of
from mainspring.executor.protocol import Message, ProcessDiedMessage, Raised, Returned, RunRequest, RunSteered
from mainspring.testing import VirtualClock

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def job_of(payload: str = "{}", **fields: Any) -> Job:
    fields = {"id": "j1", "task": "t", "queue": "default", "priority": 0, "state": State.RUNNING} | fields
    return Job(payload=payload, run_at=NOW, created_at=NOW, **fields)


def order(fn: Callable[..., Any], arguments: dict[str, Any] | None = None, **wishes: Any) -> RunRequest:
    module, qualname, main = import_path_of(fn.fn if isinstance(fn, Task) else fn)
    wishes = {"job": job_of(json.dumps(arguments or {})), "result_limit": 2**20} | wishes
    return RunRequest(module=module, qualname=qualname, main=main, **wishes)


class Play:
    """Starting children is what takes time here, so tests share them where they can."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self.pool = ProcessPool(VirtualClock())
        self.heard: list[Message] = []

    def __call__(
        self, fn: Callable[..., Any] | RunRequest, arguments: dict[str, Any] | None = None, **wishes: Any
    ) -> Returned | RunSteered | Raised | ProcessDiedMessage:
        self.heard = []
        given = fn if isinstance(fn, RunRequest) else order(fn, arguments, **wishes)
        return self._runner.run(asyncio.wait_for(self.pool.call(given, self.heard.append), 30))

    def result(self, fn: Callable[..., Any], arguments: dict[str, Any] | None = None, **wishes: Any) -> Any:
        ended = self(fn, arguments, **wishes)
        assert isinstance(ended, Returned), ended
        return None if ended.result is None else json.loads(ended.result)

    def close(self) -> None:
        self.pool.close()
        self._runner.close()


class Ears:
    """Receives messages, and lets a test wait for one."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self._some = asyncio.Event()

    def __call__(self, message: Message) -> None:
        self.heard.append(message)
        self._some.set()

    async def first(self) -> Any:
        await asyncio.wait_for(self._some.wait(), 30)
        return self.heard[0]


def children() -> set[int]:
    """The children of this process, including dead ones that were not reaped."""
    pids: set[int] = set()
    for task in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # a thread that ended meanwhile
            pids.update(map(int, task.read_text().split()))
    return pids


def ends(pid: int, within: float = 5.0) -> bool:
    """Whether a process has ended, or ends in time."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        look = select.poll()
        look.register(watch, select.POLLIN)
        return bool(look.poll(within * 1000))
    finally:
        os.close(watch)
