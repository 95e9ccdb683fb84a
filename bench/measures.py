"""Measurements: how each figure comes about, from child processes and what they leave behind."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import nan
from pathlib import Path

from . import processes
from .apps.meter import percentile, read_count, read_late
from .harness import Lab
from .processes import (
    CRON,
    HUEY,
    HUEY_WORKER,
    MAINSPRING,
    MAINSPRING_CLAIM,
    MAINSPRING_INSIGHT,
    MAINSPRING_SCHEDULES,
    RAW_SQLITE,
    Child,
    Program,
    wait_for,
)

Figures = dict[str, float]


@dataclass(frozen=True)
class System:
    """A producer and its worker, both with default settings."""

    producer: Program
    worker: Program
    arguments: tuple[object, ...] = ()

    @contextmanager
    def warm(self, home: Path) -> Iterator[Child]:
        """A worker that has run five jobs and has nothing left."""
        with self.worker.running(home, *self.arguments, BENCH_FSYNC="default") as worker:
            self.produce(home, "fill", 5)
            _await_runs(home, 5, worker)
            yield worker

    def produce(self, home: Path, *args: object) -> None:
        self.producer.ask(home, *args, BENCH_FSYNC="default")


OURS = System(MAINSPRING, MAINSPRING, ("worker", 100))
THEIRS = System(HUEY, HUEY_WORKER)


def drain_mainspring(lab: Lab, *, jobs: int, slots: int) -> Figures:
    with lab.fresh() as home:
        MAINSPRING.ask(home, "fill", jobs)
        with MAINSPRING.running(home, "confirm", jobs) as watcher, MAINSPRING.running(home, "worker", slots):
            confirmed = watcher.answer(timeout=120)["at"]
        return {"rate": jobs / (confirmed - read_count(home).first)}


def drain_memory(lab: Lab, *, jobs: int) -> Figures:
    with lab.fresh() as home:
        return _rate(MAINSPRING.ask(home, "memory", jobs, BENCH_STORE="memory://"))


def drain_huey(lab: Lab, *, jobs: int, threads: int, fsync: str) -> Figures:
    with lab.fresh() as home:
        HUEY.ask(home, "fill", jobs)
        with HUEY_WORKER.running(home, "-w", threads, BENCH_FSYNC=fsync) as worker:
            _await_runs(home, jobs, worker)
        count = read_count(home)
        return {"rate": count.jobs / (count.last - count.first)}


def bulk_mainspring(lab: Lab, *, jobs: int, batch: int) -> Figures:
    with lab.fresh() as home:
        return _rate(MAINSPRING.ask(home, "fill", jobs, batch))


def single_mainspring(lab: Lab, *, jobs: int, callers: int) -> Figures:
    with lab.fresh() as home:
        return _rate(MAINSPRING.ask(home, "single", jobs, callers))


def single_huey(lab: Lab, *, jobs: int, fsync: str) -> Figures:
    with lab.fresh() as home:
        return _rate(HUEY.ask(home, "fill", jobs, BENCH_FSYNC=fsync))


def raw(lab: Lab, *, what: str, jobs: int, batch: int) -> Figures:
    with lab.fresh() as home:
        return _rate(RAW_SQLITE.ask(home, what, jobs, batch))


def latency(lab: Lab, *, system: System, jobs: int) -> Figures:
    with lab.fresh() as home, system.warm(home) as worker:
        system.produce(home, "paced", jobs, 0.05)
        return _delays(home, jobs, worker)


def delayed(lab: Lab, *, system: System, jobs: int) -> Figures:
    with lab.fresh() as home, system.warm(home) as worker:
        system.produce(home, "delayed", jobs, 0.5, 5.0)
        return _delays(home, jobs, worker)


def idle(lab: Lab, *, system: System, seconds: float) -> Figures:
    with lab.fresh() as home, system.warm(home) as worker:
        time.sleep(1)  # what the last job left to do is not idling
        before, start = worker.cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        share = (worker.cpu_seconds() - before) / (time.monotonic() - start)
        return {"CPU": 100 * share, "memory": worker.resident_bytes() / 1e6}


def import_time(lab: Lab, *, python: str, statement: str, runs: int) -> Figures:
    with lab.fresh() as home:
        env = processes.environment(home)

        def start(code: str) -> float:
            begin = time.perf_counter()
            subprocess.run([python, "-c", code], cwd=home, env=env, check=True, timeout=30)
            return time.perf_counter() - begin

        start(statement)  # writes the bytecode
        pairs = [(start(statement), start("pass")) for _ in range(runs)]
        full, bare = (statistics.median(column) for column in zip(*pairs, strict=True))
        return {"time": 1000 * (full - bare)}


def claim(lab: Lab, *, pending: int, future: int, claims: int) -> Figures:
    home = lab.kept(f"claim-{pending}-{future}")  # two million rows are built once
    return MAINSPRING_CLAIM.ask(home, pending, future, claims, timeout=300)


def insight(lab: Lab, *, jobs: int, look: str, calls: int) -> Figures:
    home = lab.kept(f"insight-{jobs}")
    return MAINSPRING_INSIGHT.ask(home, jobs, look, calls, timeout=300)


def cron(lab: Lab, *, system: str, seconds: float) -> Figures:
    with lab.fresh() as home:
        return CRON.ask(home, system, seconds)


def ticks(lab: Lab, *, program: Program, schedules: int, jobs: int) -> Figures:
    with lab.fresh() as home:
        (home / "fired").mkdir()
        with program.running(home, "ticks", schedules) as worker:
            _await_late(home, jobs, worker)
        started, fired = _milliseconds(home)[:jobs], _milliseconds(home / "fired")[:jobs]
        return {
            "p50": percentile(started, 0.50), "p99": percentile(started, 0.99), "largest": max(started),
            "fired, p99": percentile(fired, 0.99) if fired else nan,
        }  # fmt: skip


def due(lab: Lab, *, schedules: int, calls: int) -> Figures:
    return MAINSPRING_SCHEDULES.ask(lab.kept(f"due-{schedules}"), "due", schedules, calls, timeout=300)


def burst(lab: Lab, *, program: Program, schedules: int, lead: float) -> Figures:
    """`lead`: seconds in which the program makes them."""
    with lab.fresh() as home:
        (home / "fired").mkdir()
        with program.running(home, "burst", schedules, lead) as worker:
            _await_late(home, schedules, worker, timeout=lead + 60)
        started, fired = _milliseconds(home), _milliseconds(home / "fired")
        return {"started": max(started), "fired": max(fired, default=nan)}


def _rate(told: dict[str, float]) -> Figures:
    return {"rate": told["jobs"] / told["seconds"]}


def _delays(home: Path, jobs: int, worker: Child) -> Figures:
    _await_late(home, jobs, worker)
    late = [abs(delay) for delay in _milliseconds(home)]
    return {"p50": percentile(late, 0.50), "p99": percentile(late, 0.99)}


def _await_late(home: Path, jobs: int, worker: Child, timeout: float = 30) -> None:
    wait_for(lambda: len(read_late(home)) >= jobs, worker, timeout=timeout, what=f"{jobs} delays noted")


def _milliseconds(home: Path) -> list[float]:
    return [1000 * delay for delay in read_late(home)]


def _await_runs(home: Path, jobs: int, worker: Child) -> None:
    wait_for(lambda: read_count(home).jobs >= jobs, worker, timeout=120, what=f"{jobs:,} jobs run")
