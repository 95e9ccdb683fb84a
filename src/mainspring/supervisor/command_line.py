"""This command as it was started, to be started again: beside us, or in our place."""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import NamedTuple, NoReturn


class CommandLine(NamedTuple):
    """Taken before the app is imported, which may change the directory and the environment."""

    argv: list[str]
    folder: str
    environ: dict[str, str]

    @classmethod
    def this(cls) -> CommandLine:
        # orig_argv has the interpreter's own options too; its first word may be a mere "python".
        return cls([sys.executable, *sys.orig_argv[1:]], os.getcwd(), dict(os.environ))

    def restart(self) -> NoReturn:
        """Begins anew in this very process, so that whoever watches its pid does not notice. Stuck threads end."""
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os.chdir(self.folder)
        os.execve(self.argv[0], self.argv, self.environ)  # noqa: S606  the command we are


def can_reload() -> bool:
    """Whether SIGHUP asks for fresh processes. At a terminal it says that the terminal is gone; nohup ignores it."""
    if not hasattr(signal, "SIGHUP") or signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return False
    try:
        return not os.isatty(0)
    except OSError:
        return True
