"""Workers of any server that stand ready, and how soon they start a job that comes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from .apps.meter import percentile, read_count, read_late
from .harness import Lab
from .processes import Child, wait_for

# Jobs of a new producer before those whose delay counts.
COLD = 10


class Engine(Protocol):
    """A job system on a server."""

    def ask(self, lab: Lab, home: Path, *words: object) -> dict[str, float]: ...

    def fresh(self, lab: Lab) -> AbstractContextManager[Path]: ...

    def worker(self, lab: Lab, home: Path) -> AbstractContextManager[Child]: ...


def latency(lab: Lab, *, engine: Engine, jobs: int) -> dict[str, float]:
    """From just before the enqueue in one process to the start in another, which idles."""
    with warm(lab, engine) as (home, worker):
        jobs += COLD
        engine.ask(lab, home, "paced", jobs, 0.05)
        wait_for(lambda: len(read_late(home)) >= jobs, worker, timeout=30, what=f"{jobs} delays noted")
        late = [1000 * delay for delay in read_late(home)[COLD:]]
        return {"p50": percentile(late, 0.50), "p99": percentile(late, 0.99)}


@contextmanager
def warm(lab: Lab, engine: Engine) -> Iterator[tuple[Path, Child]]:
    """A worker that has run five jobs and has nothing left."""
    with engine.fresh(lab) as home, engine.worker(lab, home) as worker:
        engine.ask(lab, home, "fill", 5)
        await_runs([home], 5, [worker])
        yield home, worker


def await_runs(homes: list[Path], jobs: int, workers: list[Child]) -> None:
    def done() -> bool:
        return sum(read_count(place).jobs for place in homes) >= jobs

    wait_for(done, *workers, timeout=300, what=f"{jobs:,} jobs run")
