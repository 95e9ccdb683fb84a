"""Real servers for the tests, each on a port of its own and gone with the session."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

HOW = "apt-get install postgresql (scripts/test does so where it may), or put initdb and postgres into PATH"
HOW_POOLED = "apt-get install pgbouncer (scripts/test does so where it may), or put pgbouncer into PATH"
HOW_PROMETHEUS = "scripts/prometheus gets it, or put prometheus and promtool into PATH"
HOW_REDIS = "scripts/redis gets one, or put redis-server or valkey-server into PATH"
# The data is temporary: nothing has to reach the disk.
SETTINGS = ("fsync=off", "full_page_writes=off", "listen_addresses=127.0.0.1", "unix_socket_directories=",
            "max_connections=100", "shared_buffers=64MB", "autovacuum_naptime=5s")  # fmt: skip
FIRST_WORD = 30.0


RELEASES = ("15", "16", "17", "18")
CACHE = Path(__file__).parent.parent / ".cache" / "postgres"
# The default release of the tests; None: the newest that is installed.
CHOSEN = os.environ.get("MAINSPRING_TEST_POSTGRES")
REDIS_CACHE = CACHE.with_name("redis")
# A program, or a folder of .cache/redis such as valkey-9; None: the one in PATH, or the newest in that cache.
CHOSEN_REDIS = os.environ.get("MAINSPRING_TEST_REDIS")


def program(name: str, release: str | None = None) -> str:
    """The path of a program of PostgreSQL, of this release, or of the newest that is installed."""
    if release is not None:
        places = [Path("/usr/lib/postgresql", release, "bin", name), CACHE / release / "bin" / name]
        if not (there := [str(path) for path in places if path.exists()]):
            raise RuntimeError(f"the tests need PostgreSQL {release}: scripts/postgres-releases fetches it")
        return there[0]
    releases = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: float(path.parts[-3]))
    found = str(releases[-1]) if releases else shutil.which(name)
    if found is None:
        raise RuntimeError(f"the tests need PostgreSQL, and there is no {name} on this machine: {HOW}")
    return found


def redis_program(chosen: str | None = CHOSEN_REDIS) -> str:
    """The path of a server of Redis or Valkey: the one chosen, or any."""
    names = ("redis-server", "valkey-server")
    if chosen is not None:
        places = [Path(chosen), *(REDIS_CACHE / chosen / "bin" / name for name in names)]
    else:
        in_path = [Path(path) for name in names if (path := shutil.which(name))]
        fetched = [path for name in names for path in REDIS_CACHE.glob(f"*-*/bin/{name}")]
        places = in_path + sorted(fetched, key=lambda path: float(path.parts[-3].rpartition("-")[2]), reverse=True)
    for path in places:
        if path.is_file():
            return str(path)
    raise RuntimeError(f"the tests need Redis, and there is no {chosen or names[0]} on this machine: {HOW_REDIS}")


def owner() -> str | None:
    """The user of the server process: root may not run one."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


