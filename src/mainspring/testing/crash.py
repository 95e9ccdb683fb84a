"""Crashes: the death of a worker's process at one point of its runs, without leaving the test's process."""

from __future__ import annotations

import asyncio
import ctypes
import dis
import gc
import inspect
import sys
import sysconfig
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, ModuleType, coroutine
from typing import Any, NamedTuple, TypeVar

from ..records.run import RunReport
from ..task.interruption import Interrupted

T = TypeVar("T")

# The instructions of a `with` statement that an exception leaves: they call its __exit__, and no other code.
_WITH_EXIT = (dis.opmap["PUSH_EXC_INFO"], dis.opmap["WITH_EXCEPT_START"])
_LOAD_CONST, _SWAP = dis.opmap["LOAD_CONST"], dis.opmap["SWAP"]
# Instructions at which a function begins, goes on after a wait, or waits.
_WAITS = {
    dis.opmap[name]
    for name in (
        *("RESUME", "RETURN_GENERATOR", "MAKE_CELL", "COPY_FREE_VARS", "JUMP_BACKWARD_NO_INTERRUPT"),
        *("YIELD_VALUE", "SEND", "CLEANUP_THROW", "END_SEND"),
    )
    if name in dis.opmap
}
_ENDS = {dis.opmap[name] for name in ("RETURN_VALUE", "RETURN_CONST", "RERAISE") if name in dis.opmap}
_PACKAGE = Path(__file__).parents[1]
_INSTALLED = {"site-packages", "dist-packages"}


class Killed(Interrupted):
    """Raised wherever the application would run another line after its process has died."""


class CrashPoint(NamedTuple):
    """The last line of a task that has begun before its process dies."""

    file: str
    line: int
    function: str
    wait: CrashPoint | None = None
    """The line, of another function, in which it has waited since then."""


Occurrence = tuple[CrashPoint, int]
"""A point, and for the how manyth time: from 1."""


