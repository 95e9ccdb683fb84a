"""The rules of flows beside the ideal: random plans, ends, cancels, and steps that are put back to work."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import json

from flow_ideal import Ending, EndState, Ideal
from flow_plans import draw_plan
from mainspring.flow.graph import Graph
from mainspring.flow.moves import add_items, cancel, end_steps, revive, start
from mainspring.flow.row_edit import MAX_INLINE_BYTES
from mainspring.flow.verdict import judge
from mainspring.records.flow import FAN_OUT, Flow, Move, StepEnd
from mainspring.records.job import NewJob
from mainspring.records.step import StepRef

NOW = datetime(2026, 3, 1, tzinfo=UTC)
EVENTS = 40


class Walk:
    """One flow under the rules, and its ideal. Both get the same events."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.plan = draw_plan(self.chance, lambda chance: ("part", 0))
        self.graph = Graph(self.plan)
        self.jobs: dict[int, NewJob] = {}
        """Every job that was made, by position."""
        self.ends: dict[int, str] = {}
        """The last state of those that have ended."""
        self.by_job: set[tuple[int, int]] = set()
        self.stopping: list[int] = []
        self.flow = self.apply(start(self.graph, "f", "default", NOW))
        self.ideal = Ideal(self.plan, self.by_job)
        self.check()

    def apply(self, move: Move) -> Flow:
        for job in move.jobs:
            assert job.step is not None
            assert job.step.position not in self.jobs
            self.jobs[job.step.position] = job
            if job.task == FAN_OUT:
                self.by_job.add((job.step.life, job.step.number))
        self.stopping += [p for p in self.unfinished() if ref(p).number in move.cancel]
        return move.flow

    def unfinished(self) -> list[int]:
        return [position for position in self.jobs if position not in self.ends]

    def current(self, positions: Iterable[int]) -> list[int]:
        """Those of the present life of their step."""
        return [p for p in positions if ref(p).life == self.flow.lives.get(ref(p).number, 0)]

    def step(self) -> None:
        kind, open = self.chance.random(), self.unfinished()
        if self.stopping and kind < 0.7:
            position = self.stopping.pop()
            if position not in self.ends:
                self.end(position, Ending("cancelled"))
        elif open and kind < 0.8:
            self.end_any(self.chance.choice(open))
        elif kind < 0.85:
            self.flow = self.apply(cancel(self.graph, self.flow, NOW))
            self.ideal.cancel()
        else:
            self.put_back()
        self.check()

    def end_any(self, position: int) -> None:
        if self.jobs[position].task == FAN_OUT and self.make_items(position):
            return
        state: EndState = self.chance.choice((*("completed",) * 6, "dead", "dead", "cancelled"))
        if state != "completed":
            self.end(position, Ending(state))
            return
        value: dict[str, Any] = {
            "x": self.chance.choice([0, 1, 2, None]),
            "items": self.chance.choice([[1, 2], [], None, [3], 7]),
        }
        if self.chance.random() < 0.2:
            value["long"] = "y" * MAX_INLINE_BYTES
        how = self.chance.random()
        self.end(position, Ending("completed", value, skipped=how < 0.1, finish=how > 0.97))

    def make_items(self, position: int) -> bool:
        """A page of the items. False if the job that makes them has no more to do, or is to end without them."""
        n = ref(position).number
        step = self.ideal.steps.get(n)
        if ref(position).life != self.ideal.lives[n] or step is None or step.items is None or step.made is None:
            return False
        left = step.items[step.made :][: self.chance.randint(1, 3)]
        texts = [json.encode(one).decode() for one in left]
        move = add_items(self.graph, self.flow, n, step.made + 1, texts, NOW, last=False)
        if not move.jobs:
            return False
        self.flow = self.apply(move)
        for _ in left:
            self.ideal.make_item(n)
        return True

    def end(self, position: int, ending: Ending) -> None:
        place, source = ref(position), self.plan.steps[ref(position).number].over
        if self.jobs[position].task == FAN_OUT and ending.state == "completed":
            items = self.ideal.value(source)
            ending = Ending() if isinstance(items, list) else Ending("dead") if items else Ending(skipped=True)
        self.ends[position] = ending.state
        result = json.encode(ending.value).decode() if ending.state == "completed" else None
        end = StepEnd(
            position=position, state=ending.state, result=result, skipped=ending.skipped, finish=ending.finish
        )
        self.flow = self.apply(end_steps(self.graph, self.flow, [end], NOW))
        if place.life == self.ideal.lives[place.number]:
            self.ideal.end(place.number, place.index, ending)

    def put_back(self) -> None:
        """A redrive of one job, or a retry of the flow."""
        failed = [p for p in self.current(self.ends) if self.ends[p] != "completed"]
        if failed and self.chance.random() < 0.5:
            failed, stopped = [self.chance.choice(failed)], list[int]()
        elif self.flow.state != "over":
            return
        else:
            numbers = {ref(p).number for p in failed}
            stopped = [n for n, status in enumerate(self.flow.statuses) if status in "dx" and n not in numbers]
        if not failed and not stopped:
            return
        places = [ref(p) for p in failed]
        single = [place.number for place in places if not place.index]
        items = [(ref(p).number, self.ends[p] == "cancelled") for p in failed if ref(p).index]
        for position in failed:
            del self.ends[position]
        self.flow = self.apply(revive(self.graph, self.flow, single, items, stopped, NOW))
        self.ideal.revive([(place.number, place.index) for place in places], stopped)

    def check(self) -> None:
        assert self.flow.statuses == "".join(self.ideal.statuses)
        assert [self.flow.lives.get(n, 0) for n in range(len(self.plan.steps))] == self.ideal.lives
        made = {(p.life, p.number, p.index) for p in map(ref, self.current(self.jobs))}
        by_job = {(life, n, index) for life, n, index in made if (life, n) in self.by_job and index}
        assert made - by_job == {(life, n, i) for life, n, i in self.ideal.jobs}
        for position in self.current(self.unfinished()):
            job, place = self.jobs[position], ref(position)
            if not job.refs and job.task != FAN_OUT:
                assert json.decode(job.payload) == self.ideal.arguments(place.number, place.index)
        assert (self.flow.state == "over") is self.ideal.over
        if self.ideal.over:
            assert judge(self.graph, self.flow).state == self.ideal.verdict()[0]


def ref(position: int) -> StepRef:
    return StepRef("f", position, "default")


@pytest.mark.parametrize("first", range(0, 600, 200))
def test_random_walks_of_the_rules_follow_the_ideal(first: int) -> None:
    for seed in range(first, first + 200):
        walk: Any = Walk(seed)
        try:
            for _ in range(EVENTS):
                walk.step()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
