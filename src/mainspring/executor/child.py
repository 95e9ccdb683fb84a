"""The child process: reads run requests, calls the function, and reports how each run ended."""

from __future__ import annotations

import asyncio
import fcntl
import importlib
import importlib.util
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ..codec import Arguments, encode_result, is_async
from ..errors import BadTask, JobTimeout
from ..middleware import within_layers
from ..records.finding import format_size
from ..records.outcome import (
    MAX_MESSAGE_CHARACTERS,
    Cancel,
    Directive,
    Discard,
    Finish,
    Retry,
    Skip,
    Snooze,
    bad_payload,
    clean,
    failure_of,
)
from ..records.run import Failure
from ..task.context import (
    DONE_AWAITABLE,
    Context,
    ThreadMiddleware,
    check_counts,
    checked_number,
    merged_notes,
    run_fields,
)
from ..task.durable import suspends
from ..task.interruption import Interrupted, TaskExit
from ..task.output import OutputLimit, encoded_chunk
from ..task.task import Task
from . import pool as processes
from .interrupts import Interrupts
from .parent_pipe import ParentPipe
from .protocol import (
    ItemsMessage,
    LogMessage,
    NoteMessage,
    OutputMessage,
    ProgressMessage,
    Raised,
    RaisedKind,
    Returned,
    RunFinished,
    RunRequest,
    RunStarted,
    RunSteered,
    as_decoded,
)
from .resource_limits import CpuLimitExceeded, UsageMeter, apply_limits, cpu_seconds
from .start_mark import StartMark

if TYPE_CHECKING:
    from ..task.durable import BlockingRun, SyncContext

MAX_LINE_CHARACTERS = 8_192
# Memory that runs may leave behind beyond what the first run of each function left. First runs load imports, caches
# and models, which is what children are kept warm for; what later runs add is a leak.
MAX_LEAKED_BYTES = 256 * 2**20
# Time for exit handlers and threads of the user's modules after the worker has hung up.
EXIT_SECONDS = 0.4
# A run that was cut short for one of these may have left the process in any state.
_CUT_SHORT = ("timeout", "memory", "cpu")


class _PipeHandler(logging.Handler):
    """Sends log records to the worker."""

    def __init__(self, pipe: ParentPipe) -> None:
        super().__init__()
        self._pipe = pipe

    def handle(self, record: logging.LogRecord) -> bool:
        """Does not take the handler's lock: the pipe has its own, which no interruption can leave locked."""
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._pipe.send(LogMessage(record.levelno, clean(self.format(record), MAX_LINE_CHARACTERS)))
        except Exception:
            self.handleError(record)


class ChildContext(Context):
    """The context of a run in a child process: sends what the task reports to the worker."""

    __slots__ = ("_adapter", "_interrupts", "_noted", "_output", "_pipe", "_run")

    def __init__(self, request: RunRequest, pipe: ParentPipe, interrupts: Interrupts, logger: logging.Logger) -> None:
        super().__init__(request.job, request.timeout, request.deadline, None)
        self._pipe, self._interrupts, self._run = pipe, interrupts, pipe.run
        self._noted: dict[str, Any] = {}
        self._output = OutputLimit()
        self._adapter = logging.LoggerAdapter(logger, run_fields(request.job))

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        return self._adapter

    def progress(self, done: float, total: float | None = None, note: str = "") -> Awaitable[None]:
        """Sent at once; the worker decides how often to store it."""
        done, total = checked_number(done), None if total is None else checked_number(total)
        self._pipe.send(ProgressMessage(done, total, clean(str(note), MAX_MESSAGE_CHARACTERS)))
        return DONE_AWAITABLE

    def write(self, chunk: Any) -> Awaitable[None]:
        """Sent at once, up to the bounds of an output: the worker holds no more than that."""
        data = encoded_chunk(chunk)
        if self._output.admit(data) is not None:
            self._pipe.send(OutputMessage(data.decode()))
        return DONE_AWAITABLE

    def items(self, *, success: int = 0, failed: int = 0, skipped: int = 0) -> None:
        check_counts(success, failed, skipped)  # here, where it raises in the task: the worker could not refuse it
        self._pipe.send(ItemsMessage(success, failed, skipped))

    def note(self, **metadata: Any) -> None:
        self._noted = merged_notes(self._noted, metadata)
        self._pipe.send(NoteMessage({name: self._noted[name] for name in metadata}))

    @property
    def sync(self) -> SyncContext:
        from ..task.durable import SyncContext

        return SyncContext(self._blocking_run)

    def _blocking_run(self, _what: str) -> BlockingRun:
        from .child_steps import ChildSteps

        return ChildSteps(self._pipe, self._interrupts, self._run)


