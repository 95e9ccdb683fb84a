"""The command line of this process, to start it again: as another process, or in place of this one."""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import NamedTuple, NoReturn


class CommandLine(NamedTuple):
    """Captured before the app is imported, which may change the working directory and the environment."""

    argv: list[str]
    folder: str
    environ: dict[str, str]

    @classmethod
    def current(cls) -> CommandLine:
        # orig_argv has the interpreter's own options, too; its first item may be a mere "python".
        return cls([sys.executable, *sys.orig_argv[1:]], os.getcwd(), dict(os.environ))

    def restart(self) -> NoReturn:
        """Replaces this process by a new run of the command, under the same pid. Stuck threads end with it."""
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os.chdir(self.folder)
        os.execve(self.argv[0], self.argv, self.environ)  # noqa: S606  the command we are


def can_reload() -> bool:
    """Whether SIGHUP means "reload". From a terminal it means that the terminal is gone, and nohup ignores it."""
    if not hasattr(signal, "SIGHUP") or signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return False
    try:
        return not os.isatty(0)
    except OSError:
        return True
