"""A PostgreSQL server of our own: as durable as it comes, on a free port of the loopback, gone with the run."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import asyncpg

from .processes import Failed

T = TypeVar("T")

# What the distribution ships, durability included; the library that counts statements is loaded for every system.
SETTINGS = (
    "fsync=on", "synchronous_commit=on", "full_page_writes=on", "max_connections=200", "listen_addresses=127.0.0.1",
    "unix_socket_directories=", "shared_preload_libraries=pg_stat_statements",
)  # fmt: skip
DATABASE = USER = "bench"
WATCHER = "watcher"  # our own role, so that our looks are told apart from the systems' statements
START_SECONDS, CALL_SECONDS = 30.0, 3600.0
_TICKS = os.sysconf("SC_CLK_TCK")


def program(name: str) -> str:
    """The path of a program of PostgreSQL, of the newest release that is there."""
    releases = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: float(path.parts[-3]))
    found = str(releases[-1]) if releases else shutil.which(name)
    if found is None:
        raise Failed(f"no {name} on this machine: apt-get install postgresql, or put initdb and postgres into PATH")
    return found


def _owner() -> str | None:
    """Whose the server is: root may not run one."""
    if os.geteuid() != 0:
        return None
    return "postgres" if "postgres" in {entry.pw_name for entry in pwd.getpwall()} else "nobody"


class Server:
    """Started when it is made."""

    def __init__(self) -> None:
        self._user = _owner()
        self._folder = Path(tempfile.mkdtemp(prefix="mainspring-bench-postgres-"))
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self._runner = asyncio.Runner()
        self._init()
        self._process = self._start()
        self._until_ready()
        self.rows("CREATE EXTENSION pg_stat_statements", database="postgres")
        self.rows(f"CREATE ROLE {USER} SUPERUSER LOGIN", database="postgres")

    def _init(self) -> None:
        command = [program("initdb"), "-D", f"{self._folder}/data", "-U", WATCHER, "-A", "trust", "-E", "UTF8"]
        made = subprocess.run(
            [*command, "--no-locale"], user=self._user, cwd=self._folder, capture_output=True, text=True, timeout=120
        )
        if made.returncode:
            raise Failed(f"initdb failed: {made.stderr}")

    def _start(self) -> subprocess.Popen[bytes]:
        command = [program("postgres"), "-D", f"{self._folder}/data", "-p", str(self._port)]
        for setting in SETTINGS:
            command += ["-c", setting]
        if setpriv := shutil.which("setpriv"):  # if we are killed, so is it
            command = [setpriv, "--pdeathsig", "QUIT", *command]
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(command, user=self._user, cwd=self._folder, stdout=log, stderr=log)

    def _until_ready(self) -> None:
        end = time.monotonic() + START_SECONDS
        while self._process.poll() is None and time.monotonic() < end:
            with suppress(Failed):
                self.rows("SELECT 1", database="postgres")
                return
            time.sleep(0.05)
        log = (self._folder / "log").read_text(errors="replace").splitlines()
        self.close()
        raise Failed(f"PostgreSQL did not start within {START_SECONDS:g} s; its log ends: {' | '.join(log[-3:])}")

    def close(self) -> None:
        """A fast shutdown, by its own pid."""
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(20)
        self._runner.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def dsn(self, database: str = DATABASE) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self._port}/{database}?sslmode=disable"

    def fresh(self, database: str = DATABASE) -> str:
        """The DSN of a database that holds nothing."""
        self.rows(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)", database="postgres")
        self.rows(f"CREATE DATABASE {database}", database="postgres")
        return self.dsn(database)

    def settle(self) -> None:
        """As after a quiet while: statistics are there, and no checkpoint is near."""
        self.rows("ANALYZE")
        self.rows("CHECKPOINT", database="postgres")

    def set(self, setting: str, value: str) -> None:
        """For the whole server, from now on."""
        self.rows(f"ALTER SYSTEM SET {setting} = {value}", database="postgres")
        self.rows("SELECT pg_reload_conf()", database="postgres")

    def rows(self, sql: str, *values: object, database: str = DATABASE) -> list[Any]:
        async def ask() -> list[Any]:
            connection = await self._connect(database)
            try:
                return await connection.fetch(sql, *values, timeout=CALL_SECONDS)
            finally:
                await connection.close()

        return self._run(ask())

    def value(self, sql: str, *values: object, database: str = DATABASE) -> Any:
        return self.rows(sql, *values, database=database)[0][0]

    def until(self, sql: str, wanted: Callable[[Any], bool], *, timeout: float) -> float:
        """When the query's one value is as wanted (Unix time); asks every few milliseconds."""

        async def ask() -> float:
            connection, end = await self._connect(DATABASE), time.monotonic() + timeout
            try:
                while not wanted(found := await connection.fetchval(sql)):
                    if time.monotonic() > end:
                        raise Failed(f"{sql}: still {found} after {timeout:g} s")
                    await asyncio.sleep(0.005)
                return time.time()
            finally:
                await connection.close()

        return self._run(ask())

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A transaction that somebody forgot: nothing that is deleted meanwhile can be cleaned away."""
        connection = self._run(self._connect(DATABASE))
        self._run(connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class"))
        try:
            yield
            self._run(connection.execute("SELECT 1"))  # it has been there all the time
        finally:
            self._run(connection.close())

    def statements(self) -> int:
        """How many the database has run, but for ours."""
        sql = """SELECT sum(calls)::bigint FROM pg_stat_statements JOIN pg_database ON oid = dbid
            WHERE datname = $1 AND userid = $2::text::regrole"""
        return self.value(sql, DATABASE, USER, database="postgres") or 0

    def forget(self) -> None:
        """What statements have cost so far."""
        self.rows("SELECT pg_stat_statements_reset()", database="postgres")

    def claims(self) -> tuple[float, float]:
        """What Mainspring's claims have cost the server, in milliseconds: on average, and the longest."""
        sql = """SELECT sum(total_exec_time) / sum(calls), max(max_exec_time) FROM pg_stat_statements
            WHERE query LIKE '%taken AS (UPDATE%'"""
        ((mean, longest),) = self.rows(sql, database="postgres")
        return mean, longest

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        try:
            return self._runner.run(call)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
            raise Failed(f"PostgreSQL: {error} ({type(error).__name__})") from error

    async def _connect(self, database: str) -> Any:
        return await asyncpg.connect(self.dsn(database), user=WATCHER, timeout=5)

    def cpu_seconds(self) -> float:
        """What the server and all its processes, past ones too, have worked."""
        while True:
            own, past, _ = _stat(self._process.pid)
            living = sum(spent for spent, _, parent in _stats() if parent == self._process.pid)
            if _stat(self._process.pid)[1] == past:  # else one has ended meanwhile, and may count twice or not at all
                return own + past + living


def _stats() -> list[tuple[float, float, int]]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                found.append(_stat(int(entry.name)))
    return found


def _stat(pid: int) -> tuple[float, float, int]:
    """CPU seconds of its own, those of its past children, and its parent."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system, past_user, past_system = map(int, words[11:15])
    return (user + system) / _TICKS, (past_user + past_system) / _TICKS, int(words[1])
