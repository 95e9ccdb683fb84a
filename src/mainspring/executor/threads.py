"""Threads for synchronous tasks. Each of them can be interrupted."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from ..clock import Alarm, Clock
from ..task.interruption import Interrupted

_logger = logging.getLogger("mainspring")
# How long a task's thread may continue after it was interrupted before its slot counts as leaked.
INTERRUPT_GRACE_SECONDS = 2.0


class _Call:
    """One function call, and the event loop that waits for it."""

    def __init__(self, fn: Callable[[], Any]) -> None:
        self.fn = fn
        self.context = contextvars.copy_context()
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
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
        # A future cannot hold a StopIteration. Not isinstance(), which asks the exception for its class.
        if error is not None and issubclass(type(error), StopIteration):
            error = RuntimeError("the task raised StopIteration")
        try:
            self.loop.call_soon_threadsafe(self._resolve, value, error)
        except RuntimeError:
            _logger.warning("a task ended after its worker's event loop was closed")

    def _resolve(self, value: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(value)
        else:
            self.future.set_exception(error)


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error) if error else None)


class Threads:
    """Daemon threads, started when needed and reused: one stuck in C code does not keep the process from ending."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._on_leak: Callable[[Any, str], object] = lambda tag, stack: None
        self._on_return: Callable[[Any], object] = lambda tag: None
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._count = 0

    def watch_leaks(self, on_leak: Callable[[Any, str], object], on_return: Callable[[Any], object]) -> None:
        """Calls `on_leak` with the tag and the stack of a call that ignores its interruption, and `on_return` with the
        tag if that call returns after all."""
        self._on_leak, self._on_return = on_leak, on_return

    async def call(self, fn: Callable[[], Any], tag: Any = None) -> Any:
        """The function's value. If cancelled: interrupts it, and gives it INTERRUPT_GRACE_SECONDS to end.

        Sets `tag.interrupt`, if there is one, to a function that interrupts only this call: its result still counts.
        """
        call = _Call(fn)
        if hasattr(tag, "interrupt"):
            tag.interrupt = call.interrupt
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._count += 1
                threading.Thread(target=self._work, name=f"mainspring-task-{self._count}", daemon=True).start()
        self._calls.put(call)
        try:
            with self._clock.outside(task=True):
                # Not asyncio.shield(): from Python 3.14 on it logs the end of a call that was interrupted on purpose.
                await asyncio.wait((call.future,))
                return call.future.result()
        except asyncio.CancelledError:
            call.interrupt()
            await self._await_end(call, tag)
            raise

    async def _await_end(self, call: _Call, tag: Any) -> None:
        done = Alarm(self._clock)

        def ended(future: asyncio.Future[Any]) -> None:
            future.exception()
            done.ring()

        call.future.add_done_callback(ended)
        try:
            with self._clock.outside(task=True):
                await done.wait(INTERRUPT_GRACE_SECONDS)
        finally:
            if not call.future.done():
                self._on_leak(tag, call.stack())
                call.future.add_done_callback(lambda _: self._on_return(tag))

    def close(self) -> None:
        """Ends idle threads; busy ones end after their call."""
        with self._lock:
            count, self._count, self._idle = self._count, 0, 0
        for _ in range(count):
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                call.run()
            except Interrupted:
                call.abandon()
            del call
            with self._lock:
                self._idle += 1
