"""The limit: the same work on Redis by a plain loop over redis-py, with no engine around it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import uvloop
from redis.asyncio import Redis

sys.path.insert(0, str(Path(__file__).parent / "apps"))
from meter import answer

PAYLOAD = '{"args":[],"kwargs":{}}'
CLAIM = """local ids = redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1)
if #ids == 0 then return {} end
redis.call('ZREM', KEYS[1], unpack(ids))
local running = {}
for n, id in ipairs(ids) do
  running[2 * n - 1] = ARGV[2]
  running[2 * n] = id
end
redis.call('ZADD', KEYS[3], unpack(running))
return { ids, redis.call('HMGET', KEYS[2], unpack(ids)) }"""
FINISH = """redis.call('ZREM', KEYS[1], unpack(ARGV))
return redis.call('HDEL', KEYS[2], unpack(ARGV))"""


async def insert(db: Any, jobs: int, batch: int) -> None:
    """One HSET and one ZADD for every `batch` jobs, sent together."""
    for first in range(0, jobs, batch):
        ids = [f"{n:09d}" for n in range(first, min(first + batch, jobs))]
        sent = db.pipeline(transaction=False)
        sent.hset("jobs", mapping=dict.fromkeys(ids, PAYLOAD))
        sent.zadd("ready", dict.fromkeys(ids, 0.0))
        await sent.execute()


async def work_off(db: Any, batch: int) -> int:
    """Claims and finishes until nothing is left: two scripts a batch."""
    claim, finish, done = db.register_script(CLAIM), db.register_script(FINISH), 0
    while taken := await claim(["ready", "jobs", "running"], [batch, int(1000 * time.time())]):
        ids, _ = taken
        await finish(["running", "jobs"], ids)
        done += len(ids)
    return done


async def command(words: list[str]) -> None:
    db = Redis.from_url(os.environ["BENCH_STORE"])
    await db.ping()
    start = time.time()
    match words:
        case ["insert", jobs, batch]:
            await insert(db, int(jobs), int(batch))
            answer(jobs=int(jobs), seconds=time.time() - start)
        case ["drain", batch]:
            done = await work_off(db, int(batch))
            answer(jobs=done, first=start, last=time.time())
        case other:
            sys.exit(f"raw_redis does not know {other}")
    await db.aclose()


if __name__ == "__main__":
    uvloop.run(command(sys.argv[1:]))