class Postgres:
    """A PostgreSQL server in a temporary folder."""

    def __init__(self, release: str | None = CHOSEN) -> None:
        self._release = release
        self._folder = Path(tempfile.mkdtemp(prefix="mainspring-postgres-"))
        self._user = owner()
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        self.port = free_port()
        self._make()
        # In a thread, so that a test may ask from inside its own loop; the server lives no longer than this thread.
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.start()
        self._connection: Any = self._wait(asyncpg.connect(self.dsn))
        self._tables: dict[str, list[str]] = {}

    def _make(self) -> None:
        """Unpacks the first cluster that this program has made: initdb takes a second of CPU, this a tenth."""
        initdb = program("initdb", self._release)
        key = hashlib.sha256(f"{initdb} {os.stat(initdb).st_mtime_ns}".encode()).hexdigest()[:16]
        packed = CACHE / f"cluster-{key}.tar"
        if not packed.exists():
            self._run([initdb, "-D", "data", "-U", "tests", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"])
            self._pack(packed)
            return
        with packed.open("rb") as cluster:
            self._run(["tar", "-xf", "-"], stdin=cluster)

    def _pack(self, packed: Path) -> None:
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=CACHE, delete=False) as part:
            self._run(["tar", "-cf", "-", "data"], stdout=part)
        os.rename(part.name, packed)  # whole, for others that begin at the same time

    def _run(self, command: list[str], **files: Any) -> None:
        given = {"stdout": subprocess.DEVNULL, **files}
        made = subprocess.run(
            command, user=self._user, cwd=self._folder, stderr=subprocess.PIPE, text=True, timeout=60, **given
        )
        if made.returncode:
            raise RuntimeError(f"{command[0]} failed: {made.stderr}")

    def start(self, *settings: str) -> None:
        """Serves when it returns; `settings` come after those of every start."""
        self._wait(self._spawn(*SETTINGS, *settings))
        self._until_ready()

    async def _spawn(self, *settings: str) -> None:
        command = [program("postgres", self._release), "-D", f"{self._folder}/data", "-p", str(self.port)]
        for setting in settings:
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

    def crash(self) -> None:
        """An immediate shutdown: nothing is finished, and the next start recovers."""
        self._wait(self._hang_up())
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(20)

    async def _hang_up(self) -> None:
        self._connection.terminate()

    def close(self) -> None:
        self._wait(self._connection.close(timeout=5))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        self.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    # for tests

    @property
    def log(self) -> Path:
        return self._folder / "log"

    @property
    def dsn(self) -> str:
        return f"postgresql://tests@127.0.0.1:{self.port}/postgres?sslmode=disable"

    def _wait(self, call: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(30)

    def run(self, sql: str) -> list[Any]:
        if self._connection.is_closed():  # the server was restarted
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
        self._tables.pop(schema, None)
        self.run(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        return f"{self.dsn}&schema={schema}"


class PgBouncer:
    """A pooler in front of a server, with fewer connections to it than its clients have to the pooler."""

    def __init__(self, server: Postgres, mode: str = "transaction", size: int = 2, **settings: str) -> None:
        self.program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")
        if self.program is None:
            raise RuntimeError(f"the tests need PgBouncer, and there is no pgbouncer on this machine: {HOW_POOLED}")
        self._server, self._user, self.port = server, owner(), free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="mainspring-pgbouncer-"))
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        (self._folder / "users").write_text('"tests" ""\n')
        said = {
            "listen_addr": "127.0.0.1", "listen_port": str(self.port), "unix_socket_dir": "", "auth_type": "trust",
            "auth_file": f"{self._folder}/users", "pool_mode": mode, "default_pool_size": str(size),
            "max_client_conn": "200", "admin_users": "tests", **settings,
        }  # fmt: skip
        lines = ["[databases]", f"* = host=127.0.0.1 port={server.port}", "[pgbouncer]"]
        lines += [f"{name} = {value}" for name, value in said.items()]
        (self._folder / "pgbouncer.ini").write_text("\n".join(lines))
        self.start()

    def start(self) -> None:
        command = [str(self.program), f"{self._folder}/pgbouncer.ini"]
        if setpriv := shutil.which("setpriv"):  # if we are killed, so is it
            command = [setpriv, "--pdeathsig", "KILL", *command]
        with (self._folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, user=self._user, cwd=self._folder, stdout=log, stderr=log)
        end = time.monotonic() + FIRST_WORD
        while self.process.poll() is None and time.monotonic() < end:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 5):
                return
            time.sleep(0.02)
        self.end()
        raise RuntimeError(f"PgBouncer did not start: {(self._folder / 'log').read_text()}")

    def end(self) -> None:
        """At once, by its own pid."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(20)

    def close(self) -> None:
        self.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def through(self, url: str) -> str:
        """The same store, through the pooler."""
        return url.replace(f":{self._server.port}/", f":{self.port}/")


class Redis:
    """A Redis or Valkey server in a temporary folder; it does not persist by default."""

    def __init__(
        self, chosen: str | None = CHOSEN_REDIS, *, port: int | None = None, appendonly: bool = False, **settings: str
    ) -> None:
        self._program = redis_program(chosen)
        self._settings = {"bind": "127.0.0.1", "save": "", "appendonly": "yes" if appendonly else "no", **settings}
        self._folder = Path(tempfile.mkdtemp(prefix="mainspring-redis-"))
        self.port = port or free_port()
        # The server lives no longer than the thread that started it, and a test's may end early.
        self._hands = ThreadPoolExecutor(1)
        self.start()

    def start(self, **settings: str) -> None:
        """Returns when it serves, with its persisted data; `settings` are for this start only."""
        self._hands.submit(self._spawn, self._settings | settings).result(FIRST_WORD)
        self._until_ready()

    def _spawn(self, settings: dict[str, str]) -> None:
        command = self._command(settings)
        if setpriv := shutil.which("setpriv"):  # if we are killed, so is it
            command = [setpriv, "--pdeathsig", "KILL", *command]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log)

    def _command(self, settings: dict[str, str]) -> list[str]:
        command = [self._program, "--port", str(self.port), "--dir", str(self._folder)]
        for name, value in settings.items():
            command += [f"--{name.replace('_', '-')}", value]
        return command

    def _until_ready(self) -> None:
        self._client: Any = redis.Redis(port=self.port, socket_timeout=FIRST_WORD, retry=Retry(NoBackoff(), 0))
        end = time.monotonic() + FIRST_WORD
        while self.process.poll() is None and time.monotonic() < end:
            try:
                self.run("PING")
            except redis.ConnectionError:  # not started yet, or it loads its persisted data
                time.sleep(0.01)
            else:
                return
        said = self.log.read_text()
        self.close()
        raise RuntimeError(f"{self._program} did not start: {said}")

    def end(self) -> None:
        """In good order, by its own pid."""
        self._client.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(20)

    def crash(self) -> None:
        """kill -9, by its own pid."""
        self._client.close()
        self.process.kill()
        self.process.wait(20)

    def close(self) -> None:
        self.end()
        self._hands.shutdown()
        shutil.rmtree(self._folder, ignore_errors=True)

    # for tests

    @property
    def log(self) -> Path:
        return self._folder / "log"

    def url(self, prefix: str = "mainspring") -> str:
        return f"redis://127.0.0.1:{self.port}/0?prefix={prefix}"

    def run(self, *command: str | bytes | int | float) -> Any:
        return self._client.execute_command(*command)

    def fresh(self, prefix: str = "fresh") -> str:
        """The URL of an empty store; those with another prefix are left alone."""
        if keys := self.run("KEYS", f"{{{prefix}}}:*"):
            self.run("UNLINK", *keys)
        return self.url(prefix)


def prometheus_program(name: str) -> str:
    """The path of prometheus or promtool."""
    if (found := shutil.which(name)) is None:
        raise RuntimeError(f"the tests need Prometheus, and there is no {name} on this machine: {HOW_PROMETHEUS}")
    return found


class Prometheus:
    """A Prometheus with this configuration, which may name files in `folder`; `ask` is its HTTP API."""

    def __init__(self, config: str, folder: Path) -> None:
        (folder / "prometheus.yml").write_text(config)
        self.port = free_port()
        self._log = (folder / "prometheus.log").open("wb")
        self._process = subprocess.Popen(
            [prometheus_program("prometheus"), f"--config.file={folder}/prometheus.yml",
             f"--storage.tsdb.path={folder}/tsdb", f"--web.listen-address=127.0.0.1:{self.port}"],
            stdout=self._log, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def ask(self, path: str, **parameters: str) -> Any:
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}", timeout=10) as answer:
            return json.load(answer)["data"]

    def until(self, holds: Callable[[], Any]) -> Any:
        """Returns its answer once that is not empty; the times of its scrapes are its own."""
        end = time.monotonic() + FIRST_WORD
        while True:
            with suppress(OSError):
                if said := holds():
                    return said
            if time.monotonic() > end or self._process.poll() is not None:
                raise RuntimeError(f"Prometheus does not say so: {Path(self._log.name).read_text()[-2000:]}")
            time.sleep(0.05)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()
