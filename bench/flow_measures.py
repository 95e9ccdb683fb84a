"""Measurements of flows: a worker that has run one, then many steps at once, or a kill in the middle."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import nan
from pathlib import Path

from .apps.meter import STEPS, read_count, read_ended
from .harness import Lab
from .processes import Child, Failed, Program, wait_for

Figures = dict[str, float]
WARM_ITEMS = 5


@dataclass(frozen=True)
class FlowEngine:
    """A system with flows: its program, the setting its worker takes, and which server it wants."""

    program: Program
    size: int
    server: str = ""
    """redis, postgres, or none: a file in its home."""

    @contextmanager
    def fresh(self, lab: Lab) -> Iterator[Home]:
        """An empty store, and room for its workers."""
        with lab.fresh() as path:
            match self.server:
                case "redis":
                    lab.redis.fresh()
                    store = lab.redis.url
                case "postgres":
                    store = lab.postgres.fresh()
                case _:
                    store = f"sqlite:///{path}/mainspring.db"
            home = Home(self, path, store)
            if self.server != "redis":
                home.ask("setup")
            yield home


@dataclass(frozen=True)
class Home:
    """Where one measurement happens."""

    engine: FlowEngine
    path: Path
    store: str

    def ask(self, *words: object) -> dict[str, float]:
        return self.engine.program.ask(self.path, *words, timeout=300, BENCH_STORE=self.store)

    @contextmanager
    def worker(self, name: str) -> Iterator[tuple[Path, Child]]:
        place = self.path / name
        place.mkdir()
        with self.engine.program.running(place, "worker", self.engine.size, BENCH_STORE=self.store) as child:
            yield place, child

    @contextmanager
    def warm(self) -> Iterator[tuple[Path, Child]]:
        """A worker that has run a small flow."""
        with self.worker("worker") as (place, child):
            self.ask("fan", WARM_ITEMS)
            wait_for(lambda: len(read_ended(place)) == 1, child, timeout=120, what="the first flow")
            yield place, child


def fan(lab: Lab, *, engine: FlowEngine, items: int) -> Figures:
    """Seconds from before the call that starts the flow until its last job has the sum of all items."""
    with engine.fresh(lab) as home, home.warm() as (place, child):
        at = home.ask("fan", items)["at"]
        wait_for(lambda: len(read_ended(place)) == 2, child, timeout=300, what=f"a fan-in of {items:,}")
        ended, value = read_ended(place)[-1]
        if value != items * (items - 1) // 2:
            raise Failed(f"the sum of {items:,} items came out as {value}")
        return {"seconds": ended - at}


def chains(lab: Lab, *, engine: FlowEngine, count: int) -> Figures:
    """Steps per second from before the call that starts the flows until the last has ended."""
    with engine.fresh(lab) as home, home.warm() as (place, child):
        at = home.ask("chains", count)["at"]
        wait_for(lambda: len(read_ended(place)) == 1 + count, child, timeout=300, what=f"{count:,} chains")
        values = {value for _, value in read_ended(place)[1:]}
        if values != {STEPS}:
            raise Failed(f"chains of {STEPS} came out as {values}")
        return {"rate": count * STEPS / (max(at for at, _ in read_ended(place)) - at)}


def killed(lab: Lab, *, engine: FlowEngine, items: int, patience: float) -> Figures:
    """A worker is killed when half of the items have run, and another starts: what becomes of the flow."""
    with engine.fresh(lab) as home:
        with home.worker("killed") as (first, child):
            home.ask("fan", items)
            wait_for(lambda: read_count(first).jobs >= items // 2, child, timeout=120, what="half of the items")
            child.kill()
            killed = time.time()
        with home.worker("second") as (second, child):
            with suppress(Failed):
                wait_for(lambda: bool(read_ended(second)), child, timeout=patience, what="the end of the flow")
            time.sleep(2)  # for a second call
        ends = read_ended(first) + read_ended(second)
        right = [at for at, value in ends if value == items * (items - 1) // 2]
        return {
            "ended": right[0] - killed if right else nan,
            "calls": len(ends),
            "wrong": len(ends) - len(right),
            "again": read_count(first).jobs + read_count(second).jobs - items,
        }
