"""Writes the golden stores of this release into a folder: `python write.py FOLDER`; scripts/golden calls it."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import os
import random
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from golden.fill import Spoil
    from mainspring import Mainspring
    from mainspring.testing import VirtualClock

TESTS = Path(__file__).parent.parent


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


async def filled(app: Mainspring, clock: VirtualClock, spoil: Spoil) -> tuple[dict[str, str], str]:
    """What the tests need, and what was decoded."""
    from golden.decoded import decoded
    from golden.fill import fill

    SECRETS.drawn = 1000  # clients of servers have drawn some
    told = await fill(app, clock, spoil)
    async with app:
        return told, await decoded(app, clock.now())


async def written(kind: str, folder: Path) -> None:
    """Fills one store, and dumps it and what was decoded of it."""
    from clusters import RedisCluster
    from golden import form
    from golden.fill import BEGIN
    from golden.shop import shop
    from mainspring.stores.redis.place import Place, slot
    from mainspring.testing import VirtualClock
    from servers import Postgres, Redis

    clock = VirtualClock(BEGIN)
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as place:
            path = Path(place, "golden.db")
            app = shop(f"sqlite:///{path}", clock)
            told, text = await filled(app, clock, partial(form.spoil_sqlite, path))
            (folder / form.SQLITE).write_bytes(form.dump_sqlite(path))
    elif kind == "postgres":
        server = Postgres()
        try:
            app = shop(server.own(form.SCHEMA), clock)
            told, text = await filled(app, clock, partial(form.spoil_postgres, server))
            (folder / form.POSTGRES).write_text(form.dump_postgres(server), encoding="utf-8")
        finally:
            server.close()
    elif kind == "redis":
        single = Redis()
        try:
            app = shop(single.url(form.PREFIX), clock)
            spoil = partial(form.spoil_redis, lambda key: single, lambda queue: f"{{{form.PREFIX}}}")
            told, text = await filled(app, clock, spoil)
            (folder / form.REDIS).write_text(form.dump_redis([single]), encoding="utf-8")
        finally:
            single.close()
    else:
        cluster = RedisCluster()
        try:
            url = cluster.url(form.PREFIX)
            bases = Place(url, url).bases
            app = shop(url, clock)

            def node(key: str) -> Redis:
                return cluster.nodes[slot(key) * len(cluster.nodes) // 16384]

            def base(queue: str) -> str:
                from zlib import crc32

                return bases[crc32(queue.encode()) % len(bases)] if queue else bases[0]

            told, text = await filled(app, clock, partial(form.spoil_redis, node, base))
            form.leave_steps(bases[0], bases[1], node)
            dump = form.dump_redis(cluster.nodes).encode()
            (folder / form.CLUSTER).write_bytes(gzip.compress(dump, 9, mtime=0))
        finally:
            cluster.close()
    for name, content in ((form.EXPECTED, text), (form.TOLD, form.json.dumps(told, indent=1) + "\n")):
        file = folder / name
        if kind == "sqlite":
            file.write_text(content, encoding="utf-8")
        elif file.read_text(encoding="utf-8") != content:
            (folder / f"{name}.{kind}").write_text(content, encoding="utf-8")
            raise SystemExit(f"{kind} tells something else than sqlite: compare {name} with {name}.{kind}")


def main() -> None:
    folder, *kinds = sys.argv[1:]
    if kinds:
        without_chance()
        sys.path.insert(0, str(TESTS))
        asyncio.run(written(kinds[0], Path(folder)))
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    for kind in ("sqlite", "postgres", "redis", "cluster"):  # each draws the same ids in a process of its own
        subprocess.run([sys.executable, __file__, folder, kind], check=True, timeout=300)


if __name__ == "__main__":
    main()
