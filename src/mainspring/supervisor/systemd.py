"""Notifications to systemd for a service of Type=notify."""

from __future__ import annotations

import logging
import os
import socket

from ..clock import Clock

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
_logger = logging.getLogger("mainspring")


def notify(state: str) -> None:
    """Sends READY=1, STOPPING=1 or WATCHDOG=1, if systemd has given a socket for it."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
            connection.settimeout(1.0)
            connection.sendto(state.encode(), f"\0{path[1:]}" if path.startswith("@") else path)
    except OSError as error:
        _logger.warning("systemd did not receive %s at %s: %s", state, path, error)


async def notify_watchdog(clock: Clock) -> None:
    """Sends WATCHDOG=1 twice per interval that systemd allows, as long as the event loop runs."""
    allowed, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not allowed.isdecimal() or not int(allowed) or pid not in ("", str(os.getpid())):
        return
    while True:
        notify("WATCHDOG=1")
        await clock.sleep(int(allowed) / 2_000_000)
