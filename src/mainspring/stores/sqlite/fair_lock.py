"""Takes turns at the write lock of a SQLite file between processes."""

from __future__ import annotations

import os
import sys
import time

if sys.platform != "win32":
    import fcntl

# Whoever waits looks every STEP; after PATIENCE steps it goes on without its turn, because the
# process ahead may be stopped. SQLite's own lock keeps the data right, this one only the order.
POLL_SECONDS = 0.0002
MAX_POLLS = 500


class FairFileLock:
    """Without it, SQLite lets the process that just committed take the lock again, for ever.

    Two locks: who has passed the turnstile writes; who stands in it is next. The last writer
    has to queue behind the one in the turnstile, so two busy processes alternate.
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
        # SQLite's own lock alone, without turns.
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
