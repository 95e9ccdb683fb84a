"""Two commits beside each other: the working tree, and one that is checked out for the run."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from .apps.meter import percentile, read_count, read_late
from .harness import TIMEOUT_SECONDS, Case, Figure, Lab, Scenario, run
from .processes import BENCH, MAINSPRING, REPO, Failed, Program, wait_for
from .scenarios import DELAY, RATE
from .table import tables

BASELINE = BENCH / "baseline.json"
STORES = ("SQLite", "PostgreSQL", "Redis")
DRAINED, BULK, SINGLE, PICKED_UP = 50_000, 50_000, 3_000, 100
HERE = "this tree"
Measure = Callable[[Lab, Program, str], dict[str, float]]


@contextmanager
def checked_out(commit: str, folder: Path) -> Iterator[Path]:
    """A work tree of the commit, gone after the block."""
    git = ("git", "-C", str(REPO), "worktree")
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), commit], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def of_tree(tree: Path) -> Program:
    """Mainspring as it is in that tree, with the programs of this one."""
    return Program(MAINSPRING.command, (("PYTHONPATH", f"{tree / 'src'}:{BENCH / 'apps'}"),))


@contextmanager
def fresh(lab: Lab, store: str) -> Iterator[tuple[Path, dict[str, str]]]:
    """A home, and the environment that names an empty store."""
    with lab.fresh() as home:
        if store == "Redis":
            url = lab.redis.fresh()
        elif store == "PostgreSQL":
            lab.postgres.fresh()
            url = lab.postgres.dsn()
        else:
            url = f"sqlite:///{home}/mainspring.db"
        yield home, {"BENCH_STORE": url}


def drain(lab: Lab, program: Program, store: str, *, slots: int) -> dict[str, float]:
    with fresh(lab, store) as (home, at):
        program.ask(home, "fill", DRAINED, **at)
        with program.running(home, "confirm", DRAINED, **at) as watcher, program.running(home, "worker", slots, **at):
            confirmed = watcher.answer(timeout=120)["at"]
        return {"rate": DRAINED / (confirmed - read_count(home).first)}


def enqueue(lab: Lab, program: Program, store: str, *, way: str, jobs: int, size: int) -> dict[str, float]:
    with fresh(lab, store) as (home, at):
        done = program.ask(home, way, jobs, size, **at)
        return {"rate": done["jobs"] / done["seconds"]}


def pick_up(lab: Lab, program: Program, store: str) -> dict[str, float]:
    with fresh(lab, store) as (home, at), program.running(home, "worker", 100, **at) as worker:
        program.ask(home, "fill", 5, **at)
        wait_for(lambda: read_count(home).jobs >= 5, worker, timeout=30, what="the first jobs")
        program.ask(home, "paced", PICKED_UP, 0.05, **at)
        wait_for(lambda: len(read_late(home)) >= PICKED_UP, worker, timeout=30, what="the paced jobs")
        late = read_late(home)
        return {figure.name: 1000 * percentile(late, share) for figure, share in zip(DELAY, (0.5, 0.99), strict=True)}


MEASURES: dict[str, tuple[str, tuple[Figure, ...], Measure]] = {
    **{
        f"drain-{slots}": (f"{DRAINED:,} no-op jobs, one worker, {slots} slots.", RATE, partial(drain, slots=slots))
        for slots in (100, 500, 1000)
    },
    "bulk": (f"{BULK:,} jobs in batches of 1,000.", RATE, partial(enqueue, way="fill", jobs=BULK, size=1000)),
    "single": ("One awaited enqueue after the other.", RATE, partial(enqueue, way="single", jobs=SINGLE, size=1)),
    "pick-up": ("An idle worker, a job every 50 ms: enqueue to start.", DELAY, pick_up),
}


def scenarios(commit: str, tree: Path, only: list[str] | None) -> list[Scenario]:
    programs = {commit: of_tree(tree), HERE: of_tree(REPO)}
    return [
        Scenario(
            f"{name}-{store.lower()}",
            question,
            figures,
            tuple(
                Case(who, lambda lab, p=program, m=measure, s=store: m(lab, p, s), ours=who == HERE)
                for who, program in programs.items()
            ),
            references={commit: (commit,)},
            store=store,
        )
        for store in STORES
        for name, (question, figures, measure) in MEASURES.items()
        if not only or {name, store.lower()} & {*only}
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/compare", description=__doc__)
    parser.add_argument("commit", nargs="?", help="default: that of bench/baseline.json")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="measurements per figure (default: 3)")
    names = [*MEASURES, *map(str.lower, STORES)]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"some of: {', '.join(names)}")
    options = parser.parse_args()
    commit = options.commit or json.loads(BASELINE.read_text())["commit"]
    with tempfile.TemporaryDirectory(prefix="mainspring-compare-") as root:
        with checked_out(commit, Path(root) / "tree") as tree:
            chosen = scenarios(commit[:12], tree, options.only)
            with closing(Lab(Path(root))) as lab:
                results = run(chosen, lab, repeat=options.repeat, patience=TIMEOUT_SECONDS)
        print(tables(chosen, results))
    return 1 if results.failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failure:
        sys.exit(str(failure))
