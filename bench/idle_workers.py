"""What many idle workers cost a PostgreSQL server: statements, connections, and the CPU time of both sides.

Usage: python -m bench.idle_workers postgresql://… [--workers 200] [--seconds 60]. The database is empty, on this
machine, and has pg_stat_statements in shared_preload_libraries. Each worker is a process of its own, with 500 slots.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import asyncpg

WORKER = """
import asyncio, sys
from mainspring import Mainspring

app = Mainspring(sys.argv[1])

@app.task
async def echo(text: str) -> str:
    return text

async def main() -> None:
    async with app:
        await app.worker(concurrency=500).run()

asyncio.run(main())
"""
# Processes that start at the same time.
STARTING = 10
# Until connections that only the start needed are closed again.
SETTLE_SECONDS = 45.0
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
STATEMENTS = """SELECT sum(calls) AS calls, sum(total_exec_time) / 1000 AS seconds FROM pg_stat_statements
    JOIN pg_database ON pg_database.oid = dbid WHERE datname = current_database() AND query NOT LIKE '%pg_stat%'"""
BACKENDS = """SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'mainspring'"""
ALIVE = "SELECT count(*) FROM mainspring_workers"


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU time that these processes have used."""
    found = 0.0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            continue
        found += (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
    return found


def resident_megabytes(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def start(url: str, count: int) -> list[subprocess.Popen[bytes]]:
    return [subprocess.Popen([sys.executable, "-c", WORKER, url]) for _ in range(count)]


async def alive(connection: Any) -> int:
    try:
        found: int = await connection.fetchval(ALIVE)
    except asyncpg.UndefinedTableError:  # the first worker makes the tables
        return 0
    return found


async def measure(url: str, workers: list[subprocess.Popen[bytes]], count: int, seconds: float) -> dict[str, float]:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        while len(workers) < count:
            workers += start(url, min(STARTING if workers else 1, count - len(workers)))
            while await alive(connection) < len(workers):
                if any(worker.poll() is not None for worker in workers):
                    raise SystemExit("a worker has ended")
                await asyncio.sleep(0.2)
        await asyncio.sleep(SETTLE_SECONDS)
        await connection.execute("SELECT pg_stat_statements_reset()")
        backends = [pid for (pid,) in await connection.fetch(BACKENDS)]
        pids = [worker.pid for worker in workers]
        before, server, own = time.monotonic(), cpu_seconds(backends), cpu_seconds(pids)
        await asyncio.sleep(seconds)
        minutes = (time.monotonic() - before) / 60
        server, own = cpu_seconds(backends) - server, cpu_seconds(pids) - own
        calls, executing = await connection.fetchrow(STATEMENTS)
        return {
            "workers": count,
            "connections": len(await connection.fetch(BACKENDS)),
            "statements a minute and worker": float(calls) / minutes / count,
            "execution ms a minute and worker": 1000 * executing / minutes / count,
            "server CPU % of a core": 100 * server / minutes / 60,
            "worker CPU ms a minute": 1000 * own / minutes / count,
            "resident MB of a worker": sum(map(resident_megabytes, pids)) / count,
        }
    finally:
        await connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.idle_workers", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("url")
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    workers = list[subprocess.Popen[bytes]]()
    try:
        found = asyncio.run(measure(options.url, workers, options.workers, options.seconds))
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait(60)
    for name, value in found.items():
        print(f"{name:36}{value:12,.1f}")


if __name__ == "__main__":
    main()
