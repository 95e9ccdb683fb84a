"""POST /jobs with wrk: python -m bench.service STORE …, e.g. sqlite:///bench.db postgresql://…

Each round measures a handler that does nothing in the same process first, so that a busy machine shows.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mainspring import Mainspring

ROUNDS, SECONDS, CONNECTIONS = 3, 5, 32
SCRIPT = """
wrk.method = "POST"
wrk.body = '{"task":"send","arguments":{"to":"alice@example.com","subject":"hello"}}'
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer " .. os.getenv("KEY")
done = function(summary, latency)
  io.write("refused ", summary.errors.status, " p99 ", latency:percentile(99), "\\n")
end
"""


async def fresh_key(store: str) -> str:
    async with Mainspring(store) as app:
        if "bench" in [key.name for key in await app.keys.list()]:
            await app.keys.revoke("bench")
        return str(await app.keys.create("bench", "operator"))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def served(store: str, port: int) -> Iterator[int]:
    """One process of uvicorn; its id."""
    options = [
        "--port",
        str(port),
        "--log-level",
        "error",
        "--no-access-log",
        "--loop",
        "uvloop",
        "--http",
        "httptools",
    ]
    command = [sys.executable, "-m", "uvicorn", "bench.apps.service_app:both", *options]
    server = subprocess.Popen(command, env={**os.environ, "MAINSPRING_STORE": store})
    try:
        _until_ready(port)
        yield server.pid
    finally:
        server.terminate()
        server.wait(30)


def _until_ready(port: int) -> None:
    for _ in range(200):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health/live", timeout=5)
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server does not answer")


def cpu(pid: int) -> float:
    """Seconds that a process has used."""
    used = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(used[11]) + int(used[12])) / os.sysconf("SC_CLK_TCK")


def measure(url: str, script: Path, key: str, pid: int) -> str:
    began = cpu(pid)
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", "-s", str(script), url]
    said = subprocess.run(command, env={**os.environ, "KEY": key}, capture_output=True, text=True, check=True).stdout
    count, rate = (float(re.search(what, said)[1]) for what in (r"(\d+) requests in", r"Requests/sec: +([\d.]+)"))  # type: ignore[index]
    refused, late = re.search(r"refused (\d+) p99 ([\d.]+)", said).groups()  # type: ignore[union-attr]
    each = 1e6 * (cpu(pid) - began) / count
    return f"{rate:8,.0f}/s  {each:5.0f} µs of its CPU each  p99 {float(late) / 1000:6.1f} ms  {refused} refused"


def main(stores: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "post.lua")
        script.write_text(SCRIPT)
        for store in stores or [f"sqlite:///{folder}/jobs.db"]:
            print(store.partition("://")[0])
            key, port = asyncio.run(fresh_key(store)), free_port()
            with served(store, port) as pid:
                for _ in range(ROUNDS):
                    for path in ("/nothing", "/api/v1/jobs"):
                        print(f"  {path:13}{measure(f'http://127.0.0.1:{port}{path}', script, key, pid)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
