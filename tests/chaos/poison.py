"""Poisons and innocents, each in a function that child processes find."""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import fcntl
import os
import signal
import threading

from mainspring.task.interruption import Interrupted

# Set by the test: coroutines and threads that swallow their interruption end then, and innocents beside them too.
released, open_gate = threading.Event(), threading.Event()


# poisons


def allocate_beyond_the_limit() -> int:
    return len(bytearray(512 << 20))


def killed_for_memory() -> None:
    os.kill(os.getpid(), signal.SIGKILL)  # what the kernel does when it is out of memory


def segfault() -> None:
    ctypes.string_at(0)


def leave_at_once() -> None:
    os._exit(3)


def recurse() -> None:
    recurse()


def overflow_the_stack() -> None:
    faulthandler._stack_overflow()  # since Python 3.12 recursion ends before the stack does


async def swallow_as_a_coroutine() -> None:
    while not released.is_set():
        try:
            await asyncio.to_thread(released.wait, 0.1)
        except asyncio.CancelledError:
            continue


def swallow() -> None:
    while not released.is_set():
        try:
            released.wait(0.1)
        except Interrupted:
            continue


# innocents: none can end before the poison has struck for the first time


def innocent_process(gate: str) -> str:
    """Waits until the lock of the gate is free."""
    with open(gate) as file:
        fcntl.flock(file, fcntl.LOCK_SH)
    return "done"


def innocent_thread() -> str:
    open_gate.wait()
    return "done"


async def innocent_coroutine() -> str:
    await asyncio.to_thread(open_gate.wait)
    return "done"
