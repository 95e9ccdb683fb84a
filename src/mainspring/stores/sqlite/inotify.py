"""Calls a function when a file is written, by Linux's inotify, so that a waiting process need not poll."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

IN_MODIFY = 0x2


class WriteWatch:
    """Calls `act` in its own thread after the file was written; writes during a call cause one more call.

    A store has one watch for its whole life: closing one can take tens of milliseconds, too long for an event loop.
    Raises OSError where inotify is missing or its limit is reached.
    """

    def __init__(self, path: str, act: Callable[[], object]) -> None:
        if not sys.platform.startswith("linux"):
            raise OSError("inotify exists only on Linux")
        import ctypes

        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1 failed")
        self._watch = self._libc.inotify_add_watch(self._fd, os.fsencode(path), IN_MODIFY)
        if self._watch < 0:
            os.close(self._fd)
            raise OSError(ctypes.get_errno(), "inotify_add_watch failed")
        self._act = act
        self._open = True
        threading.Thread(target=self._run, name="mainspring-watch", daemon=True).start()

    def close(self) -> None:
        """Returns at once. The thread ends, because removing the watch is an event too."""
        self._open = False
        self._libc.inotify_rm_watch(self._fd, self._watch)

    def _run(self) -> None:
        while True:
            os.read(self._fd, 4096)
            if not self._open:
                break
            self._act()
        os.close(self._fd)
