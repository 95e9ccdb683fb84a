"""A warm pool of child processes, each of which runs one job at a time."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable
from contextvars import Context as ContextVars
from typing import Any

from ..clock import Clock, Timer
from ..errors import BadTask, MainspringError
from ..records.finding import format_size
from ..records.run import Failure, Usage
from ..survived_errors import count_error
from ..task.task import Task
from .process import Exit, Process
from .protocol import Message, ProcessDiedMessage, Raised, Returned, RunFinished, RunRequest, RunStarted, RunSteered
from .resource_limits import CpuLimitExceeded

_logger = logging.getLogger("mainspring")
# So many children may die, one after the other, before one of them takes the order.
STARTS = 3
# A child is replaced after so many runs: whatever it gathers, it does not gather for ever.
RUNS = 1000
# Every so many seconds, the children that were not needed since the last time end.
LOOK = 60.0
# What the standard library, too, calls a script that is imported by its own child.
MAIN = "__mp_main__"

in_child = False
"""Set in a child process: it runs what it is told, and starts no children of its own."""

Hear = Callable[[Message | Usage], object]


class Processes:
    """Children are started when needed and kept warm; the one used last is used first."""

    def __init__(self, clock: Clock) -> None:
        if in_child:
            raise MainspringError(
                "a worker was started while a child process imported this module: "
                "start it under `if __name__ == '__main__':`"
            )
        self._clock = clock
        self._all: set[Process] = set()
        self._busy: set[Process] = set()
        self._idle: list[Process] = []
        self._peak = 0
        self._timer: Timer | None = None
        self._closed = False

    async def call(self, order: RunRequest, hear: Hear) -> Returned | RunSteered | Raised | ProcessDiedMessage:
        """How the run ended; `hear` is told what it says meanwhile.

        If cancelled: the child is killed and reaped, and `hear` is told what it had used.
        """
        with self._clock.outside(task=True):
            reason = ""
            for _ in range(STARTS):
                try:
                    process = self._take()
                except OSError as error:
                    reason = str(error)
                    break
                run = _Run(process, order, hear, self._clock)
                try:
                    ending = await run.go()
                finally:
                    self._give_back(process, run.retire)
                if not isinstance(ending, Exit):
                    return ending
                reason = ending.reason
            text = f"no child process could be started ({reason}): see that {sys.executable} can import mainspring"
            return Raised(Failure("ChildNotStarted", text))

    def close(self) -> None:
        """Idle children end, and are reaped; busy ones end after their run."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        leaving = self._all - self._busy
        for process in leaving:
            process.hang_up()
        for process in leaving:
            process.end()

    def _take(self) -> Process:
        process = self._idle.pop() if self._idle else Process(self._forget)
        self._all.add(process)
        self._busy.add(process)
        self._peak = max(self._peak, len(self._busy))
        if self._timer is None and not self._closed:
            self._timer = _engine_timer(self._clock, LOOK, self._look)
        return process

    def _give_back(self, process: Process, retire: bool) -> None:
        self._busy.discard(process)
        if retire or self._closed or process.runs >= RUNS:
            process.hang_up()
        elif process.exit is None:
            self._idle.append(process)

    def _forget(self, process: Process) -> None:
        self._all.discard(process)
        if process in self._idle:
            self._idle.remove(process)

    def _look(self) -> None:
        while self._idle and len(self._busy) + len(self._idle) > self._peak:
            self._idle.pop(0).hang_up()
        self._peak = len(self._busy)
        self._timer = self._clock.call_later(LOOK, self._look) if self._busy or self._idle else None


class _Run:
    """One order in one child."""

    def __init__(self, process: Process, order: RunRequest, hear: Hear, clock: Clock) -> None:
        self.retire = False
        self._process = process
        self._order = order
        self._hear = hear
        self._clock = clock
        self._began: RunStarted | None = None
        self._timer: Timer | None = None

    async def go(self) -> Returned | RunSteered | Raised | ProcessDiedMessage | Exit:
        """Exit: the child died before it had read the order, so the run has not begun."""
        try:
            told = await self._process.run(self._order, self._heard)
        except BaseException:
            self.retire = True
            self._process.kill()
            await self._process.reaped.wait()
            if self._began is not None and self._process.exit is not None:
                self._hear(_usage(self._process.exit, self._began))
            raise
        finally:
            if self._timer is not None:
                self._timer.cancel()
        if isinstance(told, RunFinished):
            self.retire = told.retire
            return told.ending
        return told if self._began is None else self._died(told, self._began)

    def _heard(self, message: RunStarted | Message) -> None:
        if isinstance(message, RunStarted):
            self._began = message
            if self._order.soft_timeout is not None:
                self._timer = _engine_timer(self._clock, self._order.soft_timeout, self._process.interrupt)
            return
        try:
            self._hear(message)
        except Exception as error:
            _logger.exception("a listener failed on %r of job %s", message, self._order.job.id)
            count_error("process", error)

    def _died(self, exit: Exit, began: RunStarted) -> ProcessDiedMessage | Raised:
        order = self._order
        usage = _usage(exit, began)
        if exit.code == -signal.SIGXCPU and order.cpu_limit is not None:
            text = f"used more than its cpu_limit of {order.cpu_limit:g} s, and was killed when its interruption failed"
            return Raised(Failure("CpuLimitExceeded", text), "cpu", bases_of(CpuLimitExceeded), usage)
        under = "" if order.memory_limit is None else f", under a memory_limit of {format_size(order.memory_limit)}"
        return ProcessDiedMessage(exit.reason + under, usage)


def _engine_timer(clock: Clock, seconds: float, act: Callable[[], object]) -> Timer:
    """A timer outside the run that sets it: a test's clock takes the timers of a run for its sleeps."""
    return ContextVars().run(clock.call_later, seconds, act)


def _usage(exit: Exit, began: RunStarted) -> Usage:
    return Usage(max(0.0, exit.cpu - began.spent), exit.memory)


def place_of(fn: Callable[..., Any]) -> tuple[str, str, str | None]:
    """Module, qualname and main of an Order; BadTask for what a child process would not find."""
    module, qualname = getattr(fn, "__module__", None), getattr(fn, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str) or "<" in qualname:
        raise BadTask(f"executor='process' needs a module-level function, got {qualname or fn!r}: move it there")
    if _found(module, qualname) != fn:
        raise BadTask(
            f"executor='process': another process would find something else as {module}.{qualname}; "
            "give the function a name of its own at the top of its module"
        )
    if (module := _real(module)) != "__main__":
        return module, qualname, None
    main = sys.modules["__main__"]
    if main.__dict__.get("__file__") is None:
        raise BadTask(f"executor='process' needs a function in a file, and {qualname!r} was typed in: move it there")
    return module, qualname, os.path.abspath(str(main.__file__))


def _found(module: str, qualname: str) -> Any:
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found.fn if isinstance(found, Task) else found


def bases_of(kind: type[BaseException]) -> tuple[str, ...]:
    """The class and what it inherits from, by names that a worker and its children share."""
    return tuple(f"{_real(base.__module__)}.{base.__qualname__}" for base in kind.__mro__)


def _real(module: str) -> str:
    """What a module is called in both: a script is __main__, `python -m package.module` is that."""
    if module == MAIN:
        return "__main__"
    spec = sys.modules["__main__"].__spec__ if module == "__main__" else None
    return module if spec is None else spec.name
