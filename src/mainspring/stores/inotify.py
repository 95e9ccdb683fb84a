"""Linux tells when a file is written: a waiting process need not look."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

IN_MODIFY = 0x2


def on_write(path: str, act: Callable[[], object]) -> Callable[[], None]:
    """Calls `act` once, in the running loop, when the file is next written; returns what ends the watch.

    Raises OSError where the system has no such thing, or no more of it.
    """
    if not sys.platform.startswith("linux"):
        raise OSError("inotify is Linux's")
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1 failed")
    if libc.inotify_add_watch(fd, os.fsencode(path), IN_MODIFY) < 0:
        os.close(fd)
        raise OSError(ctypes.get_errno(), "inotify_add_watch failed")
    loop = asyncio.get_running_loop()

    def written() -> None:
        loop.remove_reader(fd)
        act()

    def end() -> None:
        loop.remove_reader(fd)
        os.close(fd)

    try:
        loop.add_reader(fd, written)
    except NotImplementedError:
        os.close(fd)
        raise OSError("this event loop cannot watch a file") from None
    return end
