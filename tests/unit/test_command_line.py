"""can_reload(): whether SIGHUP means "reload", or that the terminal is gone."""

import os
import subprocess
import sys

ASK = "from mainspring.supervisor.command_line import can_reload; print(can_reload())"
IGNORE = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); "


def asked(code: str, stdin: int) -> str:
    done = subprocess.run([sys.executable, "-c", code], stdin=stdin, capture_output=True, text=True, timeout=60)
    return done.stdout.strip()


def test_without_a_terminal_sighup_means_reload() -> None:
    assert asked(ASK, subprocess.DEVNULL) == "True"


def test_at_a_terminal_sighup_does_not_mean_reload() -> None:
    master, slave = os.openpty()
    try:
        assert asked(ASK, slave) == "False"
    finally:
        os.close(master)
        os.close(slave)


def test_sighup_ignored_by_nohup_stays_ignored() -> None:
    assert asked(IGNORE + ASK, subprocess.DEVNULL) == "False"
