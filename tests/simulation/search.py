"""Plays many seeds, on all cores."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from functools import partial

from .simulation import Verdict, simulate

# Seeds that a process takes at a time.
CHUNK_SEEDS = 5


def search(seeds: Sequence[int], bug: str | None, processes: int) -> Iterator[tuple[int, Verdict | None]]:
    """Yields each seed in order, with its verdict if a rule was broken."""
    judge = partial(_judge, bug)
    if processes == 1:
        yield from map(judge, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(judge, seeds, CHUNK_SEEDS)


def _judge(bug: str | None, seed: int) -> tuple[int, Verdict | None]:
    verdict = simulate(seed, bug)
    return seed, None if verdict.fine else verdict
