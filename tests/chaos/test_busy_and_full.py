"""The file is locked, or the disk is full: callers wait or get an error, no job is lost, and work continues."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext

import pytest
from crew import HERE, Crew
from ground import on_a_file
from victim import LEASE

pytestmark = on_a_file

HOLDER = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(float(sys.argv[2]))
db.execute("COMMIT")
"""


def test_workers_and_enqueuers_wait_for_a_locked_sqlite_file(crew: Crew) -> None:
    workers = [crew.up(f"worker{n}", concurrency=4) for n in range(2)]
    crew.enqueue("nap", 0.01, times=100)
    command = [sys.executable, "-c", HOLDER, str(crew.ground.path), str(2 * LEASE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder, ThreadPoolExecutor(4) as callers:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        began = time.monotonic()
        asked = [callers.submit(crew.enqueue, "quick") for _ in range(20)]
        assert all(request.result(30) for request in asked)
        assert time.monotonic() - began > LEASE
    crew.finished()
    assert not [worker.said() for worker in workers if "ERROR" in worker.said() or "Traceback" in worker.said()]
    audit = crew.audit()
    audit.check(crew.acknowledged, attempts=2)
    assert {job.state for job in audit.jobs.values()} == {"completed"}


# Enqueues 8 KiB a job until it is refused; after a line on stdin, and without its limit, 50 more.
FILLER = """
import asyncio, resource, sys
sys.path.insert(0, sys.argv[2])
from mainspring.errors import StoreUnavailable
from victim import make
app = make(sys.argv[1])
quick = app.tasks["quick"].using(metadata={"filling": "x" * 8192})
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), -1))
async def main():
    async with app:
        try:
            while True:
                print((await quick.enqueue()).id, flush=True)
        except StoreUnavailable as error:
            print("full:", error, flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
        for _ in range(50):
            print((await quick.enqueue()).id, flush=True)
asyncio.run(main())
"""


@contextmanager
def small_disk(crew: Crew) -> Iterator[Callable[[], object]]:
    """A file system of 2 MB, and a function that enlarges it."""
    folder = str(crew.ground.path.parent)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], check=True)
    try:
        yield lambda: subprocess.run(["mount", "-o", "remount,size=64m", folder], check=True)
    finally:
        crew.close()
        subprocess.run(["umount", folder], check=True)


def _may_mount() -> bool:
    return os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


# A user who may not mount still has a limit on the size of a file, for the enqueuer only.
@pytest.mark.parametrize(
    "limit", [1 << 20, -1] if _may_mount() else [1 << 20], ids=["file", "disk"][: 1 + _may_mount()]
)
def test_a_full_disk_raises_an_error_and_work_continues_once_there_is_room(crew: Crew, limit: int) -> None:
    with nullcontext(lambda: None) if limit > 0 else small_disk(crew) as make_room:
        worker = crew.up("worker", concurrency=2)
        command = [sys.executable, "-c", FILLER, crew.url, str(HERE), str(limit)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as filler:
            told, message = _read_until_full(filler)
            make_room()
            told += _go_on(filler)
        crew.finished()
        assert not worker.dead(), worker.said()
        audit = crew.audit()
    audit.check(told, attempts=2)
    assert "full" in message or "I/O" in message
    assert "nothing was written" in message
    assert len(told) > 50


def _read_until_full(filler: subprocess.Popen[str]) -> tuple[list[str], str]:
    """Returns the ids of its jobs, and the error at the end."""
    assert filler.stdout is not None
    told: list[str] = []
    for line in filler.stdout:
        if line.startswith("full:"):
            return told, line
        told.append(line.strip())
    raise AssertionError(f"the enqueuer ended after {len(told)} jobs with {filler.wait()}")


def _go_on(filler: subprocess.Popen[str]) -> list[str]:
    ids = filler.communicate("go on\n", timeout=30)[0].split()
    assert (len(ids), filler.returncode) == (50, 0)
    return ids
