"""Threads for synchronous tasks. Each of them can be interrupted."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from ..clock import Alarm, Clock
from ..task.interruption import Interrupted

_logger = logging.getLogger("mainspring")
# How long a task's thread may continue after it was interrupted before its slot counts as leaked.
INTERRUPT_GRACE_SECONDS = 2.0


class _Returns:
    """The calls that have ended and whose event loop does not know yet: it wakes once for all of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._ended: deque[tuple[_Call, Any, BaseException | None]] = deque()
        self._woken = False

    def add(self, call: _Call, value: Any, error: BaseException | None) -> None:
        """From any thread."""
        self._ended.append((call, value, error))
        if not self._woken:
            self._woken = True
            self.loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        self._woken = False  # first: what is added from here on wakes the loop again
        while self._ended:
            call, value, error = self._ended.popleft()
            call.resolve(value, error)


class _Call:
    """One function call, and the event loop that waits for it."""

    __slots__ = ("context", "ended", "fn", "future", "interrupted", "lock", "on_end", "returns", "thread")

    def __init__(self, fn: Callable[[], Any], returns: _Returns) -> None:
        self.fn = fn
        self.context = contextvars.copy_context()
        self.returns = returns
        self.future: asyncio.Future[tuple[Any, BaseException | None]] = returns.loop.create_future()
        """Cancelled if the caller is, while the call goes on."""
        self.ended = False
        self.on_end: Callable[[], object] | None = None
        self.lock = threading.Lock()
        self.thread: int | None = None
        self.interrupted = False

    def run(self) -> None:
        """Calls the function and delivers its result, at whatever point an interruption arrives."""
        with self.lock:
            if self.interrupted:
                return self._deliver(None, Interrupted())
            self.thread = threading.get_ident()
        value, error = None, None
        try:
            value = self.context.run(self.fn)
        except BaseException as raised:
            error = raised
        while self.thread is not None:
            with suppress(Interrupted):  # meant for the function, which has returned
                self._detach()
        return self._deliver(value, error)

    def abandon(self) -> None:
        """For an interruption that arrived after the function, before its result was safe."""
        self._detach()
        self._deliver(None, Interrupted())

    def _detach(self) -> None:
        """From here on this thread is not interrupted."""
        with self.lock:
            self.thread = None
            if self.interrupted:
                _raise_in(threading.get_ident(), None)

    def interrupt(self) -> None:
        with self.lock:
            self.interrupted = True
            if self.thread is not None:
                _raise_in(self.thread, Interrupted)

    def stack(self) -> str:
        frame = sys._current_frames().get(self.thread or 0)
        return "".join(traceback.format_stack(frame)) if frame else ""

    def _deliver(self, value: Any, error: BaseException | None) -> None:
        # A coroutine cannot raise a StopIteration. Not isinstance(), which asks the exception for its class.
        if error is not None and issubclass(type(error), StopIteration):
            error = RuntimeError("the task raised StopIteration")
        try:
            self.returns.add(self, value, error)
        except RuntimeError:
            _logger.warning("a task ended after its worker's event loop was closed")

    def resolve(self, value: Any, error: BaseException | None) -> None:
        """In the event loop: passes the result on."""
        self.ended = True
        if self.on_end is not None:
            self.on_end()
        if not self.future.done():
            self.future.set_result((value, error))


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error) if error else None)


class Threads:
    """Daemon threads, started when needed and reused: one stuck in C code does not keep the process from ending."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._on_leak: Callable[[Any, str], object] = lambda tag, stack: None
        self._on_return: Callable[[Any], object] = lambda tag: None
        self._returns: _Returns | None = None
        self._lock = threading.Lock()
        self._calls: deque[_Call] = deque()
        """The calls that no thread has begun."""
        self._signals: SimpleQueue[bool] = SimpleQueue()
        """What idle threads wait for. False: to end."""
        self._idle = 0
        self._count = 0
        self._waking = False
        """Whether a thread was woken, and has not looked for a call yet."""

    def watch_leaks(self, on_leak: Callable[[Any, str], object], on_return: Callable[[Any], object]) -> None:
        """Calls `on_leak` with the tag and the stack of a call that ignores its interruption, and `on_return` with the
        tag if that call returns after all."""
        self._on_leak, self._on_return = on_leak, on_return

    async def call(self, fn: Callable[[], Any], tag: Any = None) -> Any:
        """The function's value. If cancelled: interrupts it, and gives it INTERRUPT_GRACE_SECONDS to end.

        Sets `tag.interrupt`, if there is one, to a function that interrupts only this call: its result still counts.
        """
        loop = asyncio.get_running_loop()
        if self._returns is None or self._returns.loop is not loop:
            self._returns = _Returns(loop)
        call = _Call(fn, self._returns)
        if hasattr(tag, "interrupt"):
            tag.interrupt = call.interrupt
        with self._lock:
            self._calls.append(call)
            if not self._waking:
                self._wake_one()
        try:
            with self._clock.outside(task=True):
                value, error = await call.future
            # Raised here and not by the future: a GeneratorExit from there would close the run that awaits it.
            if error is not None:
                try:
                    raise error
                finally:
                    del error  # its traceback refers to this frame
            return value
        except asyncio.CancelledError:
            call.interrupt()
            await self._await_end(call, tag)
            raise

    async def _await_end(self, call: _Call, tag: Any) -> None:
        if call.ended:
            return
        done = Alarm(self._clock)
        call.on_end = done.ring
        try:
            with self._clock.outside(task=True):
                await done.wait(INTERRUPT_GRACE_SECONDS)
        finally:
            call.on_end = None
            if not call.ended:
                self._on_leak(tag, call.stack())
                call.on_end = lambda: self._on_return(tag)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that has called last. For a thread of these."""
        assert self._returns is not None
        return self._returns.loop

    def close(self) -> None:
        """Ends idle threads; busy ones end after their call."""
        with self._lock:
            count, self._count = self._count, 0
        for _ in range(count):
            self._signals.put(False)

    # Threads are woken one at a time, each by the one before it: a thread that finds further calls wakes another, and
    # goes on. If the calls are short, it has done them all before the other one gets the interpreter; if one of them
    # waits, the others begin at once. To wake a thread for every call takes two switches of threads a call.

    def _wake_one(self) -> None:
        """Wakes an idle thread, or starts one. With the lock."""
        self._waking = True
        if self._idle:
            self._idle -= 1
            self._signals.put(True)
            return
        self._count += 1
        try:
            threading.Thread(target=self._work, name=f"mainspring-task-{self._count}", daemon=True).start()
        except RuntimeError:  # the system has no more threads
            self._count -= 1
            self._waking = False
            if not self._count:
                self._calls.pop()
                raise

    def _next(self, woken: bool) -> _Call | None:
        """The next call for this thread; None: it is idle from here on."""
        with self._lock:
            if woken:
                self._waking = False
            if not self._calls:
                self._idle += 1
                return None
            call = self._calls.popleft()
            if self._calls and not self._waking:
                self._wake_one()
            return call

    def _work(self) -> None:
        call, woken = None, True
        while True:
            while (call := self._next(woken)) is not None:
                woken = False
                try:
                    call.run()
                except Interrupted:
                    call.abandon()
                del call
            woken = True
            if not self._signals.get():
                break
        with self._lock:
            self._idle -= 1
