"""A pool of warm child processes. Each runs one job at a time."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextvars import Context as ContextVars
from contextvars import copy_context
from typing import Any

from ..clock import Clock, Timer
from ..errors import BadInput, BadTask, MainspringError
from ..records.finding import format_size
from ..records.run import Failure, Usage
from ..survived_errors import count_error
from ..task.task import Task
from .process import Exit, Process
from .protocol import (
    Answer,
    Message,
    ProcessDiedMessage,
    Question,
    Raised,
    Returned,
    RunFinished,
    RunRequest,
    RunStarted,
    RunSteered,
    StepReturned,
)
from .resource_limits import CpuLimitExceeded

_logger = logging.getLogger("mainspring")
# Child processes that may die in a row before one of them reads the request.
MAX_STARTS = 3
# Runs after which a child is replaced, so that whatever it accumulates is freed; but not before it has lived this long:
# its successor's start takes as much time as thousands of short runs.
MAX_RUNS_PER_CHILD = 1000
MIN_LIFE_SECONDS = 60.0
# Idle children that were not needed since the last check are ended at this interval.
REAP_EVERY_SECONDS = 60.0
# The name of a script's module in its own child process, as in the standard library's multiprocessing.
MAIN = "__mp_main__"

in_child = False
"""True in a child process, which starts no children of its own."""

OnMessage = Callable[[Message | Usage], object]
OnQuestion = Callable[[Question], Awaitable[Answer | None]]


async def refuse(question: Question) -> Answer:
    """The answer outside of a worker."""
    return Answer(question.n, error=Failure(BadInput.__name__, "durable steps are for tasks that a worker runs"))


class ProcessPool:
    """Starts child processes when needed and keeps them warm; the one used last is used first."""

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

    async def call(
        self, request: RunRequest, on_message: OnMessage, answer: OnQuestion = refuse
    ) -> Returned | RunSteered | Raised | ProcessDiedMessage:
        """Runs the request in a child process and returns how it ended; `on_message` gets its messages, and `answer`
        what it asks.

        If cancelled: the child is killed and reaped, and `on_message` gets its resource usage.
        """
        with self._clock.outside(task=True):
            reason = ""
            for _ in range(MAX_STARTS):
                try:
                    process = self._take()
                except OSError as error:
                    reason = str(error)
                    break
                run = _ChildCall(process, request, on_message, answer, self._clock)
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
        """Ends and reaps idle children; busy ones end after their run."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        leaving = self._all - self._busy
        for process in leaving:
            process.hang_up()
        for process in leaving:
            process.end()

    def _take(self) -> Process:
        process = self._idle.pop() if self._idle else self._start()
        self._busy.add(process)
        self._peak = max(self._peak, len(self._busy))
        if self._timer is None and not self._closed:
            self._timer = _engine_timer(self._clock, REAP_EVERY_SECONDS, self._reap_idle)
        return process

    def _start(self) -> Process:
        process = Process(self._remove, self._clock.monotonic())
        self._all.add(process)
        return process

    def _is_worn(self, process: Process) -> bool:
        age = self._clock.monotonic() - process.started_at
        return process.runs >= MAX_RUNS_PER_CHILD and age >= MIN_LIFE_SECONDS

    def _give_back(self, process: Process, retire: bool) -> None:
        self._busy.discard(process)
        if retire or self._closed or self._is_worn(process):
            process.hang_up()
        elif process.exit is None:
            self._idle.append(process)

    def _remove(self, process: Process) -> None:
        self._all.discard(process)
        if process in self._idle:
            self._idle.remove(process)

    def _reap_idle(self) -> None:
        while self._idle and len(self._busy) + len(self._idle) > self._peak:
            self._idle.pop(0).hang_up()
        self._peak = len(self._busy)
        self._timer = self._clock.call_later(REAP_EVERY_SECONDS, self._reap_idle) if self._busy or self._idle else None


