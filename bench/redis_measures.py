"""Measurements on Redis: an empty server each, work confirmed by what its keys show."""

from __future__ import annotations

import random
import string
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from .apps.meter import read_count
from .harness import Lab
from .pickup import await_runs, warm
from .processes import (
    ARQ,
    BULLMQ,
    CELERY,
    DRAMATIQ,
    HUEY_REDIS,
    MAINSPRING,
    RAW_REDIS,
    RQ,
    SAQ,
    TASKIQ,
    Child,
    Failed,
    Program,
)
from .redis_server import Cluster, Redis

Figures = dict[str, float]
Look = Callable[[Redis], int]

# So many queues that each home of a cluster has some.
QUEUES = 32
# Arguments whose size counts: letters that no compression makes much smaller.
PAYLOAD = "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=100))


@dataclass(frozen=True)
class Engine:
    """A job system: its program, the setting its worker takes, and how its keys tell what is left to do."""

    program: Program
    size: int
    left: Look | None = None
    """None: a program of its own tells when all of its jobs are completed."""

    def ask(self, lab: Lab, home: Path, *words: object, timeout: float = 300, **env: str) -> dict[str, float]:
        return self.program.ask(home, *words, timeout=timeout, BENCH_STORE=lab.redis.url, **env)

    @contextmanager
    def fresh(self, lab: Lab) -> Iterator[Path]:
        """An empty server, and a home."""
        lab.redis.fresh()
        with lab.fresh() as home:
            yield home

    @contextmanager
    def worker(self, lab: Lab, home: Path) -> Iterator[Child]:
        home.mkdir(exist_ok=True)
        with self.program.running(home, "worker", self.size, BENCH_STORE=lab.redis.url) as child:
            yield child

    @contextmanager
    def watched(self, lab: Lab, home: Path, jobs: int) -> Iterator[Callable[[], float]]:
        """What tells when the last job was done (Unix time), to be asked when all have run."""
        if (left := self.left) is not None:
            if (found := left(lab.redis)) != jobs:
                raise Failed(f"{found} of {jobs} jobs in the store before the drain")
            yield lambda: lab.redis.until(partial(left, lab.redis), timeout=60)
        else:
            with self.program.running(home, "confirm", jobs, BENCH_STORE=lab.redis.url) as watcher:
                yield lambda: watcher.answer(60)["at"]


def mainspring(slots: int) -> Engine:
    return Engine(MAINSPRING, slots)


def bullmq(slots: int) -> Engine:
    return Engine(BULLMQ, slots, _total(("LLEN", "bull:bench:wait"), ("LLEN", "bull:bench:active")))


def saq(slots: int) -> Engine:
    return Engine(SAQ, slots, _total(("ZCARD", "saq:default:incomplete")))


def arq(slots: int) -> Engine:
    return Engine(ARQ, slots, _total(("ZCARD", "arq:queue")))


def taskiq(slots: int) -> Engine:
    def left(server: Redis) -> int:
        return sum(group["pending"] + group["lag"] for group in server.call("XINFO GROUPS", "taskiq"))

    return Engine(TASKIQ, slots, left)


def dramatiq(threads: int) -> Engine:
    return Engine(DRAMATIQ, threads, _total(("HLEN", "dramatiq:default.msgs")))


def rq() -> Engine:
    return Engine(RQ, 1, _total(("LLEN", "rq:queue:default"), ("ZCARD", "rq:wip:default")))


def celery() -> Engine:
    return Engine(CELERY, 1, _total(("LLEN", "celery"), ("HLEN", "unacked")))


def huey(threads: int) -> Engine:
    """It pops what it runs: a job that runs is not in the store any more."""
    return Engine(HUEY_REDIS, threads, _total(("LLEN", "huey.redis.bench")))


def _total(*commands: tuple[str, ...]) -> Look:
    return lambda server: sum(server.call(*command) for command in commands)


