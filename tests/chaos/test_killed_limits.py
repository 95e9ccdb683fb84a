"""Limits while workers are killed, or stand still for longer than their leases and come back."""

from __future__ import annotations

import asyncio
import math
import signal
import time
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, cast

import limiting
import pytest
from audit import Audit, Line, until
from crew import Crew, Member
from ground import Ground, slow_on_keys

from mainspring.records.job import State
from mainspring.records.query import Filter
from mainspring.records.run import Ending
from mainspring.store.limits import LimitStore
from mainspring.stores import open_store

# Two workers leave room for a third one, and three have more slots than there are places.
QUICK: dict[str, Any] = {"beat": 0.1, "lease": 0.5, "sweep": 0.1, "max_crashes": 50, "concurrency": 4}
KEYS, JOBS_OF_A_KEY, METERED_JOBS = "abcdefgh", 10, 40


@pytest.fixture
def crew(tmp_path: Path, ground: Ground) -> Iterator[Crew]:
    crew = Crew(tmp_path, ground, limiting)
    try:
        yield crew
    finally:
        crew.close()


class Run(NamedTuple):
    """What tells a run from others: the jobs of one claim have one lease."""

    id: str
    lease: str


class Span(NamedTuple):
    """A time in which a run certainly held its lease: it had it somewhat earlier and longer."""

    id: str
    begun: float
    ended: float


class Watch:
    """Looks at the running jobs: of each run, when the first look that found it ended and the last one began."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.seen: dict[Run, Span] = {}

    def look(self) -> set[Run]:
        asked = time.monotonic()
        jobs = list(self.crew.client.sync.jobs.list(Filter(states=("running",)), limit=1000))
        answered = time.monotonic()
        runs = {Run(job.id, job.lease) for job in jobs if job.lease is not None}
        for run in runs:
            self.seen[run] = self.seen.get(run, Span(run.id, answered, asked))._replace(ended=asked)
        return runs

    def spans(self, audit: Audit) -> list[Span]:
        """Of each run from its first to its last sign. The end that a run notes after its worker was taken for dead is
        none: its code may go on for a while, beside the runs that took its place.
        """
        crashed = crashed_runs(audit)
        begun = {run_of(line): line.at for line in audit.lines if line.event == "start"}
        ended = {run: line.at for line in audit.lines if line.event == "end" and (run := run_of(line)) not in crashed}
        found = list[Span]()
        for run in begun.keys() | self.seen.keys():
            looked = self.seen.get(run, Span(run.id, math.inf, 0.0))
            found.append(
                Span(run.id, min(begun.get(run, math.inf), looked.begun), max(ended.get(run, 0.0), looked.ended))
            )
        return [span for span in found if span.begun < span.ended]


def run_of(line: Line) -> Run:
    return Run(line.id, line.lease)


def crashed_runs(audit: Audit) -> set[Run]:
    runs = [run for of_job in audit.runs.values() for run in of_job]
    return {Run(run.job_id, run.lease) for run in runs if run.ending is Ending.CRASHED}


def most(spans: Iterable[Span]) -> int:
    """How many of them there were at once."""
    steps = [step for span in spans for step in ((span.begun, 1), (span.ended, -1))]
    highest = at_once = 0
    for _, step in sorted(steps):
        highest = max(highest, at_once := at_once + step)
    return highest


def catch(crew: Crew, member: Member, watch: Watch) -> set[Run]:
    """Stops the worker while its runs have leases; returns them."""

    def caught() -> set[Run]:
        crew.freeze(member)
        at_work = set(map(run_of, member.lines("start"))) - set(map(run_of, member.lines("end")))
        if not (held := at_work & watch.look()):
            member.process.send_signal(signal.SIGCONT)
        return held

    until(lambda: member.lines("start"))
    return until(caught)


async def recount(url: str) -> tuple[tuple[str, ...], int]:
    """The groups whose stored state is wrong, and the running jobs of all limits."""
    store = open_store(url)
    await store.open()
    try:
        limits = cast(LimitStore, store)
        counted = await limits.recount_limits(limit=1000, now=await store.time())
        return counted.wrong, sum(use.running for use in await limits.limits())
    finally:
        await store.close()


@slow_on_keys
def test_limits_hold_though_a_worker_is_killed_and_another_comes_back_without_its_leases(crew: Crew) -> None:
    jobs = {key: crew.enqueue("share", key, times=JOBS_OF_A_KEY) for key in KEYS}
    watch = Watch(crew)
    killed, zombie = (crew.start(name, **QUICK) for name in ("killed", "zombie"))
    crew.start("other", **QUICK)
    cut = catch(crew, killed, watch)
    killed.kill()
    crew.start("second", **QUICK)
    cut |= catch(crew, zombie, watch)
    until(lambda: not watch.look() & cut)
    zombie.process.send_signal(signal.SIGCONT)
    until(lambda: zombie.lines("lost"))
    assert asyncio.run(recount(crew.url))[0] == ()
    until(lambda: not watch.look() and crew.all_final())

    assert asyncio.run(recount(crew.url)) == ((), 0)
    audit = crew.audit()
    audit.check(crew.acknowledged)
    assert {job.state for job in audit.jobs.values()} == {State.COMPLETED}
    assert cut <= crashed_runs(audit)
    spans = watch.spans(audit)
    assert most(spans) == limiting.TOTAL
    assert max(most(span for span in spans if span.id in ids) for ids in jobs.values()) == limiting.RUNNING


@slow_on_keys
def test_no_span_of_time_has_more_starts_than_the_rate_allows(crew: Crew) -> None:
    crew.enqueue("metered", times=METERED_JOBS)
    killed = crew.start("killed", **QUICK)
    crew.start("other", **QUICK)
    catch(crew, killed, Watch(crew))
    killed.kill()
    crew.start("second", **QUICK)
    crew.finished()
    audit = crew.audit()
    audit.check(crew.acknowledged)
    starts = sorted(run.started_at for runs in audit.runs.values() for run in runs)
    assert len(starts) > METERED_JOBS  # those that were cut started again
    interval = timedelta(seconds=1) / limiting.RATE
    for first, begun in enumerate(starts):
        for last, at in enumerate(starts[first:], first):
            assert last - first + 1 <= limiting.BURST + (at - begun) / interval, starts[first : last + 1]
