"""What systemd wants to hear from a service of Type=notify."""

from __future__ import annotations

import logging
import os
import socket

from ..clock import Clock

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
_logger = logging.getLogger("mainspring")


def notify(state: str) -> None:
    """Sends READY=1, STOPPING=1 or WATCHDOG=1, if somebody listens."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.settimeout(1.0)
            line.sendto(state.encode(), f"\0{path[1:]}" if path.startswith("@") else path)
    except OSError as error:
        _logger.warning("systemd does not hear %s at %s: %s", state, path, error)


async def watchdog(clock: Clock) -> None:
    """Says WATCHDOG=1, twice in each span that systemd allows, for as long as the event loop is well."""
    allowed, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not allowed.isdecimal() or not int(allowed) or pid not in ("", str(os.getpid())):
        return
    while True:
        notify("WATCHDOG=1")
        await clock.sleep(int(allowed) / 2_000_000)