class ResolvedFunction(Struct, frozen=True):
    """A task's function, the codec of its arguments, and the layers around it."""

    fn: Callable[..., Any]
    arguments: Arguments
    layers: list[ThreadMiddleware]


def resolve(request: RunRequest) -> ResolvedFunction:
    """The function of the request. Raises BadTask, with a remedy, if a child process cannot import it."""
    name = request.job.task
    try:
        found: Any = _module(request)
    except BaseException as error:
        raise BadTask(
            f"task {name!r}: its module {request.module!r} cannot be imported in a child process: "
            f"{type(error).__name__}: {error}"
        ) from error
    try:
        for part in request.qualname.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise BadTask(
            f"task {name!r}: a child process finds no {request.qualname!r} in module {request.module!r}; "
            "executor='process' needs a module-level function"
        ) from None
    if isinstance(found, Task):
        return ResolvedFunction(found.fn, found.arguments, [] if is_async(found.fn) else found.app.thread_middleware)
    return ResolvedFunction(found, Arguments(found, name, Context), [])  # nothing names its app


@cache
def _set_up(path: str, argument: str) -> None:
    module, _, name = path.partition(":")
    getattr(importlib.import_module(module), name)(argument)


def _module(request: RunRequest) -> ModuleType:
    if request.setup is not None:
        _set_up(*request.setup)
    if request.module != "__main__":
        return importlib.import_module(request.module)
    name = processes.MAIN
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, request.main or "")
        if spec is None or spec.loader is None or not Path(request.main or "").is_file():
            raise BadTask("it is no script in a file; put the task into a module")
        sys.modules[name] = sys.modules["__main__"] = module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


