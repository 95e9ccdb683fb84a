"""How soon the dashboard shows itself on a cold cache, with so many jobs to show: python -m bench.dashboard [JOBS].

Prints medians over some rounds in milliseconds: first contentful paint, and when the page shows what it has loaded.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "dashboard"))

from chromium import Chromium
from live import Live
from scenery import shown
from visit import Visits

ROUNDS, LOT = 9, 10_000
PAGES = ("/", "/jobs", "/queues", "/schedules")
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def load(visits: Visits, live: Live, path: str) -> tuple[float, float]:
    """In a browser that remembers nothing."""
    page = visits(live, path)
    shown(page)
    loaded = page.evaluate("performance.now()")
    painted = page.evaluate(PAINT)
    page.context.close()
    return painted, loaded


def main(jobs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        live, chromium = Live(Path(folder), works=False), Chromium()
        try:
            task = live.app.tasks["send_email"]
            for first in range(0, jobs, LOT):
                some = range(first, min(first + LOT, jobs))
                live.do(live.app.enqueue_many(task.job(f"{n}@example.org") for n in some))
            print(f"{jobs:,} jobs, {ROUNDS} cold loads each    first paint    loaded")
            for path in PAGES:
                rounds = [chromium.do(load, Visits(chromium), live, path) for _ in range(ROUNDS)]
                painted, loaded = (statistics.median(column) for column in zip(*rounds, strict=True))
                print(f"{path:38} {painted:8.0f} ms {loaded:6.0f} ms")
        finally:
            chromium.close()
            live.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
