"""Scenarios on Redis: the questions, and on which systems each is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from . import pickup
from . import redis_measures as measures
from .harness import Case, Figure, Scenario
from .redis_measures import Engine, arq, bullmq, celery, dramatiq, huey, mainspring, rq, saq, taskiq
from .scenarios import DELAY, RATE, other, ours

STORE = "Redis"
ASYNCIO = {"SAQ": saq(20), "arq": arq(100), "TaskIQ": taskiq(100)}
THREADS = {"Huey": huey(2), "Dramatiq": dramatiq(8)}
SLOW = {"Celery": celery(), "RQ": rq()}
PYTHON = ASYNCIO | THREADS | SLOW
PEERS = {"BullMQ": bullmq(100)} | PYTHON


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    drain: int = 50_000
    peers: int = 10_000
    slow: int = 3_000
    raw: int = 200_000
    bulk: int = 100_000
    single: int = 3_000
    latency: int = 200
    idle_seconds: float = 60
    peer_idle_seconds: float = 20
    memory: int = 100_000
    slow_memory: int = 20_000


FULL = Sizes()
QUICK = Sizes(
    drain=20_000, peers=4_000, slow=1_000, raw=50_000, bulk=20_000, single=1_000, idle_seconds=20,
    peer_idle_seconds=10, slow_memory=5_000,
)  # fmt: skip


def scenarios(sizes: Sizes) -> list[Scenario]:
    return [make(sizes) for make in (drain1, drain2, bulk, single, latency, idle, memory, cluster)]


def drain1(sizes: Sizes) -> Scenario:
    return _drain(sizes, "redis-drain1", "One worker process", 1)


def drain2(sizes: Sizes) -> Scenario:
    return _drain(sizes, "redis-drain2", "Two worker processes", 2)


def _drain(sizes: Sizes, name: str, who: str, workers: int) -> Scenario:
    def case(system: str, engine: Engine, make: Callable[..., Case] = other) -> Case:
        jobs = sizes.slow if system in SLOW else sizes.peers if system in PYTHON else sizes.drain
        return make(system, measures.drain, engine=engine, jobs=jobs, workers=workers)

    raw = "raw Lua, batches of 500"
    return Scenario(
        name,
        f"{who}, {sizes.drain:,} no-op jobs enqueued before the start ({sizes.peers:,} for "
        f"{_names(ASYNCIO | THREADS)}, {sizes.slow:,} for {_names(SLOW)}, {sizes.raw:,} for the raw loop): jobs per "
        "second from the first start to when the keys show that nothing is left. Mainspring fences every finish and "
        "keeps each job as history.",
        RATE,
        (
            case("Mainspring, 100 slots", mainspring(100), ours),
            case("Mainspring, 500 slots", mainspring(500), ours),
            *(case(system, engine) for system, engine in PEERS.items()),
            other(raw, measures.raw_drain, jobs=sizes.raw, batch=500, workers=workers),
        ),
        {"BullMQ": ("BullMQ",), "best in Python": tuple(PYTHON), "raw Lua": (raw,)},
        store=STORE,
    )


def bulk(sizes: Sizes) -> Scenario:
    jobs, batches = sizes.bulk, (1_000, 5_000)

    def named(name: str) -> tuple[str, ...]:
        return tuple(f"{name}, batches of {batch:,}" for batch in batches)

    def cases(name: str, engine: Engine, make: Callable[..., Case] = other) -> Iterator[Case]:
        for system, batch in zip(named(name), batches, strict=True):
            yield make(system, measures.enqueue, engine=engine, way="fill", jobs=jobs, batch=batch)

    raw = "raw HSET + ZADD, batches of 1,000"
    return Scenario(
        "redis-bulk",
        f"{jobs:,} jobs enqueued together, building them included. Of the peers in Python only RQ has a bulk call.",
        RATE,
        (
            *cases("Mainspring", mainspring(1), ours),
            *cases("BullMQ", bullmq(1)),
            next(cases("RQ", rq())),
            other(raw, measures.raw_insert, jobs=jobs, batch=1_000),
        ),
        {"BullMQ": named("BullMQ"), "RQ": named("RQ")[:1], "raw": (raw,)},
        store=STORE,
    )


def single(sizes: Sizes) -> Scenario:
    jobs, raw = sizes.single, "raw HSET + ZADD"
    return Scenario(
        "redis-single",
        f"One caller, {jobs:,} jobs, each awaited. {_names(ASYNCIO)} run on asyncio; the other peers in Python block "
        "their thread, which saves them the loop.",
        RATE,
        (
            ours("Mainspring", measures.enqueue, engine=mainspring(1), way="single", jobs=jobs, callers=1),
            *_peers(measures.enqueue, way="single", jobs=jobs),
            other(raw, measures.raw_insert, jobs=jobs, batch=1),
        ),
        {"best on asyncio": tuple(ASYNCIO), "best peer": tuple(PEERS), "raw": (raw,)},
        store=STORE,
    )


def latency(sizes: Sizes) -> Scenario:
    jobs = sizes.latency
    return Scenario(
        "redis-latency",
        f"An idle worker in another process, {jobs} jobs 25 to 75 ms apart, after {pickup.COLD} that do not count: "
        "from just before the enqueue to the start of the job. Workers with the settings of `redis-drain1`.",
        DELAY,
        (
            ours("Mainspring", pickup.latency, engine=mainspring(100), jobs=jobs),
            *_peers(pickup.latency, jobs=jobs),
        ),
        {"best on asyncio": tuple(ASYNCIO), "best peer": tuple(PEERS)},
        store=STORE,
    )


def idle(sizes: Sizes) -> Scenario:
    long, short = sizes.idle_seconds, sizes.peer_idle_seconds
    return Scenario(
        "redis-idle",
        f"A worker with nothing to do, watched for {long:g} s (peers {short:g} s): its CPU and memory, and the "
        "commands that the server counts, those inside of scripts included.",
        (Figure("CPU", "% of a core"), Figure("memory", "MB"), Figure("commands", "a minute")),
        (
            ours("Mainspring", measures.idle, engine=mainspring(100), seconds=long),
            *_peers(measures.idle, seconds=short),
        ),
        {"best peer": tuple(PEERS)},
        store=STORE,
        rounds=2,
    )


def memory(sizes: Sizes) -> Scenario:
    bulk = {"BullMQ", "RQ"}
    return Scenario(
        "redis-memory",
        f"{sizes.memory:,} pending jobs ({sizes.slow_memory:,} for those without a bulk call), each with a text of "
        f"{len(measures.PAYLOAD)} characters as its argument: what a job takes of the server's memory, less the "
        f"{len(measures.PAYLOAD)} bytes of that text.",
        (Figure("memory", "bytes a job"),),
        (
            ours("Mainspring", measures.memory, engine=mainspring(1), jobs=sizes.memory),
            *(
                other(
                    system, measures.memory, engine=engine, jobs=sizes.memory if system in bulk else sizes.slow_memory
                )
                for system, engine in PEERS.items()
            ),
        ),
        {"BullMQ": ("BullMQ",), "best peer": tuple(PEERS)},
        store=STORE,
        rounds=2,
    )


def cluster(sizes: Sizes) -> Scenario:
    names = {0: "a server by itself", 1: "a cluster of one master", 2: "two masters", 3: "three masters"}
    return Scenario(
        "redis-cluster",
        f"Two worker processes of 500 slots, {sizes.drain:,} no-op jobs in {measures.QUEUES} queues: jobs per second, "
        "and the CPU that a job costs the master that has most to do. On a machine of two cores workers and masters "
        "share what there is, so that the second figure tells what more masters are good for: a master can do no more "
        "than a second's work in a second.",
        (*RATE, Figure("CPU of the busiest master", "us a job")),
        tuple(
            ours(name, measures.cluster, masters=masters, jobs=sizes.drain, workers=2)
            for masters, name in names.items()
        ),
        {"one master": (names[1],)},
        store=STORE,
    )


def _peers(measure: Callable[..., Any], **settings: Any) -> tuple[Case, ...]:
    return tuple(other(system, measure, engine=engine, **settings) for system, engine in PEERS.items())


def _names(engines: dict[str, Engine]) -> str:
    *first, last = engines
    return f"{', '.join(first)} and {last}"
