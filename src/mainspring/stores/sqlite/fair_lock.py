"""A lock that lets processes take turns at the write lock of a SQLite file."""

from __future__ import annotations

import os
import sys
import time

if sys.platform != "win32":
    import fcntl

# A waiting process tries this often.
POLL_SECONDS = 0.0002
# Tries after which it goes on without the lock, because the process ahead may be stopped. SQLite's own lock protects
# the data; this one only decides the order.
MAX_POLLS = 500


class FairFileLock:
    """Without it, the process that just committed gets SQLite's write lock again and again.

    There are two locks: the holder of WRITE writes, the holder of TURN is next. The last writer has to wait for TURN
    behind the process that holds it, so two busy processes alternate.
    """

    _TURN, _WRITE = 0, 1

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def __enter__(self) -> None:
        turn = self._take(self._TURN)
        self._take(self._WRITE)
        if turn:
            self._drop(self._TURN)

    def __exit__(self, *_: object) -> None:
        self._drop(self._WRITE)

    def close(self) -> None:
        os.close(self._fd)

    if sys.platform == "win32":
        # On Windows there is only SQLite's own lock, without turns.
        def _take(self, byte: int) -> bool:
            return False

        def _drop(self, byte: int) -> None:
            return None
    else:

        def _take(self, byte: int) -> bool:
            for _ in range(MAX_POLLS):
                try:
                    fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
                except OSError:
                    time.sleep(POLL_SECONDS)
                else:
                    return True
            return False

        def _drop(self, byte: int) -> None:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, byte)
