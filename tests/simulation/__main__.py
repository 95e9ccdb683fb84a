"""The command behind scripts/sim: runs seeds, replays one, or searches for the seed that finds a planted bug."""

from __future__ import annotations

import os
import sys

import click

from mainspring.clock import SystemClock

from . import BUGS, simulate
from .search import search
from .shrink import shrink
from .simulation import Verdict

# A run ends early after this number of failing seeds.
MAX_FAILED_SEEDS = 10


@click.command()
@click.option("--seeds", default=2000, show_default=True, help="Number of seeds to run.")
@click.option("--from", "first", default=0, show_default=True, help="The first seed.")
@click.option("--seed", type=int, help="Replay this seed, and show its plan.")
@click.option("--small", is_flag=True, help="With --seed: leave out the moves that a failure does not need.")
@click.option("--bug", type=click.Choice(list(BUGS)), help="Plant this bug, and stop when it is found.")
@click.option("--processes", default=os.cpu_count() or 1, show_default="one a core")
def main(seeds: int, first: int, seed: int | None, small: bool, bug: str | None, processes: int) -> None:
    """Plays seeded clusters with faults and checks what Mainspring promises.

    Exits 1 if a promise was broken; with --bug, if none was.
    """
    if seed is not None:
        verdict = simulate(seed, bug)
        if small and not verdict.fine:
            verdict = shrink(verdict, bug)
        click.echo(f"{verdict.report()}\n\n{verdict}")
        sys.exit(verdict.fine is (bug is not None))
    failed = _run(range(first, first + seeds), bug, processes)
    for verdict in failed[:1]:
        click.echo(f"{verdict.report()}\n")
    for verdict in failed:
        again = f"scripts/sim --seed {verdict.plan.seed}" + (f" --bug {bug}" if bug else "")
        click.echo(f"{verdict}; replay: {again}")
    sys.exit((not failed) is (bug is not None))


def _run(seeds: range, bug: str | None, processes: int) -> list[Verdict]:
    """Returns the verdicts on failing seeds; writes its progress to stderr."""
    clock = SystemClock()
    began, failed = clock.monotonic(), list[Verdict]()
    step = 10 if sys.stderr.isatty() else max(1, len(seeds) // 10)
    for done, (_, verdict) in enumerate(search(seeds, bug, processes), 1):
        if verdict is not None:
            failed.append(verdict)
        ended = done == len(seeds) or len(failed) == (1 if bug else MAX_FAILED_SEEDS)
        if ended or done % step == 0:
            line = f"{done} of {len(seeds)} seeds, {len(failed)} failed, {clock.monotonic() - began:.0f} s"
            click.echo(f"\r{line}" if sys.stderr.isatty() else line, err=True, nl=ended or not sys.stderr.isatty())
        if ended:
            break
    return failed


if __name__ == "__main__":
    main()
