"""Stores as files of the repository: dumps of a SQLite file, a PostgreSQL schema and Redis keys, and the way back."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
import subprocess
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

from servers import Postgres, Redis, program

SCHEMA, PREFIX = "golden", "golden"
SQLITE, POSTGRES, REDIS, CLUSTER = "sqlite.db.gz", "postgres.sql", "redis.json", "redis-cluster.json.gz"
EXPECTED, VALUES = "expected.json", "values.json"
# Lines of a dump that differ between releases of pg_dump, or that an older server does not know.
_PASSING = re.compile(r"^(\\(un)?restrict .*|SET transaction_timeout.*|-- Dumped .*|--.*|)\n", re.MULTILINE)
# What a release cannot decode, as the options of a job and the body of a schedule.
BROKEN = '{"timeout":[],"name":[]}'


# SQLite


async def spoil_sqlite(path: Path, what: str, name: str) -> None:
    """`what` is "schedule", or the kind and the queue of a job. Only Redis has an index apart from its records."""
    with sqlite3.connect(path, timeout=30) as db:
        if what == "schedule":
            db.execute("UPDATE mainspring_schedules SET body = ? WHERE name = ?", (BROKEN, name))
        else:
            db.execute("UPDATE mainspring_jobs SET options = ? WHERE id = ?", (BROKEN, name))
    db.close()


def dump_sqlite(path: Path) -> bytes:
    """The file, as it is after everything was written into it."""
    with sqlite3.connect(path, isolation_level=None) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return gzip.compress(path.read_bytes(), 9, mtime=0)


def load_sqlite(folder: Path, path: Path) -> str:
    path.write_bytes(gzip.decompress((folder / SQLITE).read_bytes()))
    return f"sqlite:///{path}"


# PostgreSQL


async def spoil_postgres(server: Postgres, what: str, name: str) -> None:
    db = await asyncpg.connect(server.dsn)
    try:
        if what == "schedule":
            await db.execute(f"UPDATE {SCHEMA}.mainspring_schedules SET body = $1 WHERE name = $2", BROKEN, name)
        else:
            await db.execute(f"UPDATE {SCHEMA}.mainspring_jobs SET options = $1 WHERE id = $2", BROKEN, name)
    finally:
        await db.close()


def dump_postgres(server: Postgres) -> str:
    command = [program("pg_dump"), "--schema", SCHEMA, "--no-owner", "--no-privileges", "--inserts", "--dbname"]
    url = server.dsn.replace("?sslmode=disable", "")
    text = subprocess.run([*command, url], capture_output=True, text=True, check=True, timeout=60).stdout
    return _sorted_rows(_PASSING.sub("", text))


def _sorted_rows(text: str) -> str:
    """The rows of each table in order: the server's own depends on when it has vacuumed."""
    runs = groupby(text.splitlines(keepends=True), lambda line: line.startswith("INSERT INTO "))
    return "".join(line for rows, lines in runs for line in (sorted(lines) if rows else lines))


async def load_postgres(folder: Path, server: Postgres) -> str:
    url = server.own(SCHEMA)
    db = await asyncpg.connect(server.dsn)
    try:
        await db.execute((folder / POSTGRES).read_text(encoding="utf-8"))
    finally:
        await db.close()
    return url


# Redis

_READ: dict[bytes, tuple[str, ...]] = {
    b"hash": ("HGETALL",),
    b"list": ("LRANGE", "0", "-1"),
    b"set": ("SMEMBERS",),
    b"zset": ("ZRANGE", "0", "-1", "WITHSCORES"),
    b"string": ("GET",),
}


def packed(id: str) -> bytes:
    return bytes.fromhex(id.replace("-", ""))


async def spoil_redis(node: Callable[[str], Redis], base: Callable[[str], str], what: str, name: str) -> None:
    """`base` finds where the jobs of a queue are, `node` the server of a key."""
    kind, _, queue = what.partition(":")
    key = f"{base(queue)}:{kind}"
    if kind == "schedule":
        node(key).run("HSET", key, name, BROKEN)
    elif kind == "index":  # a member of the order of claims that is no job
        group = f"{queue}\0{name}"
        node(key).run("ZADD", f"{base(queue)}:ready:{group}", 0, "short")
        node(key).run("SADD", f"{base(queue)}:stocked", group)
    else:
        record = node(key).run("HGET", key, packed(name))
        *values, _, payload = msgspec.msgpack.decode(record[1:])
        node(key).run("HSET", key, packed(name), record[:1] + msgspec.msgpack.encode((*values, BROKEN, payload)))


def dump_redis(nodes: Iterable[Redis]) -> str:
    """Every key of the store; texts have a character for each byte."""
    found = {}
    for node in nodes:
        for key in node.run("KEYS", f"{{{PREFIX}*"):
            kind = node.run("TYPE", key)
            command, *rest = _READ[kind]
            found[key.decode("latin-1")] = _dumped(kind, node.run(command, key, *rest))
    return json.dumps(dict(sorted(found.items())), indent=1) + "\n"


def _dumped(kind: bytes, value: Any) -> Any:
    match kind:
        case b"hash":
            return {
                "hash": dict(sorted((name.decode("latin-1"), one.decode("latin-1")) for name, one in value.items()))
            }
        case b"list":
            return {"list": [one.decode("latin-1") for one in value]}
        case b"set":
            return {"set": sorted(one.decode("latin-1") for one in value)}
        case b"zset":
            pairs = [(one.decode("latin-1"), score) for one, score in value]
            return {"zset": {one: int(score) if score == int(score) else score for one, score in pairs}}
    return {"string": value.decode("latin-1")}


def read_redis(file: Path) -> dict[str, dict[str, Any]]:
    data = file.read_bytes()
    found: dict[str, dict[str, Any]] = json.loads(gzip.decompress(data) if file.suffix == ".gz" else data)
    return found


def load_redis(file: Path, node: Callable[[str], Redis]) -> None:
    """Writes every key where it belongs."""
    for key, value in read_redis(file).items():
        ((kind, content),) = value.items()
        name, run = key.encode("latin-1"), node(key).run
        match kind:
            case "hash":
                run("HSET", name, *(word.encode("latin-1") for pair in content.items() for word in pair))
            case "list":
                run("RPUSH", name, *(word.encode("latin-1") for word in content))
            case "set":
                run("SADD", name, *(word.encode("latin-1") for word in content))
            case "zset":
                run("ZADD", name, *(word for one, score in content.items() for word in (score, one.encode("latin-1"))))
            case "string":
                run("SET", name, content.encode("latin-1"))


# What a process that dies in the middle of a two-phase commit leaves behind.

UNDECIDED, DECIDED = "golden-undecided", "golden-decided"
LONG_AGO_SECONDS = 1_700_000_000


def leave_steps(leader: str, other: str, node: Callable[[str], Redis]) -> None:
    """Two steps over two shards: of one nothing is decided, the other is decided and not written everywhere."""
    for name in (UNDECIDED, DECIDED):
        step = f"{leader} {name}"
        for base in (leader, other):
            if (name, base) == (DECIDED, leader):  # written here when it was decided
                node(base).run("HSET", f"{base}:decided", step, f"{leader} {other}")
                node(base).run("HSET", f"{base}:meta", name, "1")
                continue
            words = ["1", f"{base}:meta", name, "-", "", "4", "HSET", f"{base}:meta", name, "1"]
            node(base).run("HSET", f"{base}:promise", step, msgspec.msgpack.encode(words))
            node(base).run("HSET", f"{base}:lock", f"{base}:meta\0{name}", step)
            node(base).run("ZADD", f"{base}:promised", LONG_AGO_SECONDS, step)
