"""One simulation, from its seed to its verdict; deterministic."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from random import Random
from typing import Any
from zlib import crc32

from msgspec import Struct

from mainspring import ids
from mainspring.control import schedules
from mainspring.stores.rules import claim
from mainspring.task.context import Context
from mainspring.task.task import Task
from mainspring.worker import flow_runs, runner, scheduler, worker

from .auditor import RULES, Fact, Violation
from .bugs import BUGS
from .cluster import Cluster
from .job_audit import audit_jobs
from .loop import Stuck, VirtualLoop
from .patch import patch
from .plan import Plan, draw

# Violations listed in a report. The first is the one to examine.
MAX_SHOWN_VIOLATIONS = 5


class Verdict(Struct, frozen=True):
    """The result of playing a plan."""

    plan: Plan
    violations: list[Violation]
    facts: list[Fact]

    @property
    def fine(self) -> bool:
        return not self.violations

    @property
    def digest(self) -> int:
        """A checksum of all facts: equal for equal stories."""
        return crc32("\n".join(map(repr, self.facts)).encode())

    def __str__(self) -> str:
        if self.fine:
            return f"seed {self.plan.seed} is fine: {len(self.facts)} facts, digest {self.digest:08x}"
        rule, job, what = self.violations[0]
        return f"seed {self.plan.seed} breaks {rule}: {job or 'the cluster'} {what}"

    def report(self) -> str:
        """The plan, the broken rules, and the story of the first job that shows one."""
        lines = [str(self.plan), ""]
        for rule, job, what in self.violations[:MAX_SHOWN_VIOLATIONS]:
            lines += [f"{rule} is broken ({RULES[rule]}):", f"    {job or 'the cluster'} {what}"]
        if not self.fine and (job := self.violations[0].job) is not None:
            lines += ["", f"the story of {job}:"]
            lines += [f"{fact.at:9.3f}  {fact.who:<9} {fact.what}" for fact in self.facts if fact.job == job]
        return "\n".join(lines)


def simulate(seed: int, bug: str | None = None) -> Verdict:
    """Plays the plan of a seed; with `bug`, on an engine with that bug planted."""
    return play(draw(seed), bug)


def play(plan: Plan, bug: str | None = None) -> Verdict:
    """Plays a plan to its end; with `bug`, on an engine with that bug planted."""
    with ExitStack() as stack:
        stack.enter_context(_seeded(plan.seed))
        stack.enter_context(patch(ids, "_last", 0))  # else the ids of this process would go on from the last simulation
        if bug is not None:
            stack.enter_context(BUGS[bug].plant())
        aio = stack.enter_context(asyncio.Runner(loop_factory=VirtualLoop))
        loop = aio.get_loop()
        assert isinstance(loop, VirtualLoop)
        cluster = Cluster(plan, loop)
        try:
            aio.run(_judge(cluster, plan))
        except Stuck as stuck:
            cluster.auditor.fail("W", None, str(stuck))
        loop.set_exception_handler(lambda *_: None)  # tasks that are left are cancelled
        cluster.clear()
        return Verdict(plan, list(cluster.auditor.violations), list(cluster.auditor.facts))


async def _judge(cluster: Cluster, plan: Plan) -> None:
    await cluster.play()
    await audit_jobs(cluster.auditor, cluster.store, int(plan.settings["max_crashes"]))


class _Machine:
    """Replaces the machine's sources of randomness, so that the seed decides: random bytes, ids, process id."""

    def __init__(self, seed: int) -> None:
        self.urandom = Random(f"{seed} machine").randbytes
        self._made = 0

    def new_id(self, now: datetime) -> str:
        self._made += 1
        return f"t{self._made:04}"

    def getpid(self) -> int:
        return 1


async def _plan_here(self: runner.Runner, task: Task[Any, Any], ctx: Context) -> Any:
    """Plans a flow in the loop: there is no other thread."""
    return flow_runs.plan(task, ctx)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Makes the seed the only source of randomness, and turns logging off."""
    machine, logger = _Machine(seed), logging.getLogger("mainspring")
    with ExitStack() as stack:
        for module in (worker, claim):
            stack.enter_context(patch(module, "os", machine))
        for module in (scheduler, schedules):
            stack.enter_context(patch(module, "new_id", machine.new_id))
        stack.enter_context(patch(runner.Runner, "_plan", _plan_here))
        stack.enter_context(patch(logger, "disabled", True))
        yield