def drain(lab: Lab, *, engine: Engine, jobs: int, workers: int) -> Figures:
    """Jobs per second from the first start to when the store shows nothing left."""
    with engine.fresh(lab) as home, ExitStack() as stack:
        engine.ask(lab, home, "fill", jobs)
        finished = stack.enter_context(engine.watched(lab, home, jobs))
        homes = [home / f"worker-{n}" for n in range(workers)]
        children = [stack.enter_context(engine.worker(lab, place)) for place in homes]
        await_runs(homes, jobs, children)
        at = finished()
        return {"rate": jobs / (at - min(read_count(place).first for place in homes if read_count(place).jobs))}


def cluster(lab: Lab, *, masters: int, jobs: int, workers: int) -> Figures:
    """As drain, of Mainspring with its jobs in many queues, and what a job costs the master that has most to do.

    No masters: a server by itself.
    """
    engine, place = mainspring(500), lab.cluster(masters) if masters else lab.redis
    servers = place.masters if isinstance(place, Cluster) else [place]
    store = {"BENCH_STORE": place.fresh(), "BENCH_QUEUES": str(QUEUES)}
    with lab.fresh() as home, ExitStack() as stack:
        engine.program.ask(home, "fill", jobs, **store)
        watcher = stack.enter_context(engine.program.running(home, "confirm", jobs, **store))
        spent = [server.cpu_seconds() for server in servers]
        homes = [home / f"worker-{n}" for n in range(workers)]
        for folder in homes:
            folder.mkdir()
        children = [
            stack.enter_context(engine.program.running(folder, "worker", engine.size, **store)) for folder in homes
        ]
        await_runs(homes, jobs, children)
        at = watcher.answer(60)["at"]
        most = max(server.cpu_seconds() - before for server, before in zip(servers, spent, strict=True))
        rate = jobs / (at - min(read_count(folder).first for folder in homes if read_count(folder).jobs))
        return {"rate": rate, "CPU of the busiest master": 1e6 * most / jobs}


def idle(lab: Lab, *, engine: Engine, seconds: float) -> Figures:
    with warm(lab, engine) as (_, worker):
        time.sleep(3)  # what the last job left to do is not idling
        start, spent = time.monotonic(), worker.cpu_seconds()
        commands = lab.redis.commands()
        time.sleep(seconds)
        commands = lab.redis.commands() - commands - 1  # our own question
        span, spent = time.monotonic() - start, worker.cpu_seconds() - spent
        return {
            "CPU": 100 * spent / span, "memory": worker.resident_bytes() / 1e6, "commands": 60 * commands / span,
        }  # fmt: skip


def memory(lab: Lab, *, engine: Engine, jobs: int) -> Figures:
    """Bytes of the server's memory a pending job takes, its payload not counted."""
    with engine.fresh(lab) as home:
        engine.ask(lab, home, "fill", jobs // 100, BENCH_PAYLOAD=PAYLOAD)  # makes what is there once
        before = lab.redis.info("memory")["used_memory"]
        engine.ask(lab, home, "fill", jobs, BENCH_PAYLOAD=PAYLOAD)
        return {"memory": (lab.redis.info("memory")["used_memory"] - before) / jobs - len(PAYLOAD)}


def enqueue(lab: Lab, *, engine: Engine, way: str, jobs: int, **words: Any) -> Figures:
    """Jobs per second into the store: `way` is fill or single."""
    with engine.fresh(lab) as home:
        told = engine.ask(lab, home, way, jobs, *words.values())
        return {"rate": told["jobs"] / told["seconds"]}


# the limit: no engine, the same work


def raw_drain(lab: Lab, *, jobs: int, batch: int, workers: int) -> Figures:
    with lab.fresh() as home, ExitStack() as stack:
        store = lab.redis.fresh()
        RAW_REDIS.ask(home, "insert", jobs, 1_000, BENCH_STORE=store)
        running = [RAW_REDIS.running(home, "drain", batch, BENCH_STORE=store) for _ in range(workers)]
        told = [child.answer(120) for child in [stack.enter_context(one) for one in running]]
        span = max(one["last"] for one in told) - min(one["first"] for one in told)
        return {"rate": sum(one["jobs"] for one in told) / span}


def raw_insert(lab: Lab, *, jobs: int, batch: int) -> Figures:
    with lab.fresh() as home:
        told = RAW_REDIS.ask(home, "insert", jobs, batch, BENCH_STORE=lab.redis.fresh())
        return {"rate": told["jobs"] / told["seconds"]}
