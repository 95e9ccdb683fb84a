"""Calls of the application's hooks: bounded in time, and nothing they raise ends a loop of the engine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from inspect import isawaitable
from typing import Any

from ..clock import Alarm, Clock
from ..codec import is_async
from ..errors import MainspringError
from ..records.outcome import failure_of

_Ended = tuple[Any, BaseException | None]
"""The return value of a call, or the exception it raised."""


class HookExit(MainspringError):
    """A hook raised SystemExit, KeyboardInterrupt, CancelledError or the like."""


class UserCalls:
    """Calls hooks, each at most once at a time: a hook that hangs is not called again until that call has ended."""

    def __init__(self, clock: Clock, timeout: float) -> None:
        """`timeout`: seconds after which a call is abandoned."""
        self._clock = clock
        self._timeout = timeout
        self._hanging: dict[str, asyncio.Future[_Ended]] = {}

    @property
    def hanging(self) -> list[asyncio.Future[_Ended]]:
        """Calls that were abandoned and have not ended yet."""
        return [call for call in self._hanging.values() if not call.done()]

    async def __call__(self, name: str, act: Callable[..., Any], *args: Any) -> Any:
        """The function's value. A coroutine function runs in this loop, a plain function in a thread of its own.

        Raises what it raises, as HookExit if that is no Exception, and TimeoutError.
        """
        hanging = self._hanging.get(name)
        if hanging is not None and not hanging.done():
            raise TimeoutError("an earlier call of it has not ended yet")
        if is_async(act):
            return await self._within_timeout(name, asyncio.ensure_future(_capture(act(*args))))
        with self._clock.outside(task=True):
            value = await self._within_timeout(name, _in_thread(act, args))
        return await self._within_timeout(name, asyncio.ensure_future(_capture(value))) if isawaitable(value) else value

    async def _within_timeout(self, name: str, call: asyncio.Future[_Ended]) -> Any:
        over = Alarm(self._clock)
        call.add_done_callback(lambda _: over.ring())
        try:
            await over.wait(self._timeout)
        finally:
            if not call.done():
                self._hanging[name] = call
                if isinstance(call, asyncio.Task):  # a thread cannot be cancelled
                    call.cancel()
        if not call.done():
            raise TimeoutError(f"it took longer than {self._timeout:g} s")
        value, error = call.result()
        if error is None:
            return value
        if issubclass(type(error), Exception):  # not isinstance(), which asks the exception for its class
            raise error
        failure = failure_of(error, stack=False)
        raise HookExit(f"it raised {failure.type}: {failure.message}") from error


async def _capture(work: Awaitable[Any]) -> _Ended:
    """Returns an exception instead of raising it: SystemExit would end the event loop, CancelledError its caller."""
    try:
        return await work, None
    except BaseException as error:
        return None, error


def _in_thread(act: Callable[..., Any], args: tuple[Any, ...]) -> asyncio.Future[_Ended]:
    """Calls it in a daemon thread, so that one that hangs does not keep the process from ending."""
    loop, context = asyncio.get_running_loop(), copy_context()
    call: asyncio.Future[_Ended] = loop.create_future()

    def run() -> None:
        ended: _Ended
        try:
            ended = context.run(act, *args), None
        except BaseException as error:
            ended = None, error
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(call.set_result, ended)

    threading.Thread(target=run, name="mainspring-hook", daemon=True).start()
    return call
