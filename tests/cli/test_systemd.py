"""Notifications to systemd over a real datagram socket."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

TIMEOUT_SECONDS = 30.0


class Systemd:
    """The other end of $NOTIFY_SOCKET."""

    def __init__(self, address: str) -> None:
        self.name = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address.replace("@", "\0", 1) if address.startswith("@") else address)
        self._socket.settimeout(TIMEOUT_SECONDS)

    def hear(self) -> str:
        return self._socket.recv(4096).decode()

    def rest(self) -> list[str]:
        """The messages that have arrived since, without waiting."""
        self._socket.setblocking(False)
        heard = []
        while True:
            try:
                heard.append(self.hear())
            except BlockingIOError:
                return heard

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def systemd(here: Path) -> Iterator[Callable[[str], Systemd]]:
    opened: list[Systemd] = []

    def listen(address: str = str(here / "notify")) -> Systemd:
        opened.append(Systemd(address))
        return opened[-1]

    yield listen
    for one in opened:
        one.close()


@pytest.mark.parametrize("abstract", [False, True])
def test_worker_notifies_systemd_when_it_is_ready_and_when_it_stops(process, shop, systemd, here, abstract):
    listener = systemd(f"@mainspring-{os.getpid()}") if abstract else systemd()
    worker = process("worker", shop, NOTIFY_SOCKET=listener.name)
    assert listener.hear() == "READY=1"
    worker.signal(signal.SIGTERM)
    assert worker.end()[0] == 0
    assert listener.rest() == ["STOPPING=1"]


def test_supervisor_notifies_systemd_once_when_all_processes_are_ready(process, shop, systemd):
    listener = systemd()
    team = process("worker", shop, "--workers", "2", NOTIFY_SOCKET=listener.name)
    assert listener.hear() == "READY=1"
    starts = [team.line(" on sqlite").partition(" ")[0] for _ in range(3)]
    assert sorted(starts) == ["supervisor", "worker", "worker"]
    team.signal(signal.SIGTERM)
    assert team.end()[0] == 0
    assert listener.rest() == ["STOPPING=1"]


def test_recycled_worker_does_not_notify_systemd_that_it_stops(process, shop, systemd, enqueued):
    listener = systemd()
    worker = process("worker", shop, NOTIFY_SOCKET=listener.name, MAINSPRING_RECYCLE_JOBS="1")
    assert listener.hear() == "READY=1"
    enqueued("add", "a=1")
    assert listener.hear() == "READY=1"
    worker.signal(signal.SIGTERM)
    assert worker.end()[0] == 0
    assert listener.rest() == ["STOPPING=1"]


def test_worker_stopped_by_an_operator_notifies_systemd(process, cli, shop, systemd):
    listener = systemd()
    worker = process("worker", shop, NOTIFY_SOCKET=listener.name)
    assert listener.hear() == "READY=1"
    assert cli("workers", "stop", "--all", "--yes", "--app", shop).exit_code == 0
    assert worker.end()[0] == 0
    assert listener.rest() == ["STOPPING=1"]


@pytest.mark.parametrize("count", ["1", "2"])
def test_running_worker_sends_systemd_watchdog_notifications(process, shop, systemd, count):
    listener = systemd()
    worker = process("worker", shop, "--workers", count, NOTIFY_SOCKET=listener.name, WATCHDOG_USEC="100000")
    heard = [listener.hear() for _ in range(6)]
    assert heard.count("WATCHDOG=1") >= 5
    worker.signal(signal.SIGTERM)
    assert worker.end()[0] == 0


def test_systemd_watchdog_of_another_process_is_ignored(process, shop, systemd):
    listener = systemd()
    worker = process("worker", shop, NOTIFY_SOCKET=listener.name, WATCHDOG_USEC="1000", WATCHDOG_PID="1")
    assert listener.hear() == "READY=1"
    worker.signal(signal.SIGTERM)
    assert worker.end()[0] == 0
    assert listener.rest() == ["STOPPING=1"]


def test_worker_runs_if_systemd_does_not_receive_its_notifications(process, shop, here):
    worker = process("worker", shop, NOTIFY_SOCKET=str(here / "nobody"))
    worker.line(" on sqlite")
    worker.logged("systemd did not receive READY=1")
    worker.signal(signal.SIGTERM)
    assert worker.end()[0] == 0
