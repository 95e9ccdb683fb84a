"""The command line: which scenarios, how often, and where the report goes."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from . import (
    flow_scenarios,
    machine,
    postgres_scenarios,
    redis_scenarios,
    report,
    scenarios,
    schedule_scenarios,
    service_scenarios,
    step_scenarios,
)
from .harness import TIMEOUT_SECONDS, Lab, Scenario, run
from .processes import REPO
from .table import tables

BOOKS = (
    scenarios, postgres_scenarios, redis_scenarios, service_scenarios, schedule_scenarios, flow_scenarios,
    step_scenarios,
)  # fmt: skip
STORES = ("sqlite", "postgresql", "redis", "service", "schedules", "flows", "steps")


def offered(*, quick: bool) -> list[Scenario]:
    return [scenario for book in BOOKS for scenario in book.scenarios(book.QUICK if quick else book.FULL)]


def main() -> int:
    options = _options()
    chosen = [
        s for s in offered(quick=options.quick) if not options.only or {s.name, s.store.lower()} & {*options.only}
    ]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leaves every block, and so ends every child
    with tempfile.TemporaryDirectory(prefix="mainspring-bench-") as root:
        described = {store: machine.describe(Path(root), store) for store in {s.store for s in chosen}}
        patience = 0.0 if options.quick else TIMEOUT_SECONDS
        with closing(Lab(Path(root))) as lab:
            results = run(chosen, lab, repeat=options.repeat, patience=patience)
    print(tables(chosen, results))
    for store, lines in described.items():
        told = [s for s in chosen if s.store == store]
        partial = options.quick or len(told) < len([s for s in offered(quick=False) if s.store == store])
        if out := options.out or (None if partial else REPO / "docs"):
            command = " ".join(["bench/run", *sys.argv[1:]])
            report.write(out, store, told, results, machine=lines, repeat=options.repeat, command=command)
    return 1 if results.failed else 0


def _options() -> argparse.Namespace:
    names = [*STORES, *(scenario.name for scenario in offered(quick=True))]
    parser = argparse.ArgumentParser(prog="bench/run", description="Our figures beside those of peers and stores.")
    add = parser.add_argument
    add("--quick", action="store_true", help="small numbers, and no waiting for a quiet machine")
    add("--only", nargs="+", choices=names, metavar="NAME", help=f"some scenarios, or a store's: {', '.join(names)}")
    add("--repeat", type=int, metavar="N", default=5, help="measurements per figure (default: 5)")
    add(
        "--out",
        type=Path,
        metavar="DIR",
        help="for the pages and their plots (default: docs/ if all of a store is run)",
    )
    options = parser.parse_args()
    if options.repeat < 1:
        parser.error("--repeat takes 1 or more")
    return options


if __name__ == "__main__":
    sys.exit(main())