class _ChildCall:
    """One request in one child process."""

    def __init__(
        self, process: Process, request: RunRequest, on_message: OnMessage, answer: OnQuestion, clock: Clock
    ) -> None:
        self.retire = False
        self._process = process
        self._request = request
        self._on_message = on_message
        self._answer = answer
        self._answers: dict[asyncio.Task[None], Question] = {}
        """The questions that are being answered."""
        self._variables = copy_context()
        self._clock = clock
        self._timer: Timer | None = None

    async def go(self) -> Returned | RunSteered | Raised | ProcessDiedMessage | Exit:
        """How the run ended. Exit: the child died before it had read the request, so the run has not started."""
        try:
            ended = await self._process.run(self._request, self._receive)
            await self._store_last_values()
        except BaseException:
            self.retire = True
            for task in self._answers:
                task.cancel()
            self._process.kill()
            await self._process.reaped.wait()
            if self._process.exit is not None and (usage := _usage(self._process.exit)) is not None:
                self._on_message(usage)
            raise
        finally:
            if self._timer is not None:
                self._timer.cancel()
        if isinstance(ended, RunFinished):
            self.retire = ended.retire
            return ended.ending
        usage = _usage(ended)
        return ended if usage is None else self._died(ended, usage)

    def _receive(self, message: RunStarted | Message | Question) -> None:
        if isinstance(message, Question):
            # In the context of the run: this is called in that of the child's start.
            task = asyncio.get_running_loop().create_task(self._reply(message), context=self._variables.copy())
            self._answers[task] = message
            task.add_done_callback(self._answers.pop)
            return
        if isinstance(message, RunStarted):
            if self._request.soft_timeout is not None:
                self._timer = _engine_timer(self._clock, self._request.soft_timeout, self._process.interrupt)
            return
        try:
            self._on_message(message)
        except Exception as error:
            _logger.exception("handling message %r of job %s failed", message, self._request.job.id)
            count_error("process", error)

    async def _reply(self, question: Question) -> None:
        if (answer := await self._answer(question)) is not None:
            self._process.answer(answer)

    async def _store_last_values(self) -> None:
        """Waits until the values that the child has sent are stored. Its other questions need no answer any more."""
        for task, question in self._answers.items():
            if not isinstance(question, StepReturned):
                task.cancel()
        if self._answers:
            await asyncio.wait(self._answers)

    def _died(self, exit: Exit, usage: Usage) -> ProcessDiedMessage | Raised:
        request = self._request
        if exit.code == -signal.SIGXCPU and request.cpu_limit is not None:
            text = (
                f"used more than its cpu_limit of {request.cpu_limit:g} s, and was killed when its interruption failed"
            )
            return Raised(Failure("CpuLimitExceeded", text), "cpu", bases_of(CpuLimitExceeded), usage)
        limit = "" if request.memory_limit is None else f", under a memory_limit of {format_size(request.memory_limit)}"
        return ProcessDiedMessage(exit.reason + limit, usage)


def _engine_timer(clock: Clock, seconds: float, act: Callable[[], object]) -> Timer:
    """A timer in an empty context: a test's clock takes timers of a run's context for sleeps of the run."""
    return ContextVars().run(clock.call_later, seconds, act)


def _usage(exit: Exit) -> Usage | None:
    """What the last run has used; None if it did not begin."""
    return None if exit.spent is None else Usage(max(0.0, exit.cpu - exit.spent), exit.memory)


def import_path_of(fn: Callable[..., Any]) -> tuple[str, str, str | None]:
    """Module, qualname and main of a RunRequest. Raises BadTask if a child process could not import the function."""
    module, qualname = getattr(fn, "__module__", None), getattr(fn, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str) or "<" in qualname:
        raise BadTask(f"executor='process' needs a module-level function, got {qualname or fn!r}: move it there")
    if _lookup(module, qualname) != fn:
        raise BadTask(
            f"executor='process': another process would find something else as {module}.{qualname}; "
            "give the function a name of its own at the top of its module"
        )
    if (module := _real_name(module)) != "__main__":
        return module, qualname, None
    main = sys.modules["__main__"]
    if main.__dict__.get("__file__") is None:
        raise BadTask(f"executor='process' needs a function in a file, and {qualname!r} was typed in: move it there")
    return module, qualname, os.path.abspath(str(main.__file__))


def _lookup(module: str, qualname: str) -> Any:
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found.fn if isinstance(found, Task) else found


def bases_of(kind: type[BaseException]) -> tuple[str, ...]:
    """The class and its bases, by names that a worker and its children share."""
    return tuple(f"{_real_name(base.__module__)}.{base.__qualname__}" for base in kind.__mro__)


def _real_name(module: str) -> str:
    """The module's name in worker and child alike: __main__ for a script, the package path limit `python -m`."""
    if module == MAIN:
        return "__main__"
    spec = sys.modules["__main__"].__spec__ if module == "__main__" else None
    return module if spec is None else spec.name