class ChildServer:
    """Runs one request after the other. Modules stay imported, and functions resolved."""

    def __init__(self, connection: socket.socket, mark: StartMark) -> None:
        self._interrupts = Interrupts()
        self._mark = mark
        self._pipe = ParentPipe(connection, self._interrupts)
        self._resolved: dict[tuple[str, str], ResolvedFunction] = {}
        self._retained = 0
        self._ctx: ChildContext | None = None
        self._cpu_left: Callable[[], float] = float
        # Not in logging's own tree: configuration by the user's modules does not mute it.
        self._logger = logging.Logger("mainspring.task", logging.DEBUG)
        self._logger.addHandler(_PipeHandler(self._pipe))

    def serve(self) -> None:
        """Runs requests until the worker hangs up."""
        signal.signal(signal.SIGUSR1, self._on_soft_timeout)
        signal.signal(signal.SIGPROF, self._on_cpu_timer)
        own = os.getpid()
        for run, request in enumerate(self._pipe.requests(), 1):
            self._mark.note(run, cpu_seconds())  # if it dies from here on, the run has died with it
            if request.soft_timeout is not None:
                self._pipe.send(RunStarted())
            report = self._run(request)
            self._pipe.end_run()
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):
                    stream.flush()  # a kill would lose buffered output
            if os.getpid() != own:  # a process forked by the function has returned from it: the run is not its own
                os._exit(0)
            self._pipe.send(report)

    def _on_soft_timeout(self, *_: object) -> None:
        if self._ctx is not None:
            self._ctx.cancelled = True
        self._interrupts.interrupt(Interrupted("out of time"))

    def _on_cpu_timer(self, *_: object) -> None:
        if (left := self._cpu_left()) > 0:
            signal.setitimer(signal.ITIMER_PROF, left)
        else:
            self._interrupts.interrupt(CpuLimitExceeded("out of CPU time"))

    def _run(self, request: RunRequest) -> RunFinished:
        first = (request.module, request.qualname) not in self._resolved
        meter = UsageMeter()
        ending = self._call(request)
        usage, retained = meter.read()
        if isinstance(ending, Raised) and ending.kind == "memory":
            ending = replace(ending, failure=_memory_failure(request, usage.memory, ending.failure))
        if first:
            self._retained = max(self._retained, retained)
        cut = isinstance(ending, Raised) and ending.kind in _CUT_SHORT
        return RunFinished(replace(ending, usage=usage), retire=cut or retained > self._retained + MAX_LEAKED_BYTES)

    def _call(self, request: RunRequest) -> Returned | RunSteered | Raised:
        path = (request.module, request.qualname)
        try:
            found = self._resolved.get(path) or self._resolved.setdefault(path, resolve(request))
        except Exception as error:
            return Raised(failure_of(error))
        try:
            args, kwargs = found.arguments.decode(request.job.payload)
        except Exception as error:
            version = found.arguments.fingerprint, found.arguments.parameters
            return Raised(bad_payload(request.job.task, error), "unreadable", version=version)
        call: Callable[[], Any] = partial(found.fn, *args, **kwargs)
        if found.arguments.context is not None or found.layers:
            self._ctx = ctx = ChildContext(request, self._pipe, self._interrupts, self._logger)
            ctx.arguments = args, kwargs
            if found.arguments.context is not None:
                call = partial(found.fn, ctx, *args, **kwargs)
            call = within_layers(found.layers, ctx, call)
        try:
            with apply_limits(request.memory_limit, request.cpu_limit) as self._cpu_left:
                value = self._interrupts.call(call)
            if isinstance(value, Directive):
                raise value
            return Returned(*encode_result(value, request.result_limit))
        except (Retry, Snooze, Discard, Cancel, Skip, Finish) as steer:
            return self._steered(steer, request)
        except BaseException as error:
            if suspends(error):
                return Raised(failure_of(error, stack=False), "suspended")
            return self._raised(error, request)
        finally:
            self._ctx = None

    def _steered(self, steer: Directive, request: RunRequest) -> RunSteered | Raised:
        try:
            return RunSteered(as_decoded(steer))
        except BaseException as error:  # the task has changed the directive's attributes
            return self._raised(error, request)

    def _raised(self, error: BaseException, request: RunRequest) -> Raised:
        kind, judged = self._classify(error, request)
        failure = replace(failure_of(judged, stack=False), stack=failure_of(error).stack)
        try:
            return Raised(failure, kind, processes.bases_of(type(judged)))
        except BaseException:  # its metaclass hides the bases: the worker cannot apply the task's retry rules
            return Raised(failure, kind)

    def _classify(self, error: BaseException, request: RunRequest) -> tuple[RaisedKind, BaseException]:
        """The kind of an error, and the exception to which the task's retry rules apply."""
        cause = self._interrupts.cause
        if cause is not None and (error is cause or isinstance(error, asyncio.CancelledError)):
            if isinstance(cause, CpuLimitExceeded):
                return "cpu", CpuLimitExceeded(f"used more than its cpu_limit of {request.cpu_limit:g} s")
            return "timeout", JobTimeout(f"took longer than its soft_timeout of {request.soft_timeout:g} s")
        if isinstance(error, MemoryError) and request.memory_limit is not None:
            return "memory", error
        if isinstance(error, Exception | asyncio.CancelledError):
            return "error", error
        failure = failure_of(error, stack=False)
        return "error", TaskExit(f"the task raised {failure.type}: {failure.message}")


def _memory_failure(request: RunRequest, peak: int, failure: Failure) -> Failure:
    limit = format_size(request.memory_limit or 0)
    text = f"needed more than its memory_limit of {limit} (peak of the whole process: {format_size(peak)})"
    return Failure("MemoryLimitExceeded", text, failure.stack)


def main(connection: int, death_pipe: int, mark: int) -> None:
    """Serves the worker at the other end of the connection, and does not outlive it."""
    for fd in (connection, death_pipe):
        os.set_inheritable(fd, False)
    start_mark = StartMark(mark)
    os.close(mark)
    _die_with_worker(death_pipe)
    for number in (signal.SIGINT, signal.SIGTERM):
        # A service manager may send them to all processes at once: the worker decides. A handler that does nothing
        # is not inherited by programs that the function starts; SIG_IGN would be.
        signal.signal(number, lambda *_: None)
    with suppress(OSError):  # if memory runs out, the system should kill a child rather than the worker
        Path("/proc/self/oom_score_adj").write_text("500")
    processes.in_child = True
    ChildServer(socket.socket(fileno=connection), start_mark).serve()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, EXIT_SECONDS)


def _die_with_worker(death_pipe: int) -> None:
    """Makes the system kill this process and its helpers when the worker's end of the pipe closes."""
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(death_pipe, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(death_pipe, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(death_pipe, fcntl.F_SETFL, fcntl.fcntl(death_pipe, fcntl.F_GETFL) | os.O_ASYNC)
