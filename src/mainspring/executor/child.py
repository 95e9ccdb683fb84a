"""What runs in a child process: reads an order, calls the function, reports how it ended."""

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
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..codec import Arguments, encode_result
from ..errors import BadTask, JobTimeout
from ..records.finding import format_size
from ..records.outcome import (
    MAX_MESSAGE_CHARACTERS,
    Cancel,
    Directive,
    Discard,
    Retry,
    Snooze,
    bad_payload,
    clean,
    failure_of,
)
from ..records.run import Failure
from ..task.context import DONE_AWAITABLE, Context, check_counts, checked_number, merged_notes, run_fields
from ..task.interruption import Interrupted, TaskExit
from ..task.task import Task
from . import pool as processes
from .interrupts import Interrupts
from .protocol import (
    ItemsMessage,
    Kind,
    LogMessage,
    NoteMessage,
    ProgressMessage,
    Raised,
    Returned,
    RunFinished,
    RunRequest,
    RunStarted,
    RunSteered,
    as_decoded,
    frame,
    orders,
)
from .resource_limits import CpuLimitExceeded, UsageMeter, limited, spent

LINE_LIMIT = 8_192
# What runs may leave behind in memory, over what the first run of each function left. Imports, caches and models
# come with first runs, and are what children are kept warm for; what later runs add is a leak.
LEAK = 256 * 2**20
# Seconds for exit handlers and threads of the user's modules, once the worker has hung up.
LEAVE = 0.4
# A run that was cut short by one of these may have left anything half done.
_CUT = ("timeout", "memory", "cpu")


class ParentPipe:
    """The connection to the worker. Any thread may speak."""

    def __init__(self, connection: socket.socket, interrupts: Interrupts) -> None:
        self._socket = connection
        self._reader = connection.makefile("rb")
        self._interrupts = interrupts
        self._lock = threading.Lock()

    def send(self, message: Struct) -> None:
        data = frame(message)
        if threading.current_thread() is not threading.main_thread():
            self._write(data)
        else:
            with self._interrupts:  # half a message would garble all that follow
                self._write(data)

    def _write(self, data: bytes) -> None:
        with self._lock:
            self._socket.sendall(data)

    def orders(self) -> Iterator[RunRequest]:
        """Until the worker hangs up."""
        while len(head := self._reader.read(4)) == 4:
            yield orders.decode(self._reader.read(int.from_bytes(head, "big")))
        self._reader.close()
        self._socket.close()


class _Teller(logging.Handler):
    """Log records become messages."""

    def __init__(self, line: ParentPipe) -> None:
        super().__init__()
        self._line = line

    def handle(self, record: logging.LogRecord) -> bool:
        """Takes no lock of the handler: the line has its own, which no interruption can leave locked."""
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._line.send(LogMessage(record.levelno, clean(self.format(record), LINE_LIMIT)))
        except Exception:
            self.handleError(record)


class ChildContext(Context):
    """The same names as in the worker; what is said goes there."""

    __slots__ = ("_adapter", "_line", "_noted")

    def __init__(self, order: RunRequest, line: ParentPipe, logger: logging.Logger) -> None:
        super().__init__(order.job, order.timeout, order.deadline, None)
        self._line = line
        self._noted: dict[str, Any] = {}
        self._adapter = logging.LoggerAdapter(logger, run_fields(order.job))

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        return self._adapter

    def progress(self, done: float, total: float | None = None, note: str = "") -> Awaitable[None]:
        """Told at once; the worker decides what to make of it."""
        done, total = checked_number(done), None if total is None else checked_number(total)
        self._line.send(ProgressMessage(done, total, clean(str(note), MAX_MESSAGE_CHARACTERS)))
        return DONE_AWAITABLE

    def items(self, *, success: int = 0, failed: int = 0, skipped: int = 0) -> None:
        check_counts(success, failed, skipped)  # here, where it is the task's error: the worker could not refuse it
        self._line.send(ItemsMessage(success, failed, skipped))

    def note(self, **metadata: Any) -> None:
        self._noted = merged_notes(self._noted, metadata)
        self._line.send(NoteMessage({name: self._noted[name] for name in metadata}))


class Found(Struct, frozen=True):
    """A function, and how its arguments travel."""

    fn: Callable[..., Any]
    arguments: Arguments


def find(order: RunRequest) -> Found:
    """Raises BadTask, with the way out, for what a child cannot reach."""
    name = order.job.task
    try:
        found: Any = _module(order)
    except BaseException as error:
        raise BadTask(
            f"task {name!r}: its module {order.module!r} cannot be imported in a child process: "
            f"{type(error).__name__}: {error}"
        ) from error
    try:
        for part in order.qualname.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise BadTask(
            f"task {name!r}: a child process finds no {order.qualname!r} in module {order.module!r}; "
            "executor='process' needs a module-level function"
        ) from None
    if isinstance(found, Task):
        return Found(found.fn, found.arguments)
    return Found(found, Arguments(found, name, Context))


def _module(order: RunRequest) -> ModuleType:
    if order.module != "__main__":
        return importlib.import_module(order.module)
    name = processes.MAIN
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, order.main or "")
        if spec is None or spec.loader is None or not Path(order.main or "").is_file():
            raise BadTask("it is no script in a file; put the task into a module")
        sys.modules[name] = sys.modules["__main__"] = module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


