"""A process that counts while it leads (`main`, started by forked.py)."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sqlite3
import sys
import time
from pathlib import Path
from typing import NamedTuple

from victim import PR_SET_PDEATHSIG

from mainspring import Mainspring, NotLeader
from mainspring.events import LeaderChanged

POLL = 0.2


class Note(NamedTuple):
    """What a candidate did, on the clock all processes of a machine share."""

    event: str
    """leads, lost, counted or refused."""
    term: int
    at: float


def read_notes(path: Path) -> list[Note]:
    rows = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [Note(event, int(term), float(at)) for event, term, at in rows]


class Counter:
    """A number outside the store, which refuses writes of a term older than the newest it has seen: the fence."""

    def __init__(self, path: str) -> None:
        self._db = sqlite3.connect(path, timeout=10, isolation_level=None)
        self._db.execute("CREATE TABLE IF NOT EXISTS counts (n INTEGER PRIMARY KEY, term INTEGER)")

    def count(self, term: int) -> bool:
        sql = "INSERT INTO counts (term) SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM counts WHERE term > ?1)"
        return self._db.execute(sql, (term,)).rowcount == 1

    def terms(self) -> list[int]:
        return [term for (term,) in self._db.execute("SELECT term FROM counts ORDER BY n")]

    def close(self) -> None:
        self._db.close()


async def stand(url: str, counts: str, log: str, ttl: str) -> None:
    notes = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(event: str, term: int) -> None:
        os.write(notes, f"{event} {term} {time.monotonic()!r}\n".encode())

    app = Mainspring(url, poll_interval=POLL)
    app.on(LeaderChanged)(lambda event: note("leads" if event.leading else "lost", event.term))
    leader = app.leader("counting", ttl=float(ttl))
    counter = Counter(counts)

    async def work() -> None:
        while True:
            try:
                term = leader.check()
            except NotLeader:
                note("refused", 0)
            else:
                note("counted" if counter.count(term) else "refused", term)
            await asyncio.sleep(0.01)

    async with app:
        counting = asyncio.create_task(leader.run(work))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, counting.cancel)
        await asyncio.wait([counting])


def main() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    asyncio.run(stand(*sys.argv[1:]))