class Crash:
    """Counts the points at which the process of a worker can die, and dies at `at`.

    A point is after each line of the given code, after each await that has waited, after each insert of jobs, before
    each checkpoint, and when a run has returned. From its death on no line of the application runs: no `finally`, no
    `except`, no `__exit__`. Code of packages does run, so that a library's transaction is rolled back and its
    connection returned, as a server does that loses its client.
    """

    def __init__(self, code: Collection[CodeType], is_own: Callable[[str], bool], at: Occurrence | None = None) -> None:
        """Without `at` it only counts."""
        self._code = {id(one): (one, one.co_code) for one in code if is_own(one.co_filename)}
        self._is_own = is_own
        self._at = at
        self.points: list[CrashPoint] = []
        """Those that were counted so far."""
        self._runs: dict[str, DoomedRun] = {}
        self._counts: Counter[CrashPoint] = Counter()
        self.dead = False
        self.on_death: Callable[[], object] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._waiting: set[asyncio.Task[Any]] = set()
        self._lines: dict[int, tuple[int, int]] = {}
        """The line in which each function is, and the offset of the instruction there."""
        self._left: list[Callable[..., Any]] = []

    def note(self, run: DoomedRun, wait: CrashPoint | None = None) -> bool:
        """Counts a point of this run, after a wait at that line. Returns whether the process is dead."""
        if not self.dead:
            point = run.last if wait in (None, run.last) else run.last._replace(wait=wait)
            self.points.append(point)
            self._counts[point] += 1
            if (point, self._counts[point]) == self._at:
                self._die()
        return self.dead

    def before_storing(self, report: RunReport) -> None:
        """A checkpoint is not stored yet: a point."""
        if (run := self._runs.get(report.id)) is not None:
            self.note(run)

    def after_storing(self, report: RunReport) -> None:
        """A checkpoint is stored: the point is the line that follows."""

    def _die(self) -> None:
        self.dead = True
        self.on_death()
        # What waits would never learn of it.
        self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in self._waiting])

    # lines

    def __delitem__(self, frame: FrameType) -> None:
        """Called by the interpreter before each line, and raises Killed in place of it: see _trace()."""
        code, offset = frame.f_code, frame.f_lasti
        if self.dead:
            if self._is_own(code.co_filename) and _begins_or_fails(code.co_code, offset):
                raise Killed
            return
        known = self._code.get(id(code))
        if known is None or not self._is_new_line(frame, known[1][offset]):
            return
        run = doomed_run.get()
        if run is None:
            return
        leaves = _leaves_with(code, offset)
        if run.began and self.note(run):
            if not leaves:
                raise Killed
            sys.setprofile(self._leave)
        if not leaves:  # the line of the `with` statement, a second time
            run.last, run.began = CrashPoint(code.co_filename, frame.f_lineno, code.co_name), True

    def _is_new_line(self, frame: FrameType, instruction: int) -> bool:
        """Whether the event is that of a line, and not of a call, a return or an exception."""
        key, line, offset = id(frame), frame.f_lineno, frame.f_lasti
        if instruction in _ENDS:
            self._lines.pop(key, None)
            return False
        if instruction in _WAITS:
            return False
        before = self._lines.get(key)
        self._lines[key] = (line, offset)
        return before is None or line != before[0] or offset < before[1]

    def _leave(self, frame: FrameType, event: str, called: Any) -> None:
        """Called with the __exit__ or __aexit__ of a block that a dead run would leave, in place of it.

        It has to get Killed, but an exception there would not be one of the block. So it is called afterwards.
        """
        sys.setprofile(None)
        if event == "call":
            code, own = frame.f_code, self._is_own(frame.f_code.co_filename)
            if not own and code.co_name in ("__exit__", "__aexit__"):
                called = getattr(frame.f_locals[code.co_varnames[0]], code.co_name)
        if getattr(called, "__name__", "") in ("__exit__", "__aexit__"):
            self._left.append(called)
        raise Killed

    def _leave_blocks(self) -> Iterator[Any]:
        """Leaves the blocks; yields what is to be awaited."""
        while self._left:
            with suppress(BaseException):
                leaving = self._left.pop(0)(Killed, Killed(), None)
                if inspect.iscoroutine(leaving):
                    yield leaving

    @contextmanager
    def _tracing(self) -> Iterator[None]:
        """Inside the block, this thread runs under its eyes."""
        before = sys.gettrace()
        _trace(self)
        try:
            yield
        finally:
            sys.settrace(before)

    def call(self, act: Callable[[], T]) -> T:
        """Calls a plain function, in its own thread."""
        with self._tracing():
            try:
                return act()
            except BaseException as error:
                if not self.dead:
                    raise
                _forget(error)
                list(self._leave_blocks())
        raise Killed

    # coroutines

    async def run(self, work: Coroutine[Any, Any, T], job: str, first: CrashPoint, killed: T) -> T:
        """Runs a coroutine; `killed` if its process dies meanwhile. The tasks that it starts die with it.

        `first` is where it is before it has begun a line.
        """
        run = self._runs[job] = DoomedRun(self, first)
        doomed_run.set(run)
        value = await self._drive(work, run)
        return killed if isinstance(value, _Ended) or self.note(run) else value

    @coroutine
    def _drive(self, work: Coroutine[Any, Any, T], run: DoomedRun) -> Generator[Any, Any, T | _Ended]:
        return (yield from self._steps(work, run))

    def _steps(self, work: Coroutine[Any, Any, T], run: DoomedRun) -> Generator[Any, Any, T | _Ended]:
        task = asyncio.current_task()
        step: Callable[[Any], Any] = work.send
        given: Any = None
        killed = False
        while True:
            try:
                with self._tracing():
                    waits_for = step(given)
            except StopIteration as stop:
                if not self.dead:
                    value: T = stop.value
                    return value
                if isinstance(stop.value, BaseException):
                    _forget(stop.value)
                return (yield from self._end(run))
            except BaseException as error:
                if not self.dead:
                    raise
                _forget(error)
                return (yield from self._end(run))
            finally:
                given = None  # the traceback of an exception refers to this frame
            if not killed and task is not None:
                self._waiting.add(task)
            try:
                given, step = (yield waits_for), work.send
            except GeneratorExit:
                with self._tracing(), suppress(Killed):
                    work.close()
                raise
            except BaseException as error:
                given, step = error, work.throw
            finally:
                self._waiting.discard(task)
            if not killed and self.note(run, _innermost(work, self._is_own)):
                given, step, killed = Killed(), work.throw, True

    def _end(self, run: DoomedRun) -> Generator[Any, Any, _Ended]:
        with self._tracing():
            leaving = list(self._leave_blocks())
        for work in leaving:
            yield from self._steps(work, run)
        return _ENDED

    async def free(self) -> None:
        """Frees what the dead runs held, such as connections. Inside following()."""
        with self._tracing():
            # In a context of its own: asyncio closes asynchronous generators later, in tasks with the same context.
            variables = copy_context()
            variables.run(doomed_run.set, DoomedRun(self, CrashPoint("", 0, "")))
            variables.run(gc.collect)
        for _ in range(3):
            await asyncio.sleep(0)

    @contextmanager
    def following(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        """Inside the block, tasks that a run starts in this loop count as parts of it."""
        before = loop.get_task_factory()

        def factory(_: Any, work: Any, **options: Any) -> Any:
            run, part = doomed_run.get(), work
            is_part = run is not None and run.crash is self and asyncio.iscoroutine(work)
            if run is not None and is_part:
                part = self._part(work, run)
            task = asyncio.Task(part, loop=loop, **options) if before is None else before(loop, part, **options)
            if is_part:  # one that is cancelled before it begins would be a coroutine that was never awaited
                task.add_done_callback(lambda _: work.close())
            return task

        loop.set_task_factory(factory)
        try:
            yield
        finally:
            loop.set_task_factory(before)

    async def _part(self, work: Coroutine[Any, Any, Any], run: DoomedRun) -> Any:
        value = await self._drive(work, run)
        return None if isinstance(value, _Ended) else value


class DoomedRun:
    """A run whose process may die, and the line it is in."""

    def __init__(self, crash: Crash, first: CrashPoint) -> None:
        self.crash = crash
        self.last = first
        self.began = False


doomed_run: ContextVar[DoomedRun | None] = ContextVar("mainspring_doomed_run", default=None)


class _Ended:
    """In place of the value of a coroutine that was killed."""


_ENDED = _Ended()


def _forget(error: BaseException | None) -> None:
    """Lets go of what the frames of a dead run hold."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error.__traceback__, error = None, error.__context__


def note_insert() -> None:
    """An insert of jobs is done: a point, if a run that may die has made it."""
    run = doomed_run.get()
    if run is not None and run.crash.note(run):
        raise Killed


@contextmanager
def own_garbage() -> Iterator[None]:
    """Inside the block, objects from before are not looked at by collections of garbage, and none begins by itself: it
    would run `finally` blocks of generators that have died."""
    enabled, frozen, hook = gc.isenabled(), gc.get_freeze_count(), sys.unraisablehook
    # What is killed while it is finalised, such as a generator, has no caller to raise to.
    sys.unraisablehook = lambda args: None if isinstance(args.exc_value, Killed) else hook(args)
    gc.disable()
    gc.collect()
    if not frozen:
        gc.freeze()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # a process that dies leaves open what it has open
            yield
    finally:
        sys.unraisablehook = hook
        if not frozen:
            gc.unfreeze()
        if enabled:
            gc.enable()


def _trace(crash: Crash) -> None:
    """Makes the interpreter call `crash.__delitem__(frame)` at each line, call and return of this thread.

    sys.settrace() stops tracing once the function has raised, and the handlers of that very frame would run. The
    interpreter's own interface takes a C function that may raise each time, and PyObject_DelItem(object, frame) is one:
    it returns 0, or -1 with the exception set, and ignores the further arguments.
    """
    set_trace = ctypes.pythonapi.PyEval_SetTrace
    set_trace.argtypes, set_trace.restype = [ctypes.c_void_p, ctypes.py_object], None
    set_trace(ctypes.cast(ctypes.pythonapi.PyObject_DelItem, ctypes.c_void_p), crash)


def _begins_or_fails(bytecode: bytes, offset: int) -> bool:
    """Whether the application's code would go on with this instruction: not if it only calls an __exit__."""
    instruction, push = bytecode[offset], _WITH_EXIT[0]
    leaves = instruction == push and bytecode[offset + 2 : offset + 3] == bytes(_WITH_EXIT[1:])
    return not leaves and instruction not in _WAITS and instruction not in _WITH_EXIT[1:]


def _leaves_with(code: CodeType, offset: int) -> bool:
    """Whether a `with` statement calls its __exit__ there, with None three times, as its body has ended."""
    bytecode = code.co_code
    start = offset + 2 * (bytecode[offset] == _SWAP)  # below the value of a `return` in the body
    constants = {code.co_consts[index] for index in bytecode[start + 1 : start + 7 : 2] if index < len(code.co_consts)}
    return bytecode[start : start + 6 : 2] == bytes([_LOAD_CONST] * 3) and constants == {None}


def _innermost(work: Any, is_own: Callable[[str], bool]) -> CrashPoint | None:
    """The line of the application at which a coroutine waits; None if there is none on its stack."""
    found = None
    while work is not None:
        frame = _first(work, "cr_frame", "gi_frame", "ag_frame")
        if frame is not None and is_own(frame.f_code.co_filename):
            found = CrashPoint(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        work = _first(work, "cr_await", "gi_yieldfrom", "ag_await")
    return found


def _first(one: Any, *names: str) -> Any:
    return next((value for name in names if (value := getattr(one, name, None)) is not None), None)


def start_of(fn: Any) -> CrashPoint:
    """Where a function is before it has begun a line."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return (
        CrashPoint("", 0, repr(fn)) if code is None else CrashPoint(code.co_filename, code.co_firstlineno, code.co_name)
    )


def code_of(*functions: Any) -> set[CodeType]:
    """The code of functions, also behind decorators, with the functions inside them; of a class and a module, that of
    the functions in it."""
    found, waiting, seen = set[CodeType](), list(functions), set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, CodeType):
            found.add(one)
            waiting += [inner for inner in one.co_consts if isinstance(inner, CodeType)]
        elif isinstance(one, ModuleType):
            waiting += [inner for inner in vars(one).values() if getattr(inner, "__module__", None) == one.__name__]
        elif isinstance(one, type):
            waiting += vars(one).values()
        else:
            waiting += [
                inner
                for name in ("__code__", "__wrapped__", "__func__", "func", "fget")
                if (inner := getattr(one, name, None))
            ]
    return found


def own_code(file: str) -> Callable[[str], bool]:
    """A test whether a file is the application's, as `file` is: not of the standard library, an installed package or
    this one."""
    foreign = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    package = _package_of(Path(file))

    @lru_cache(maxsize=4096)
    def is_own(name: str) -> bool:
        if name == file:
            return True
        path = Path(name)
        if name.startswith("<") or _PACKAGE in path.parents:
            return False
        installed = _INSTALLED.intersection(path.parts) or any(place in path.parents for place in foreign)
        return package in path.parents or not installed

    return is_own


def _package_of(file: Path) -> Path:
    """The folder of the outermost package that a file is in; the file itself if it is in none."""
    package = file
    while (package.parent / "__init__.py").exists():
        package = package.parent
    return package
