"""Signals that stop a process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def on_stop(act: Callable[[], object]) -> Iterator[None]:
    """Calls `act` on SIGTERM and SIGINT inside the block, if the event loop can handle signals."""
    loop, caught = asyncio.get_running_loop(), list[signal.Signals]()
    with suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread, or Windows
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, act)
            caught.append(number)
    try:
        yield
    finally:
        for number in caught:
            loop.remove_signal_handler(number)