class ChildRun:
    """Runs one order after the other. Modules stay imported and functions found."""

    def __init__(self, connection: socket.socket) -> None:
        self._interrupts = Interrupts()
        self._line = ParentPipe(connection, self._interrupts)
        self._found: dict[tuple[str, str], Found] = {}
        self._held = 0
        self._ctx: ChildContext | None = None
        self._cpu_left: Callable[[], float] = float
        # Not in logging's own tree: no configuration of the user's modules mutes it.
        self._logger = logging.Logger("mainspring.task", logging.DEBUG)
        self._logger.addHandler(_Teller(self._line))

    def serve(self) -> None:
        """Until the worker hangs up."""
        signal.signal(signal.SIGUSR1, self._out_of_time)
        signal.signal(signal.SIGPROF, self._out_of_cpu)
        own = os.getpid()
        for order in self._line.orders():
            self._line.send(RunStarted(spent()))
            report = self._perform(order)
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):
                    stream.flush()  # a kill would lose what is left in it
            if os.getpid() != own:  # a copy that the function forked has come back from it: the run is not its own
                os._exit(0)
            self._line.send(report)

    def _out_of_time(self, *_: object) -> None:
        if self._ctx is not None:
            self._ctx.cancelled = True
        self._interrupts.strike(Interrupted("out of time"))

    def _out_of_cpu(self, *_: object) -> None:
        if (left := self._cpu_left()) > 0:
            signal.setitimer(signal.ITIMER_PROF, left)
        else:
            self._interrupts.strike(CpuLimitExceeded("out of CPU time"))

    def _perform(self, order: RunRequest) -> RunFinished:
        first = (order.module, order.qualname) not in self._found
        meter = UsageMeter()
        ending = self._ending(order)
        usage, held = meter.read()
        if isinstance(ending, Raised) and ending.kind == "memory":
            ending = replace(ending, failure=_too_big(order, usage.memory, ending.failure))
        if first:
            self._held = max(self._held, held)
        cut = isinstance(ending, Raised) and ending.kind in _CUT
        return RunFinished(replace(ending, usage=usage), retire=cut or held > self._held + LEAK)

    def _ending(self, order: RunRequest) -> Returned | RunSteered | Raised:
        place = (order.module, order.qualname)
        try:
            found = self._found.get(place) or self._found.setdefault(place, find(order))
        except Exception as error:
            return Raised(failure_of(error))
        try:
            args, kwargs = found.arguments.decode(order.job.payload)
        except Exception as error:
            version = found.arguments.fingerprint, found.arguments.parameters
            return Raised(bad_payload(order.job.task, error), "unreadable", version=version)
        if found.arguments.context is not None:
            self._ctx = ChildContext(order, self._line, self._logger)
            args.insert(0, self._ctx)
        try:
            with limited(order.memory_limit, order.cpu_limit) as self._cpu_left:
                value = self._interrupts.call(lambda: found.fn(*args, **kwargs))
            if isinstance(value, Directive):
                raise value
            return Returned(*encode_result(value, order.result_limit))
        except (Retry, Snooze, Discard, Cancel) as steer:
            return self._steered(steer, order)
        except BaseException as error:
            return self._raised(error, order)
        finally:
            self._ctx = None

    def _steered(self, steer: Directive, order: RunRequest) -> RunSteered | Raised:
        try:
            return RunSteered(as_decoded(steer))
        except BaseException as error:  # the task has changed what it holds
            return self._raised(error, order)

    def _raised(self, error: BaseException, order: RunRequest) -> Raised:
        kind, judged = self._judge(error, order)
        failure = replace(failure_of(judged, stack=False), stack=failure_of(error).stack)
        try:
            return Raised(failure, kind, processes.bases_of(type(judged)))
        except BaseException:  # its metaclass does not say what it is: the task's retry rules cannot be asked
            return Raised(failure, kind)

    def _judge(self, error: BaseException, order: RunRequest) -> tuple[Kind, BaseException]:
        """What an error is, and what the task's retry rules are asked about."""
        cause = self._interrupts.cause
        if cause is not None and (error is cause or isinstance(error, asyncio.CancelledError)):
            if isinstance(cause, CpuLimitExceeded):
                return "cpu", CpuLimitExceeded(f"used more than its cpu_limit of {order.cpu_limit:g} s")
            return "timeout", JobTimeout(f"took longer than its soft_timeout of {order.soft_timeout:g} s")
        if isinstance(error, MemoryError) and order.memory_limit is not None:
            return "memory", error
        if isinstance(error, Exception | asyncio.CancelledError):
            return "error", error
        told = failure_of(error, stack=False)
        return "error", TaskExit(f"the task raised {told.type}: {told.message}")


def _too_big(order: RunRequest, peak: int, failure: Failure) -> Failure:
    limit = format_size(order.memory_limit or 0)
    text = f"needed more than its memory_limit of {limit} (peak of the whole process: {format_size(peak)})"
    return Failure("MemoryLimitExceeded", text, failure.stack)


def main(connection: int, lifeline: int) -> None:
    """Serves the worker at the other end of the connection, and does not outlive it."""
    for fd in (connection, lifeline):
        os.set_inheritable(fd, False)
    _die_with_the_worker(lifeline)
    for number in (signal.SIGINT, signal.SIGTERM):
        # They may come to all processes of a service at once: the worker decides. A handler that does nothing is
        # not inherited by programs the function starts; being ignored would be.
        signal.signal(number, lambda *_: None)
    with suppress(OSError):  # if memory runs out, the system should end a child rather than the worker
        Path("/proc/self/oom_score_adj").write_text("500")
    processes.in_child = True
    ChildRun(socket.socket(fileno=connection)).serve()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, LEAVE)


def _die_with_the_worker(lifeline: int) -> None:
    """When the worker's end of the pipe closes, the system kills this process and its helpers, whatever they do."""
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
