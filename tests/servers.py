"""Real servers for the tests, each on a port of its own and gone with the session."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import asyncpg

HOW = "apt-get install postgresql (scripts/test does so where it may), or put initdb and postgres into PATH"
# What is written is thrown away: nothing has to reach the disk.
SETTINGS = ("fsync=off", "full_page_writes=off", "listen_addresses=127.0.0.1", "unix_socket_directories=",
            "max_connections=100", "shared_buffers=64MB", "autovacuum_naptime=5s")  # fmt: skip
FIRST_WORD = 30.0


def program(name: str) -> str:
    """The path of a program of PostgreSQL, of the newest release that is there."""
    releases = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: float(path.parts[-3]))
    found = str(releases[-1]) if releases else shutil.which(name)
    if found is None:
        raise RuntimeError(f"the tests need PostgreSQL, and there is no {name} on this machine: {HOW}")
    return found


def owner() -> str | None:
    """Whose the server is: root may not run one."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


class Postgres:
    """A PostgreSQL server in a temporary folder."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="mainspring-postgres-"))
        self._user = owner()
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._make()
        # In a thread, so that a test may ask from inside its own loop; the server lives no longer than this thread.
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.start()
        self._connection: Any = self._wait(asyncpg.connect(self.dsn))
        self._tables: dict[str, list[str]] = {}

    def _make(self) -> None:
        command = [program("initdb"), "-D", f"{self._folder}/data", "-U", "tests", "-A", "trust", "-E", "UTF8",
                   "--no-locale", "--no-sync"]  # fmt: skip
        made = subprocess.run(command, user=self._user, cwd=self._folder, capture_output=True, text=True, timeout=60)
        if made.returncode:
            raise RuntimeError(f"initdb failed: {made.stderr}")

    def start(self) -> None:
        self._wait(self._spawn())
        self._until_ready()

    async def _spawn(self) -> None:
        command = [program("postgres"), "-D", f"{self._folder}/data", "-p", str(self.port)]
        for setting in SETTINGS:
            command += ["-c", setting]
        if setpriv := shutil.which("setpriv"):  # if we are killed, so is it
            command = [setpriv, "--pdeathsig", "QUIT", *command]
        with (self._folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, user=self._user, cwd=self._folder, stdout=log, stderr=log)

    def _until_ready(self) -> None:
        end = time.monotonic() + FIRST_WORD
        while self.process.poll() is None and time.monotonic() < end:
            try:
                self._wait(self._greet())
            except (OSError, asyncpg.CannotConnectNowError):
                time.sleep(0.05)
            else:
                return
        self.end()
        raise RuntimeError(f"PostgreSQL did not start: {(self._folder / 'log').read_text()}")

    async def _greet(self) -> None:
        await (await asyncpg.connect(self.dsn, timeout=5)).close()

    def end(self) -> None:
        """A fast shutdown, by its own pid."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(20)

    def close(self) -> None:
        self._wait(self._connection.close(timeout=5))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        self.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    # for tests

    @property
    def dsn(self) -> str:
        return f"postgresql://tests@127.0.0.1:{self.port}/postgres?sslmode=disable"

    def _wait(self, call: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(30)

    def run(self, sql: str) -> list[Any]:
        if self._connection.is_closed():  # the server was started anew
            self._connection = self._wait(asyncpg.connect(self.dsn))
        return self._wait(self._connection.fetch(sql))

    def fresh(self, schema: str = "fresh") -> str:
        """The URL of an empty store. Emptying its tables costs a tenth of making them."""
        sql = f"""SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('{schema}')
            AND relkind IN ('r', 'p') AND NOT relispartition AND relname NOT LIKE '%schema'"""
        tables = self._tables.get(schema) or [name for (name,) in self.run(sql)]
        self._tables[schema] = tables
        if tables:
            gone = ", ".join(f"gone_{n} AS (DELETE FROM {schema}.{name})" for n, name in enumerate(tables))
            self.run(f"WITH {gone} SELECT 1")
        return f"{self.dsn}&schema={schema}"

    def own(self, schema: str) -> str:
        """The URL of a store that is not there yet."""
        self.run(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        return f"{self.dsn}&schema={schema}"
