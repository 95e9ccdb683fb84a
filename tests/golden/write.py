"""Writes the golden stores of this release into a folder: `python write.py FOLDER`; scripts/golden calls it."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from golden.fill import Spoil
    from mainspring import Mainspring
    from mainspring.testing import VirtualClock

TESTS = Path(__file__).parent.parent
Filled = tuple[dict[str, str], str]


class Stream:
    """Bytes that look like chance, and are the same every time."""

    def __init__(self, seed: str) -> None:
        self._seed, self.drawn = seed, 0

    def __call__(self, size: int) -> bytes:
        self.drawn += 1
        return hashlib.shake_128(f"{self._seed} {self.drawn}".encode()).digest(size)


MACHINE, SECRETS = Stream("machine"), Stream("secrets")


def without_chance() -> None:
    """The same ids, leases and secrets every time: before anything of ours is imported."""
    os.urandom = MACHINE
    random._urandom = SECRETS  # type: ignore[attr-defined]
    os.getpid = lambda: 4242
    random.seed(0)


async def filled(app: Mainspring, clock: VirtualClock, spoil: Spoil) -> Filled:
    """The values that the tests need, and all records as text."""
    from golden.decoded import decoded
    from golden.fill import fill

    SECRETS.drawn = 1000  # clients of servers have drawn some
    values = await fill(app, clock, spoil)
    async with app:
        return values, await decoded(app, clock.now())


async def write_sqlite(folder: Path, clock: VirtualClock) -> Filled:
    from golden import form
    from golden.shop import shop

    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "golden.db")
        found = await filled(shop(f"sqlite:///{path}", clock), clock, partial(form.spoil_sqlite, path))
        (folder / form.SQLITE).write_bytes(form.dump_sqlite(path))
    return found


async def write_postgres(folder: Path, clock: VirtualClock) -> Filled:
    from golden import form
    from golden.shop import shop
    from servers import Postgres

    with closing(Postgres()) as server:
        found = await filled(shop(server.own(form.SCHEMA), clock), clock, partial(form.spoil_postgres, server))
        (folder / form.POSTGRES).write_text(form.dump_postgres(server), encoding="utf-8")
    return found


async def write_redis(folder: Path, clock: VirtualClock) -> Filled:
    from golden import form
    from golden.shop import shop
    from servers import Redis

    with closing(Redis()) as server:
        spoil = partial(form.spoil_redis, lambda key: server, lambda queue: f"{{{form.PREFIX}}}")
        found = await filled(shop(server.url(form.PREFIX), clock), clock, spoil)
        (folder / form.REDIS).write_text(form.dump_redis([server]), encoding="utf-8")
    return found


async def write_cluster(folder: Path, clock: VirtualClock) -> Filled:
    from clusters import SLOTS, RedisCluster
    from golden import form
    from golden.shop import shop
    from mainspring.stores.redis.url import RedisUrl, slot
    from servers import Redis

    with closing(RedisCluster()) as cluster:
        bases = RedisUrl(url := cluster.url(form.PREFIX), url).bases

        def node(key: str) -> Redis:
            return cluster.nodes[slot(key) * len(cluster.nodes) // SLOTS]

        def base(queue: str) -> str:
            return bases[crc32(queue.encode()) % len(bases)] if queue else bases[0]

        found = await filled(shop(url, clock), clock, partial(form.spoil_redis, node, base))
        form.leave_steps(bases[0], bases[1], node)
        dump = form.dump_redis(cluster.nodes).encode()
        (folder / form.CLUSTER).write_bytes(gzip.compress(dump, 9, mtime=0))
    return found


WRITERS = {"sqlite": write_sqlite, "postgres": write_postgres, "redis": write_redis, "cluster": write_cluster}


async def write(kind: str, folder: Path) -> None:
    """Fills one store, and dumps it. Every store has to be decoded to the same records."""
    from golden import form
    from golden.fill import BEGIN
    from mainspring.testing import VirtualClock

    values, text = await WRITERS[kind](folder, VirtualClock(BEGIN))
    for name, content in ((form.EXPECTED, text), (form.VALUES, json.dumps(values, indent=1) + "\n")):
        file = folder / name
        if kind == "sqlite":
            file.write_text(content, encoding="utf-8")
        elif file.read_text(encoding="utf-8") != content:
            (folder / f"{name}.{kind}").write_text(content, encoding="utf-8")
            raise SystemExit(f"{kind} and sqlite differ: compare {folder}/{name} with {name}.{kind}")


def main() -> None:
    folder, *kinds = sys.argv[1:]
    if kinds:
        without_chance()
        logging.getLogger("mainspring").setLevel(logging.CRITICAL)  # much of it is broken on purpose
        sys.path.insert(0, str(TESTS))
        asyncio.run(write(kinds[0], Path(folder)))
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    for kind in WRITERS:  # each draws the same ids in a process of its own
        subprocess.run([sys.executable, __file__, folder, kind], check=True, timeout=300)


if __name__ == "__main__":
    main()
