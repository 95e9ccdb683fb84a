"""Context: what a running task may know of its own job, and say about it."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable, Generator, Mapping, MutableMapping
from datetime import datetime
from typing import Any

import msgspec

from .clock import Clock
from .codec import encode
from .job import Account, Items, Job, Lease, LogLine, Progress, Report, Usage

_logger = logging.getLogger("mainspring.task")
_Adapter = logging.LoggerAdapter[logging.Logger]

# What one run may log; the rest is counted. And how far it must come, or how long ago it must have told, before
# progress is told again.
LINES, LINE_LIMIT = 1000, 4096
STEP, PAUSE = 10, 1.0


class Context:
    """Injected into the first parameter annotated `Context`; never sent."""

    __slots__ = ("_said", "arguments", "cancelled", "deadline", "interrupt", "job", "timeout", "usage", "watch")

    def __init__(self, job: Job, timeout: float | None, deadline: datetime | None, desk: Desk) -> None:
        self.job = job
        self.timeout = timeout
        self.deadline = deadline
        """When the run is interrupted; None: never."""
        self.cancelled = False
        """True once the run was told to stop: by a cancel, a timeout or a stopping worker."""
        self.arguments: tuple[list[Any], dict[str, Any]] = ([], {})
        self.interrupt: Callable[[], object] | None = None
        """Interrupts the task itself, where cancelling the run would not let it answer."""
        self.watch: Callable[[Context], object] | None = None
        """Called once, when the run is told to stop."""
        self.usage: Usage | None = None
        self._said: Said | Desk = desk

    @property
    def attempt(self) -> int:
        return self.job.attempt

    @property
    def lease(self) -> Lease:
        return self.job.lease or ""

    @property
    def metadata(self) -> dict[str, Any]:
        return dict(self.job.metadata)

    @property
    def log(self) -> _Adapter:
        """A logger whose lines are kept with the run; its records carry job_id, task and attempt."""
        return self.said.log

    def progress(self, done: float, total: float | None = None, note: str = "") -> Awaitable[None]:
        """How far the run has come: shown with the job, told every ten items or every second at most.

        Works at once; awaiting it is allowed and does nothing more.
        """
        self.said.progress(done, total, note)
        return NOTHING

    def items(self, *, success: int = 0, failed: int = 0, skipped: int = 0) -> None:
        """Counts items worked through: if more than the task's failed_ratio failed, so has the run."""
        self.said.items(success, failed, skipped)

    def note(self, **metadata: Any) -> None:
        """Keeps these values, of types that JSON has, with the run's execution."""
        self.said.metadata.update(msgspec.json.decode(encode(metadata)))

    # for the engine

    @property
    def said(self) -> Said:
        if isinstance(self._said, Desk):
            self._said = Said(self.job, self._said)
        return self._said

    @property
    def counted(self) -> Items | None:
        return None if isinstance(self._said, Desk) else self._said.counted

    def stop(self) -> None:
        """The run is told to end."""
        self.cancelled = True
        watch, self.watch = self.watch, None
        if watch is not None:
            watch(self)

    def account(self) -> Account | None:
        """What is kept with the execution; None: nothing was said."""
        if isinstance(self._said, Desk):
            return None if self.usage is None else Account(usage=self.usage)
        self._said.close()
        said = self._said
        if said.counted is None and self.usage is None and not said.metadata:
            return None
        return Account(said.counted, self.usage, said.metadata)


class Said:
    """What one run has said so far, and what of it the store does not know yet. Any thread may add."""

    def __init__(self, job: Job, desk: Desk) -> None:
        self._job = job
        self._desk = desk
        self._lines: list[LogLine] = []
        self._count = 0
        self._progress: Progress | None = None
        self._told: Progress | None = None
        self.counted: Items | None = None
        self.metadata: dict[str, Any] = {}
        self.log = _Log(_logger, {"job_id": job.id, "task": job.task, "attempt": job.attempt})
        self.log.keep = self.line

    def line(self, level: int, text: str) -> None:
        self._count += 1
        if self._count <= LINES:
            self._add(level, text)

    def progress(self, done: float, total: float | None, note: str) -> None:
        now, told = self._desk.clock.now(), self._told
        self._progress = Progress(self._job.runs, now, done, total, clean_line(note))
        due = told is None or abs(done - told.done) >= STEP or done == total
        if due or (told is not None and (now - told.at).total_seconds() >= PAUSE):
            self._told = self._progress
            self._desk.lay(self._job, self)

    def items(self, success: int, failed: int, skipped: int) -> None:
        old = self.counted or Items()
        self.counted = Items(old.success + success, old.failed + failed, old.skipped + skipped)

    def close(self) -> None:
        """The run is over: what was held back is told as well."""
        if self._count > LINES:
            self._add(logging.WARNING, f"{self._count - LINES} lines more were logged and not kept")
            self._count = LINES
        if self._progress is not None and self._progress is not self._told:
            self._told = self._progress
            self._desk.lay(self._job, self)

    def report(self) -> Report:
        """Everything new; the store has it when the call that carries this returns."""
        lines, self._lines = self._lines, []
        return Report(id=self._job.id, lease=self._job.lease or "", lines=tuple(lines), progress=self._told)

    def _add(self, level: int, text: str) -> None:
        n = min(self._count, LINES + 1)
        self._lines.append(LogLine(self._job.runs, n, self._desk.clock.now(), level, clean_line(text)))
        self._desk.lay(self._job, self)


class Desk:
    """Where runs lay what they say, until the worker carries it to the store."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.level = logging.INFO
        self.ring: Callable[[], object] = lambda: None
        self._laid: dict[tuple[str, Lease], Said] = {}

    def lay(self, job: Job, said: Said) -> None:
        first = not self._laid
        self._laid[job.id, job.lease or ""] = said
        if first:
            self.ring()

    def take(self) -> list[Report]:
        laid, self._laid = self._laid, {}
        return [said.report() for said in laid.values()]

    def __bool__(self) -> bool:
        return bool(self._laid)


class _Log(_Adapter):
    """Keeps each line, whatever the process's own logging does with it."""

    keep: Callable[[int, str], object]

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if level >= logging.INFO or self.isEnabledFor(level):
            self.keep(level, _text(msg, args, kwargs.get("exc_info")))
        super().log(level, msg, *args, **{**kwargs, "stacklevel": kwargs.get("stacklevel", 1) + 1})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        extra: Mapping[str, object] = kwargs.get("extra") or {}
        return msg, {**kwargs, "extra": {**(self.extra or {}), **extra}}


def _text(msg: object, args: tuple[object, ...], exc_info: Any) -> str:
    try:
        text = str(msg) % args if args else str(msg)
    except Exception as bad:  # as logging does: a bad format must not break the task
        text = f"{msg!r} {args!r} ({type(bad).__name__}: {bad})"
    if exc_info:
        text = f"{text}\n{traceback.format_exc()}"
    return text


def clean_line(text: str) -> str:
    """At most LINE_LIMIT characters that every store can hold."""
    text = str(text).replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= LINE_LIMIT else f"{text[:LINE_LIMIT]} … {len(text) - LINE_LIMIT} characters more"


class _Nothing:
    def __await__(self) -> Generator[None, None, None]:
        return
        yield


NOTHING = _Nothing()
