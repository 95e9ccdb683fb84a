"""Redis servers of our own: one, or the masters of a cluster, in memory only, on free ports of the loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import redis

from .processes import Failed

# Nothing is written to the disk: what is measured is the server and its clients.
SETTINGS = ("--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
SLOTS = 16_384
START_SECONDS, CALL_SECONDS = 30.0, 60.0
_TICKS = os.sysconf("SC_CLK_TCK")


def program() -> str:
    """The server's path: BENCH_REDIS, or the one in PATH."""
    asked = os.environ.get("BENCH_REDIS", "redis-server")
    found = shutil.which(asked)
    if found is None:
        raise Failed(f"no {asked} on this machine: apt-get install redis-server, or name one by BENCH_REDIS")
    return found


def _free_port() -> int:
    """Low enough for the bus of a cluster, which takes the port 10,000 above."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = int(free.getsockname()[1])
        if port + 10_000 < 2**16:
            return port


class Redis:
    """Started when it is made."""

    def __init__(self, *settings: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="mainspring-bench-redis-"))
        self.port = _free_port()
        self._process = self._start(settings)
        self._client: Any = redis.Redis(port=self.port, socket_timeout=CALL_SECONDS)
        self._until_ready()

    def _start(self, settings: tuple[str, ...]) -> subprocess.Popen[bytes]:
        command = [program(), "--port", str(self.port), "--dir", str(self._folder), *SETTINGS, *settings]
        if setpriv := shutil.which("setpriv"):  # if we are killed, so is it
            command = [setpriv, "--pdeathsig", "KILL", *command]
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log)

    def _until_ready(self) -> None:
        end = time.monotonic() + START_SECONDS
        while self._process.poll() is None and time.monotonic() < end:
            with suppress(Failed):
                self.call("PING")
                return
            time.sleep(0.02)
        log = (self._folder / "log").read_text(errors="replace").splitlines()
        self.close()
        raise Failed(f"Redis did not start within {START_SECONDS:g} s; its log ends: {' | '.join(log[-3:])}")

    def close(self) -> None:
        """By its own pid; there is nothing to keep."""
        self._client.close()
        self._process.kill()
        self._process.wait(20)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def fresh(self) -> str:
        """The URL of a server that holds nothing, and has counted nothing."""
        for command in (("FLUSHALL", "SYNC"), ("SCRIPT", "FLUSH"), ("CONFIG", "RESETSTAT")):
            self.call(*command)
        return self.url

    def call(self, *words: object) -> Any:
        try:
            return self._client.execute_command(*words)
        except (redis.RedisError, OSError) as error:
            raise Failed(f"Redis: {error} ({type(error).__name__})") from error

    def info(self, section: str) -> dict[str, Any]:
        return self.call("INFO", section)

    def commands(self) -> int:
        """How many it has run, those inside of scripts and this one included."""
        return self.info("stats")["total_commands_processed"]

    def until(self, look: Callable[[], int], *, timeout: float) -> float:
        """When `look` finds nothing left (Unix time); looks every few milliseconds."""
        end = time.monotonic() + timeout
        while left := look():
            if time.monotonic() > end:
                raise Failed(f"{left:,} jobs still unfinished in Redis after {timeout:g} s")
            time.sleep(0.005)
        return time.time()

    def cpu_seconds(self) -> float:
        words = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / _TICKS


class Cluster:
    """So many masters that share the slots evenly, and no replicas; all of them know it when it is made."""

    def __init__(self, masters: int) -> None:
        self.masters: list[Redis] = []
        try:
            for _ in range(masters):
                self.masters.append(Redis("--cluster-enabled", "yes", "--cluster-node-timeout", "15000"))
            self._join()
            self._until_agreed()
        except BaseException:
            self.close()
            raise

    def _join(self) -> None:
        first, *others = self.masters
        ends = [SLOTS * n // len(self.masters) for n in range(len(self.masters) + 1)]
        for master, low, high in zip(self.masters, ends, ends[1:], strict=False):
            master.call("CLUSTER", "ADDSLOTS", *range(low, high))  # ADDSLOTSRANGE is for 7.0 and newer only
        for other in others:
            first.call("CLUSTER", "MEET", "127.0.0.1", other.port)

    def _until_agreed(self) -> None:
        end = time.monotonic() + START_SECONDS
        while not all(self._agrees(master) for master in self.masters):
            if time.monotonic() > end:
                raise Failed(f"{len(self.masters)} masters did not become a cluster within {START_SECONDS:g} s")
            time.sleep(0.02)

    def _agrees(self, master: Redis) -> bool:
        said = master.call("CLUSTER INFO")
        return said["cluster_state"] == "ok" and int(said["cluster_known_nodes"]) == len(self.masters)

    def close(self) -> None:
        for master in self.masters:
            master.close()

    @property
    def url(self) -> str:
        return f"redis+cluster://127.0.0.1:{self.masters[0].port}/"

    def fresh(self) -> str:
        """The URL of a cluster that holds nothing."""
        for master in self.masters:
            master.fresh()
        return self.url

    def cpu_seconds(self) -> float:
        return sum(master.cpu_seconds() for master in self.masters)
