"""Random verbs about flows on two stores. After each one all answers and rows are equal, and rows and jobs agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from random import Random
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from mainspring.flow.graph import Graph
from mainspring.ids import JobId
from mainspring.records.flow import (
    FLOW_TASKS,
    CloseBatch,
    Flow,
    FlowDeadline,
    FlowRequest,
    FlowWithPlan,
    GiveSignal,
    SkipStep,
    StepStatus,
    TimeOut,
)
from mainspring.records.job import Action, Collecting, Job, NewJob, State
from mainspring.records.outcome import (
    NO_REVISION,
    AwaitedSignal,
    Cancel,
    Crashed,
    Discard,
    Done,
    Outcome,
    Policy,
    Released,
    RunEnd,
    Skip,
    Snooze,
    Stopped,
    Suspend,
    decide,
)
from mainspring.records.plan import Compare, Input, ListOf, Plan, PlannedStep, SignalStep, StepOptions, ValueOf
from mainspring.records.query import Filter
from mainspring.records.run import Checkpoint, RunReport
from mainspring.records.step import MAX_POSITION, NEXT_INDEX, StepRef, position_of
from mainspring.store import FlowStore, Store
from mainspring.testing.contract.build import NOW, beat, claim
from mainspring.testing.contract.flow import a_step
from mainspring.testing.twin import plain

T = TypeVar("T")
TASKS, NAMES, QUEUES = ("mail", "resize"), ("go", "stop"), ("high", "low")
MAX_FLOWS = 5
_BATCH = PlannedStep("jobs", "", over=ListOf(()), open_seconds=30.0)
_LABEL = ('"é"', '{"a":1}')


def _step(name: str, **fields: Any) -> PlannedStep:
    return a_step(name, task="mail", **fields)


def _signal(name: str, timeout: float | None = None, default: Input | None = None, **fields: Any) -> PlannedStep:
    return PlannedStep(name, "", signal=SignalStep(timeout, default), **fields)


PLANS = (
    Plan((_step("a"), _step("b", args={"x": ValueOf(0)}, options=StepOptions(queue="low"))), result=ValueOf(1)),
    Plan(
        (
            _step("a"),
            _step("b", optional=True),
            _step("c", args={"x": ValueOf(0)}, when=Compare("==", ValueOf(1), Input(0)), accepts_none=("x",)),
            _step("saved", after=(0, 1), on="failure"),
            _step("last", after=(2,), on="end"),
        ),
        ("1",),
        timeout=40.0,
    ),
    Plan(
        (_step("each", over=Input(0), item="x", failed_ratio=0.4), _step("sum", args={"all": ValueOf(0)})),
        ('[1,"é",null]',),
        fail_fast=True,
    ),
    Plan(
        (
            _step("a"),
            _signal("go", 5.0, Input(0), after=(0,)),
            _signal("stop", 20.0, after=(0,)),
            _step("b", args={"x": ValueOf(1)}),
            _step("c", args={"x": ValueOf(2)}, on="end", accepts_none=("x",)),
        ),
        ('"no"',),
    ),
    Plan((_signal("go"), _step("a", args={"x": ValueOf(0)}), _signal("stop", 5.0, after=(1,)))),
    Plan(
        (
            _BATCH,
            _step("on_failure", after=(0,), on="failure", summary="batch"),
            _step("on_success", after=(0,), summary="batch"),
            _step("on_complete", after=(0,), on="end"),
        ),
        _LABEL,
    ),
    Plan((_BATCH,), _LABEL),
)
# What a durable job runs: each further plan adds its steps.
GROWING = Plan((_step("a"), _step("b", over=Input(0), item="x", failed_ratio=1.0)), ("[1,2]",), grows=True)
_ENDS: tuple[RunEnd, ...] = (
    *(Done("1"),) * 6, Done('"é"'), Done("[1]"), Done('{"a":1}', finish=True), Skip("no"), Discard("no"),
    ValueError("no"), ValueError("no"), Snooze(1), Cancel("no"), Stopped("no"), Released(),
)  # fmt: skip


class FlowTwin:
    """A walk on two stores. It leaves them empty."""

    def __init__(self, left: Store, right: Store, seed: int) -> None:
        self.stores, self.chance, self.now = (left, right), Random(seed), NOW
        self._seed, self._made = seed, 0
        self.told: list[str] = []
        self.seen = Counter[str]()
        """What the walk has met."""
        self.jobs: list[Job] = []
        self.flows: dict[JobId, FlowWithPlan] = {}
        self.runs: list[tuple[Job, Job]] = []
        """Runs that go on, as each of the stores knows them: leases differ."""
        self.revisions: list[dict[JobId, int]] = []
        """Of the rows in the second store and in the first."""
        self._begun: list[NewJob] = []
        self._sent: list[tuple[list[Outcome], list[Outcome]]] = []

    async def walk(self, calls: int) -> None:
        verbs: dict[Callable[[], Awaitable[None]], int] = {
            self.begin: 3, self.add: 3, self.collect: 2, self.start: 9, self.end: 14, self.suspend: 4, self.report: 1,
            self.repeat: 1, self.give: 6, self.time_out: 5, self.close: 5, self.skip: 2, self.act: 5, self.wait: 3,
            self.crash: 1,
        }  # fmt: skip
        await self.begin()
        for _ in range(calls):
            (verb,) = self.chance.choices(list(verbs), list(verbs.values()))
            await verb()
            await self.compare()
        await self._empty()
        await self.crash()  # running jobs were cancelled only
        await self._empty()

    async def _empty(self) -> None:
        """Of a flow and its steps that are deleted together, stores may count the steps or not."""
        for store in self.stores:
            await store.change(Action.DELETE, Filter(), now=self.now, limit=1000)

    async def both(self, verb: Callable[[Store], Awaitable[T]]) -> tuple[T, T]:
        """The answers of both stores, which are equal."""
        left, right = [await verb(store) for store in self.stores]
        assert plain(left, {}) == plain(right, {}), f"{left}\n{right}\n{self.story}"
        return left, right

    @property
    def story(self) -> str:
        return "\n".join(self.told)

    # jobs

    def _new(self, plan: Plan | None = None, **fields: Any) -> NewJob:
        self._made += 1
        id = f"{self._seed:08x}-0000-7000-8000-{self._made:012}"  # of this walk only: stores may keep plans by id
        keys = {
            "unique_key": self.chance.choice(("k1", "k2")),
            "on_conflict": self.chance.choice(("return", "replace")),
        }
        more = {**(keys if self.chance.random() < 0.2 else {}), **fields}
        task, queue = self.chance.choice(TASKS), self.chance.choice(QUEUES)
        return NewJob(id=id, task=task, payload="{}", queue=queue, plan=plan, **more)

    async def _enqueue(self, *new: NewJob) -> None:
        for one in new:
            plan = None if one.plan is None else PLANS.index(one.plan)
            given = (one.task, one.queue, one.unique_key, one.on_conflict, one.collect)
            self.told.append(f"enqueue {one.id} {given}, plan {plan}, {one.step}")
        left, _ = await self.both(lambda store: store.enqueue(new, now=self.now))
        self.seen.update(f"enqueue: {answer.status}" for answer in left)

    async def begin(self) -> None:
        """Enqueues a flow or a plain job, or repeats a request."""
        known = {job.id for job in self.jobs}  # stores may keep plans by id: none that was deleted comes back
        if (begun := [one for one in self._begun if one.id in known]) and self.chance.random() < 0.2:
            await self._enqueue(self.chance.choice(begun))
            return
        plan = self.chance.choice(PLANS) if self.chance.random() < 0.7 else None
        if plan is None or len(self.flows) < MAX_FLOWS:
            self._begun.append(new := self._new(plan))
            await self._enqueue(new)

    async def add(self) -> None:
        """Adds jobs to a batch, seldom to a step that is none."""
        batches = [flow for flow in self._planned() if flow.plan.steps[0].open_seconds is not None]
        if found := batches or (self._planned() if self.chance.random() < 0.1 else []):
            row = self.chance.choice(found).row
            ref = StepRef(row.id, position_of(0, NEXT_INDEX, row.lives.get(0, 0)), row.queue)
            await self._enqueue(*(self._new(step=ref) for _ in range(self.chance.randint(1, 3))))

    async def collect(self) -> None:
        bounds = Collecting(size=3, delay=10.0, grace=self.chance.choice((None, 2.0)), max_bytes=1000)
        first = self.now + timedelta(seconds=min(bounds.delay, bounds.grace or bounds.delay))
        fields = {"collect": bounds, "unique_key": "c", "on_conflict": "return", "run_at": first}
        new = replace(self._new(**fields), task="mail", queue="high", payload='{"items":[1]}')
        await self._enqueue(new)

    async def start(self) -> None:
        limit = self.chance.randint(1, 4)
        for store in self.stores:
            await beat(store, until=self.now + timedelta(seconds=60), now=self.now)
        left, right = [await claim(store, tasks=TASKS, limit=limit, now=self.now) for store in self.stores]
        self.told.append(f"start {[(job.id, job.task) for job in left.jobs]}")
        assert [job.id for job in left.jobs] == [job.id for job in right.jobs], self.story
        self.runs += zip(left.jobs, right.jobs, strict=True)

    def _take_run(self) -> tuple[Job, Job] | None:
        return self.runs.pop(self.chance.randrange(len(self.runs))) if self.runs else None

    async def _finish(self, *ends: tuple[tuple[Job, Job], RunEnd], **fields: Any) -> None:
        policy = Policy(max_retries=self.chance.choice((0, 3)))
        sent: tuple[list[Outcome], list[Outcome]] = ([], [])
        for run, ended in ends:
            flow, stale = self.flows.get(run[0].id), self.chance.random() < 0.1
            if flow is not None and flow.row.planned and flow.row.state != "over" and not flow.plan.grows:
                ended, stale = self.chance.choice((Suspend(), ended)), True
            for job, outcomes, known in zip(run, sent, reversed(self.revisions), strict=True):
                outcome = replace(decide(job, ended, now=self.now, policy=policy), **fields)
                if flow is not None and flow.row.planned and outcome.state.final and not flow.plan.grows:
                    read = NO_REVISION if isinstance(ended, Stopped) else known[job.id] - stale
                    outcome = replace(outcome, concludes=read)
                outcomes.append(outcome)
            self.told.append(f"end {run[0].id} ({run[0].task}): {ended!r}")
        self._sent.append(sent)
        await self._send(sent)

    async def _send(self, sent: tuple[list[Outcome], list[Outcome]]) -> None:
        left, right = [await store.finish(outcomes) for store, outcomes in zip(self.stores, sent, strict=True)]
        assert left == right, self.story
        self.seen[f"finish: {'all' if len(left) == len(sent[0]) else 'not all'} accepted"] += 1

    async def end(self) -> None:
        """Of each flow one: in which order it counts those of one call is left to the stores."""
        runs = [run for _ in range(self.chance.randint(1, 3)) if (run := self._take_run()) is not None]
        of_flows = {self._root(run[0].id): run for run in runs}
        self.runs += [run for run in runs if run not in of_flows.values()]
        await self._finish(*((run, self.chance.choice(_ENDS)) for run in of_flows.values()))

    async def repeat(self) -> None:
        """Sends outcomes once more."""
        if self._sent:
            self.told.append("repeat outcomes")
            await self._send(self.chance.choice(self._sent))

    async def suspend(self) -> None:
        if (run := self._take_run()) is None:
            return
        awaits = [
            AwaitedSignal(name, self.chance.choice((None, self.now + timedelta(seconds=self.chance.randrange(9)))))
            for name in self.chance.sample(NAMES, self.chance.randint(1, 2))
        ]
        flow, until = self.flows.get(run[0].id), self.now + timedelta(seconds=self.chance.randrange(5))
        waits, naps = Suspend(awaits=tuple(awaits)), Suspend(until=until)
        if flow is not None and flow.row.planned and not flow.plan.grows:
            ended = Suspend()
        elif flow is not None and flow.row.planned:
            ended = self.chance.choice((Suspend(GROWING), Suspend(), waits, naps))
        else:
            plan = self.chance.choice((*PLANS, GROWING, GROWING)) if len(self.flows) < MAX_FLOWS + 3 else None
            ended = self.chance.choice((Suspend(plan), naps, waits, waits, waits))
        await self._finish((run, ended))

    async def report(self) -> None:
        if self.runs:
            run, n = self.chance.choice(self.runs), self.chance.randint(1, 3)
            kept = Checkpoint(n, f"é {n}", self.now, f'"{self.now}"')
            reports = [RunReport(id=job.id, lease=job.lease or "", checkpoints=(kept,)) for job in run]
            for store, one in zip(self.stores, reports, strict=True):
                await store.report([one])
            self.told.append(f"report {run[0].id} {n}")
            await self.both(lambda store: cast(FlowStore, store).checkpoints(run[0].id))

    async def crash(self) -> None:
        """All runs end, since their worker is silent."""
        self.now += timedelta(seconds=61)
        lost = [await store.orphaned(now=self.now, limit=1000) for store in self.stores]
        self.told.append(f"crash {[job.id for job in lost[0]]}")
        assert [job.id for job in lost[0]] == [job.id for job in lost[1]], self.story
        limit, self.runs = self.chance.choice((1, 9)), []
        sent = [[decide(job, Crashed("ada", limit), now=self.now) for job in jobs] for jobs in lost]
        await self._send((sent[0], sent[1]))

    async def wait(self) -> None:
        self.now += timedelta(seconds=self.chance.choice((0.000001, 1, 5, 20)))
        self.told.append(f"it is {self.now:%H:%M:%S.%f}")

    async def act(self) -> None:
        """Leaves the engine's own jobs alone: without its job a deadline does not come. Takes one job of each flow: the
        order in which one call stops a flow and its steps is left to the stores."""
        own = {job.id: job for job in self.jobs if job.task not in FLOW_TASKS}
        chosen = self.chance.sample(sorted(own), min(len(own), self.chance.randint(1, 3)))
        of_flows = {self._root(id): id for id in chosen}
        actions = (*(Action.CANCEL,) * 3, *(Action.RETRY,) * 5, Action.PAUSE, Action.RESUME, Action.DELETE)
        action, which = self.chance.choice(actions), Filter(ids=tuple(sorted(of_flows.values())))
        self.told.append(f"{action} {which.ids}")
        await self.both(lambda store: store.change(action, which, now=self.now, limit=9, reason="why"))

    def _root(self, id: JobId) -> JobId:
        jobs = {job.id: job for job in self.jobs}
        while (job := jobs.get(id)) is not None and job.step is not None:
            id = job.step.flow
        return id

    # flows

    async def _ask(self, id: JobId, request: FlowRequest) -> None:
        self.told.append(f"{request} of {id}")
        left, _ = await self.both(lambda store: cast(FlowStore, store).change_flow(id, request, now=self.now))
        self.seen[f"{type(request).__name__}: {'done' if left is None else left.signal or 'refused'}"] += 1

    async def give(self) -> None:
        waiting = [(row.id, name) for row in self._rows() for name in row.waits]
        if waiting and self.chance.random() < 0.5:
            id, name = self.chance.choice(waiting)
        elif self.jobs:
            id, name = self.chance.choice(self.jobs).id, self.chance.choice((*NAMES, *NAMES, "other"))
        else:
            return
        value, delivery = self.chance.choice(('"é"', "1", '{"a":1}')), self.chance.choice(("d1", "d2", "d3"))
        await self._ask(id, GiveSignal(name, value, delivery))

    async def time_out(self) -> None:
        """A deadline comes, sometimes late, or one that is not there any more."""
        found = [(row.id, deadline) for row in self._rows() for deadline in _deadlines(row)]
        if found:
            id, deadline = self.chance.choice(found)
            self.now = max(self.now, deadline.at)
            await self._ask(id, TimeOut(deadline.job_id if self.chance.random() < 0.9 else "another"))

    async def close(self) -> None:
        batches = [flow for flow in self._planned() if flow.plan.steps[0].open_seconds is not None]
        if found := batches or (self._planned() if self.chance.random() < 0.1 else []):
            row = self.chance.choice(found).row
            made = row.counts[0].made if 0 in row.counts else 0
            await self._ask(row.id, CloseBatch(self.chance.choice((None, None, None, made, made + 1))))

    async def skip(self) -> None:
        if found := self._planned():
            row = self.chance.choice(found).row
            await self._ask(row.id, SkipStep(self.chance.randrange(len(row.statuses)), "by phone"))

    # comparing

    def _rows(self) -> list[Flow]:
        return [flow.row for _, flow in sorted(self.flows.items())]

    def _planned(self) -> list[FlowWithPlan]:
        return [flow for _, flow in sorted(self.flows.items()) if flow.row.planned]

    async def compare(self) -> None:
        """All jobs and rows are equal, and those of the first store agree."""
        (self.jobs, others) = [await store.jobs(Filter(), now=self.now, limit=1000) for store in self.stores]
        leases = [{job.lease: job.id for job in jobs if job.lease is not None} for jobs in (self.jobs, others)]
        both = [plain(jobs, names) for jobs, names in zip((self.jobs, others), leases, strict=True)]
        assert both[0] == both[1], self.story
        found, _ = await self.both(self._flows)
        self.flows = {flow.row.id: flow for flow in found}
        jobs = {job.id: job for job in self.jobs}
        for flow in found:
            steps = [job for job in self.jobs if job.step is not None and job.step.flow == flow.row.id]
            try:
                check(flow, jobs[flow.row.id], steps, jobs)
            except AssertionError as error:
                raise AssertionError(f"{error}\n{flow.row}\n{jobs[flow.row.id]}\n{steps}\n{self.story}") from None
            self.seen.update(flow.row.statuses)
            self.seen[f"flow: {flow.row.state}"] += 1
        if found:
            id = self.chance.choice(found).row.id
            pages = [
                await cast(FlowStore, store).step_jobs(id, first=0, last=MAX_POSITION, limit=1000)
                for store in self.stores
            ]
            assert [job.id for job in pages[0]] == [job.id for job in pages[1]], self.story

    async def _flows(self, store: Store) -> list[FlowWithPlan]:
        """Changes of one batch may be one revision or several."""
        found = await cast(FlowStore, store).flows([job.id for job in self.jobs])
        self.revisions = [{flow.row.id: flow.row.revision for flow in found}, *self.revisions][:2]
        return [replace(flow, row=replace(flow.row, revision=0)) for flow in found]


def _deadlines(row: Flow) -> list[FlowDeadline]:
    return [one for one in (row.deadline, *row.waits.values()) if one is not None]


def check(flow: FlowWithPlan, own: Job, steps: list[Job], jobs: Mapping[JobId, Job]) -> None:
    """The row, the flow's own job and the jobs of its steps agree."""
    row = flow.row
    for deadline in _deadlines(row):
        timer = jobs.get(deadline.job_id)
        assert timer is not None, f"the deadline {deadline} has no job"
        assert not timer.state.final, f"nothing will tell of the deadline {deadline}"
    decided = row.waits.keys() & (row.inbox.keys() | set(row.late))
    assert not decided, f"waits for {decided}, which has come"
    if own.state is State.WAITING:
        goes_on = row.planned and row.state != "over"
        assert goes_on or (row.waits and (flow.plan.grows or not row.planned)), "waits for nothing"
    elif row.planned and not flow.plan.grows:
        crashed = own.failure is not None and own.failure.type in ("WorkerLost", "PoisonPill")  # while it concluded
        goes_on = row.state != "over" and own.state not in (State.RUNNING, State.PAUSED)
        assert not goes_on or crashed, "does not wait for its steps"
    if (
        not row.planned or flow.plan.grows or own.state is State.COMPLETED
    ):  # jobs of its dead steps may run again, by themselves
        return
    current = [job.step for job in steps if job.step is not None and job.step.life == row.lives.get(job.step.number, 0)]
    unfinished = {job.step.position for job in steps if job.step in current and job.step and not job.state.final}
    running = {StepRef(row.id, position, "").number for position in unfinished}
    released = {n for n, status in enumerate(row.statuses) if status == StepStatus.RELEASED}
    assert released - set(Graph(flow.plan).open_steps) <= running, "a step is released, and nothing will end it"
    assert running - set(row.counts) <= released, "a job of a step that is not released goes on"
    for n, counts in row.counts.items():
        left = sum(1 for position in unfinished if (ref := StepRef(row.id, position, "")).number == n and ref.index)
        assert counts.made - counts.ended == left, f"step {n} counts {counts}, and {left} of its jobs are unfinished"
