"""Hooks of the application: whatever they raise and however long they take, the loop that calls them goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mainspring.clock import SystemClock
from mainspring.testing import VirtualClock
from mainspring.worker.user_call import HookExit, UserCalls


def calls(timeout: float = 30.0) -> UserCalls:
    return UserCalls(SystemClock(), timeout)


def later(act: Callable[..., Any]) -> Callable[..., Any]:
    async def called(*args: Any) -> Any:
        await asyncio.sleep(0)
        return act(*args)

    return called


def each_kind(act: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
    """The hook as a plain function, as a coroutine function, and as a function that returns a coroutine."""
    return act, later(act), lambda *args: later(act)(*args)


class Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit


def leave(error: BaseException) -> None:
    raise error


async def test_a_hook_call_returns_the_value_of_the_hook() -> None:
    for act in each_kind(lambda a, b: a + b):
        assert await calls()("sum", act, 40, 2) == 42


async def test_a_plain_hook_does_not_block_the_event_loop() -> None:
    loop, gate = threading.get_ident(), threading.Event()
    assert await calls()("where", threading.get_ident) != loop
    waiting = asyncio.ensure_future(calls()("gate", gate.wait))
    await asyncio.sleep(0)
    gate.set()  # by the event loop, which the call does not block
    assert await waiting


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (ValueError("no"), ValueError),
        (Mute(), Mute),
        (SystemExit(3), HookExit),
        (KeyboardInterrupt(), HookExit),
        (asyncio.CancelledError(), HookExit),
        (GeneratorExit(), HookExit),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
async def test_any_exception_of_a_hook_is_raised_by_the_call(error: BaseException, raised: type[Exception]) -> None:
    for act in each_kind(leave):
        with pytest.raises(raised):
            await calls()("leave", act, error)
    with pytest.raises(HookExit, match=r"it raised SystemExit: 3"):
        await calls()("leave", leave, SystemExit(3))


async def test_a_hanging_plain_hook_times_out_and_is_not_called_again_until_it_ends() -> None:
    calls, gate, begun = UserCalls(SystemClock(), 0.05), threading.Event(), list[int]()

    def hang(n: int) -> int:
        begun.append(n)
        gate.wait()
        return n

    with pytest.raises(TimeoutError, match=r"it took longer than 0\.05 s"):
        await calls("hang", hang, 1)
    for _ in range(3):
        with pytest.raises(TimeoutError, match="an earlier call of it has not ended yet"):
            await calls("hang", hang, 2)
    assert await calls("other", lambda: "well") == "well"
    gate.set()
    await asyncio.wait(calls.hanging)
    assert await calls("hang", hang, 3) == 3
    assert begun == [1, 3]


async def test_a_coroutine_hook_that_ignores_its_cancellation_times_out() -> None:
    clock, released = VirtualClock(), asyncio.Event()
    calls = UserCalls(clock, 10)

    async def stubborn() -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    call = asyncio.ensure_future(calls("stubborn", stubborn))
    await clock.elapse(seconds=11)
    with pytest.raises(TimeoutError, match="it took longer than 10 s"):
        await call
    with pytest.raises(TimeoutError, match="has not ended yet"):
        await calls("stubborn", stubborn)
    released.set()
    await clock.settle()
    await calls("stubborn", stubborn)


async def test_cancelling_the_caller_of_a_hook_cancels_it() -> None:
    call = asyncio.ensure_future(calls()("sleep", asyncio.sleep, 60))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
