"""Random walks of flows with tasks that yield: no item is made twice, none is missing, and no flow stands still."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring.errors import BadFlow
from mainspring.flow.graph import Graph
from mainspring.flow.moves import add_items, cancel, end_steps, is_exhausted, revive, start
from mainspring.flow.planner import checked_plan
from mainspring.flow.yielding import NO_MAPS, may_run, takes_items
from mainspring.records.flow import Flow, Move, StepEnd
from mainspring.records.plan import Operand, Plan, PlannedStep, ValueOf
from mainspring.records.step import StepRef

NOW = datetime(2026, 3, 1, tzinfo=UTC)
EVENTS = 60
# Items that each source yields.
ITEMS = 4


def draw_plan(chance: random.Random) -> Plan:
    """A plan with at least one task that yields, whose maps may need other steps, too."""
    while True:
        try:
            plan = checked_plan(Plan(tuple(_steps(chance)), fail_fast=chance.random() < 0.15))
        except BadFlow:  # a map needs what comes after its own source
            continue
        return plan


def _steps(chance: random.Random) -> Iterable[PlannedStep]:
    count = chance.randint(3, 7)
    sources = sorted(chance.sample(range(count - 1), chance.randint(1, 2)))
    maps = {n: chance.choice([m for m in sources if m < n]) for n in range(count) if _maps(chance, n, sources, count)}
    singles = [n for n in range(count) if n not in sources]
    for n in range(count):
        before = [m for m in singles if m < n]
        args: dict[str, Operand] = {}
        if before and chance.random() < 0.4:
            args["a"] = ValueOf(chance.choice(before))
        after = (chance.randrange(n),) if n and chance.random() < 0.3 else ()
        needs = n in maps or args or after
        on = chance.choice(("success",) * 5 + ("failure", "end")) if needs else "success"
        yield PlannedStep(
            name=f"s{n}",
            task="part",
            args=args,
            accepts_none=tuple(args) if on != "success" or chance.random() < 0.5 else (),
            after=after,
            on=on,  # type: ignore[arg-type]
            optional=chance.random() < 0.2,
            over=ValueOf(maps[n]) if n in maps else None,
            item="item" if n in maps else "",
            failed_ratio=chance.choice((0.0, 0.5, 1.0)) if n in maps else 0.0,
            yields=n in sources,
        )


def _maps(chance: random.Random, n: int, sources: list[int], count: int) -> bool:
    if n in sources or not any(m < n for m in sources):
        return False
    return n == count - 1 or chance.random() < 0.5


class Walk:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.plan = draw_plan(self.chance)
        self.graph = Graph(self.plan)
        self.jobs: set[int] = set()
        """Every job that was made, by position."""
        self.ends: dict[int, str] = {}
        self.flow = self.apply(start(self.graph, "f", "default", NOW))

    def apply(self, move: Move) -> Flow:
        for job in move.jobs:
            assert job.step is not None
            assert job.step.position not in self.jobs, "a job was made twice"
            assert job.step.index <= ITEMS
            self.jobs.add(job.step.position)
        self.stopped = {p for p in self.unfinished() if ref(p).number in move.cancel}
        return move.flow

    def unfinished(self) -> list[int]:
        return sorted(self.jobs - self.ends.keys())

    def is_current(self, position: int) -> bool:
        return ref(position).life == self.flow.lives.get(ref(position).number, 0)

    def step(self, *, disturbed: bool) -> None:
        for position in sorted(self.stopped):
            if position not in self.ends:
                self.end(position, "cancelled")
        kind, open = self.chance.random(), self.unfinished()
        if open and (kind < 0.85 or not disturbed):
            self.go_on(self.chance.choice(open), disturbed=disturbed)
        elif kind < 0.9 and disturbed:
            self.flow = self.apply(cancel(self.graph, self.flow, NOW))
        elif disturbed:
            self.put_back()
        if self.flow.state != "over":
            assert any(self.is_current(p) for p in self.unfinished()), "nothing runs, and it is not over"

    def go_on(self, position: int, *, disturbed: bool) -> None:
        place = ref(position)
        bad = disturbed and self.chance.random() < 0.25
        if self.plan.steps[place.number].yields and not bad:
            self.run_source(position)
            return
        self.end(position, self.chance.choice(("dead", "cancelled")) if bad else "completed")

    def run_source(self, position: int) -> None:
        """A page of a source, or its end: as worker/item_pages.py does it."""
        n = ref(position).number
        if not self.is_current(position) or not may_run(self.plan.steps[n], self.flow.state):
            self.end(position, "cancelled")
            return
        maps = [m for m in self.graph.yielders[n].maps if takes_items(self.graph, self.flow, m)]
        if not maps:
            self.end(position, "completed", NO_MAPS)
            return
        made = min(self.flow.counts[m].made for m in maps)
        texts = [str(k) for k in range(made, ITEMS)][: self.chance.randint(1, 3)]
        if not texts:
            self.end(position, "completed", str(ITEMS))
        for m in maps if texts else []:
            if self.flow.counts[m].made >= made:
                self.flow = self.apply(add_items(self.graph, self.flow, m, made + 1, texts, NOW, last=False))

    def end(self, position: int, state: Any, result: str = '"value"') -> None:
        self.ends[position] = state
        end = StepEnd(position=position, state=state, result=result if state == "completed" else None)
        self.flow = self.apply(end_steps(self.graph, self.flow, [end], NOW))

    def put_back(self) -> None:
        """A redrive of one job, or a retry of the flow: as the rules of the stores do it."""
        if is_exhausted(self.flow):
            return
        failed = [p for p in self.ends if self.is_current(p) and self.ends[p] != "completed"]
        stopped: list[int] = []
        if failed and self.chance.random() < 0.5:
            failed = [self.chance.choice(failed)]
        elif self.flow.state == "over":
            numbers = {ref(p).number for p in failed}
            stopped = [n for n, status in enumerate(self.flow.statuses) if status in "dx" and n not in numbers]
        else:
            return
        if failed or stopped:
            single = [ref(p).number for p in failed if not ref(p).index]
            items = [(ref(p).number, self.ends[p] == "cancelled") for p in failed if ref(p).index]
            for position in failed:
                del self.ends[position]
            self.flow = self.apply(revive(self.graph, self.flow, single, items, stopped, NOW))

    def run_to_the_end(self) -> None:
        before = sum(self.flow.lives.values())
        for _ in range(1000):
            if self.flow.state == "over":
                break
            self.step(disturbed=False)
        assert self.flow.state == "over", "it does not end"
        assert sum(self.flow.lives.values()) - before <= len(self.plan.steps), "a source runs again and again"
        for n in self.graph.sources:
            counts, life = self.flow.counts.get(n), self.flow.lives.get(n, 0)
            made = [ref(p).index for p in sorted(self.jobs) if ref(p).number == n and ref(p).life == life]
            if counts is None:
                assert made == []
                continue
            assert made == list(range(1, counts.made + 1))
            assert (counts.closed, counts.ended) == (True, counts.made)
            if self.flow.statuses[n] == "c":
                assert counts.made == ITEMS, f"items of step {n} are missing"


def ref(position: int) -> StepRef:
    return StepRef("f", position, "default")


@pytest.mark.parametrize("first", range(0, 600, 200))
def test_random_walks_of_tasks_that_yield_miss_no_item(first: int) -> None:
    for seed in range(first, first + 200):
        walk: Any = Walk(seed)
        try:
            for _ in range(EVENTS):
                walk.step(disturbed=True)
            walk.run_to_the_end()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
