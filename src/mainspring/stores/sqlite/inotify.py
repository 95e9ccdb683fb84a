"""Linux tells when a file is written: a waiting process need not look."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

IN_MODIFY = 0x2


class WriteWatch:
    """Calls `act` in a thread of its own after the file was written; what is written meanwhile makes one more call.

    One for the life of a store: closing a watch can take the system tens of milliseconds, which no event loop has.
    Raises OSError where there is no inotify, or no more of it.
    """

    def __init__(self, path: str, act: Callable[[], object]) -> None:
        if not sys.platform.startswith("linux"):
            raise OSError("inotify is Linux's")
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
        """Returns at once; removing the watch is an event too, and ends the thread."""
        self._open = False
        self._libc.inotify_rm_watch(self._fd, self._watch)

    def _run(self) -> None:
        while True:
            os.read(self._fd, 65536)
            if not self._open:
                break
            self._act()
        os.close(self._fd)
