"""The twin test: the same random verbs on two stores, with every answer compared; a difference is a bug."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from ..clock import EPOCH
from ..ids import Lease
from ..records.circuit import Breaker
from ..records.job import SHOWN, Action, Collecting, Job, NewJob, State
from ..records.outcome import Outcome
from ..records.query import SORTS, Changed, Cursor, Filter, Sort, Update
from ..records.run import Checkpoint, Ending, Failure, Items, LogLine, OutputChunk, Progress, RunNotes, RunReport, Usage
from ..records.tally import SPAN_SECONDS, Span
from ..records.worker import Claim, WorkerCommands, WorkerInfo
from ..retry import Backoff
from ..store import Store
from .twin_answers import Verb, each, plain
from .twin_documents import DOCUMENT_STEPS, DocumentSteps
from .twin_limits import LIMIT_STEPS, LimitSteps, limit_key_of_request
from .twin_schedules import ID, OWN_JOBS, SCHEDULE_STEPS, SCHEDULES, ScheduleSteps

START = datetime(2030, 1, 1, tzinfo=UTC)
QUEUES, TASKS, TAGS, WORKERS = ("high", "low"), ("mail", "resize"), ("x", "y"), ("ada", "bob", "cyd")

_FAILURE = Failure("ValueError", "böse 'x' 17")

T = TypeVar("T")
_ids = st.integers(0, OWN_JOBS - 1).map(ID.format)
_any_ids = st.integers(0, OWN_JOBS + 19).map(ID.format)
_OPTIONS: list[dict[str, Any]] = [
    {},
    {"tags": ("x",), "timeout": None, "max_retries": 0, "fingerprint": "0011223344"},
    {"fingerprint": "aabbccddee"},
    {"tags": ("y", "x"), "timeout": 1.5, "backoff": Backoff.linear(2), "metadata": {"a": [1, {"é": None}]}},
]
_COLLECTING = [
    Collecting(size=2, delay=10.0, grace=2.5, max_bytes=1000),
    Collecting(size=9, delay=5.0, max_bytes=30),
]
_requests = st.fixed_dictionaries(
    {
        "id": _ids,
        "queue": st.sampled_from(QUEUES),
        "task": st.sampled_from(TASKS),
        "payload": st.sampled_from(['"a"', '{"é": 1e400}', '{"items":["é"]}']),
        "priority": st.integers(-1, 1),
        "options": st.sampled_from(_OPTIONS),
    },
    optional={
        "run_at": st.sampled_from([-5, -1, 0, 0.000001, 1, 5]),
        "expires_at": st.sampled_from([0, 1, 5, 30, 60]),
        "unique_key": st.sampled_from(["k1", "k2", "k3"]),
        "idempotency_key": st.sampled_from(["k1", "k2", "k3"]),
        "on_conflict": st.sampled_from(["replace", "debounce", "replace", "debounce", "raise"]),
        "debounce_limit": st.sampled_from([2.5, 20.0]),
        "collect": st.sampled_from(_COLLECTING),
    },
)
_parts: dict[str, st.SearchStrategy[Any]] = {
    "ids": st.lists(_any_ids, max_size=4).map(tuple),
    "states": st.lists(st.sampled_from(SHOWN), max_size=4).map(tuple),
    "queues": st.sampled_from([("high",), QUEUES, ()]),
    "tasks": st.sampled_from([("mail",), TASKS, ()]),
    "tags": st.sampled_from([("x",), ("y", "x"), ()]),
    "workers": st.sampled_from([("ada",), WORKERS, ()]),
    "errors": st.sampled_from([(_FAILURE.kind,), ("OSError: …",), ()]),
    "key_prefix": st.sampled_from(["k", "k1", ""]),
    "schedules": st.sampled_from([("a",), ("a:1", "ü"), SCHEDULES, ()]),
    "created_after": st.integers(0, 60).map(lambda n: START + timedelta(seconds=n)),
    "created_before": st.integers(0, 60).map(lambda n: START + timedelta(seconds=n)),
}
_filters = st.one_of(
    st.just(Filter()),
    st.just(Filter(states=("running",))),
    *(st.builds(Filter, **{name: part}) for name, part in _parts.items()),
    st.builds(Filter, **{name: st.none() | part for name, part in _parts.items()}),
)
_endings: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"state": State.COMPLETED, "ending": Ending.COMPLETED, "result": '"é"'},
        {"state": State.COMPLETED, "ending": Ending.COMPLETED, "failure": _FAILURE},
        {"state": State.PENDING, "ending": Ending.FAILED, "run_at": 5, "failure": _FAILURE},
        {"state": State.PENDING, "ending": Ending.SNOOZED, "run_at": 0.000001, "refund": True},
        {"state": State.PENDING, "ending": Ending.RELEASED, "run_at": 0, "refund": True},
        {"state": State.DEAD, "ending": Ending.TIMEOUT, "failure": _FAILURE},
        {"state": State.DEAD, "ending": Ending.FAILED, "failure": Failure("OSError", "no 3")},
        {"state": State.CANCELLED, "ending": Ending.CANCELLED},
        {"state": State.PENDING, "ending": Ending.CRASHED, "run_at": 0, "crash": True, "silent": True},
        {"state": State.PENDING, "ending": Ending.CRASHED, "run_at": 0, "crash": True},
        {"state": State.DEAD, "ending": Ending.CRASHED, "crash": True, "silent": True, "failure": _FAILURE},
    ]
)
_BREAKER = Breaker(2, 10.0)
_extras: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"breaker": _BREAKER},
        {"breaker": _BREAKER},
        {"breaker": _BREAKER, "silent": True},
        {"task": "", "queue": ""},
        {"account": RunNotes(Items(3, 1), Usage(0.5, 1 << 20), {"a": "é"})},
    ]
)
_updates = st.sampled_from(
    [
        None,
        Update(),
        Update(priority=1, tags=("y",), metadata={"b": 1}, max_retries=7),
        Update(payload='"y"', fingerprint="0011223344"),
        Update(queue="low", payload='"z"', timeout=None, run_at=START + timedelta(seconds=30), expires_at=None),
    ]
)
_then = st.lists(_requests, max_size=2)
_reasons = st.sampled_from(["", "why"])
_some = st.sampled_from([100, 1, 2, 3])
_which = st.integers(0, 9)
_workers, _queues = st.sampled_from(WORKERS), st.sampled_from([None, None, None, QUEUES, ("high",), ()])
_tasks = st.sampled_from([TASKS, TASKS, TASKS, ("mail",), ("unknown",)])
# Weight, method and arguments of each step. One rule plays them all: Hypothesis leaves out most of several rules in
# a run (swarm testing), and then few jobs would reach a second attempt.
_STEPS: list[tuple[int, str, dict[str, st.SearchStrategy[Any]]]] = [
    (3, "time_passes", {"seconds": st.sampled_from([1, 5, 0.000001, 1, 5, 30])}),
    (5, "enqueue", {"requests": st.lists(_requests, min_size=1, max_size=5)}),
    (3, "beat", {"worker": _workers, "span": st.sampled_from([60, 20, 1, 0, -1])}),
    (3, "claim", {"worker": _workers, "queues": _queues, "tasks": _tasks, "limit": _some}),
    (6, "beat_and_claim", {"worker": _workers, "limit": _some}),
    (8, "finish", {"chosen": st.lists(st.tuples(_which, _endings, _extras), min_size=1, max_size=5), "then": _then}),
    (2, "report", {"chosen": st.lists(_which, min_size=1, max_size=3), "progress": st.booleans()}),
    (
        1,
        "order",
        {"workers": st.sampled_from([None, ("ada",), ()]), "drained": st.booleans(), "stopped": st.booleans()},
    ),
    (1, "prune", {"keep": st.integers(0, 2), "age": st.sampled_from([0, 5, 60]), "limit": _some}),
    (2, "finish_stale", {"again": st.lists(_which, max_size=3), "foreign": st.tuples(_which, _which)}),
    (4, "crash_and_sweep", {"worker": _workers, "limit": _some, "rescued": st.sampled_from([False, False, True])}),
    (
        6,
        "change",
        {
            "action": st.sampled_from([*Action, Action.CANCEL]),
            "which": _filters,
            "limit": _some,
            "reason": _reasons,
            "update": _updates,
            "after": st.none() | _ids,
        },
    ),
    (1, "pause_queue", {"name": st.sampled_from(QUEUES), "paused": st.booleans()}),
    (
        3,
        "read",
        {
            "which": _filters,
            "limit": _some,
            "after": st.none() | st.tuples(_ids, st.integers(0, 60)),
            "newest": st.booleans(),
            "sort": st.sampled_from(SORTS),
        },
    ),
]
_Steps = st.SearchStrategy[tuple[str, dict[str, Any]]]


def _weighted(*steps: tuple[int, str, dict[str, st.SearchStrategy[Any]]]) -> _Steps:
    chosen = st.sampled_from([step for step in steps for _ in range(step[0])])
    return chosen.flatmap(lambda step: st.tuples(st.just(step[1]), st.fixed_dictionaries(step[2])))


_steps = _weighted(*_STEPS, *SCHEDULE_STEPS, *DOCUMENT_STEPS)
_limit_steps = _weighted(*_STEPS, *LIMIT_STEPS)


def twin_machine(
    make_left: Callable[[], Store], make_right: Callable[[], Store], *, limit_keys: Sequence[str | None] = ()
) -> type[RuleBasedStateMachine]:
    """Returns a Hypothesis state machine over two new stores; run its `TestCase`. `limit_keys`: groups of its jobs."""

    class Twin(_Twin):
        def make(self) -> tuple[Store, Store]:
            return make_left(), make_right()

    if not limit_keys:
        return Twin

    class LimitedTwin(Twin):
        def __init__(self) -> None:
            self.limit_keys = limit_keys
            super().__init__()

        @rule(step=_limit_steps)
        def play(self, step: tuple[str, dict[str, Any]]) -> None:
            self._play(step)

    return LimitedTwin


class _Twin(ScheduleSteps, DocumentSteps, LimitSteps, RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._stores: tuple[Store, ...] = ()
        self.now = START
        # Each store mints its own leases. An alias, the number of the claim, names a lease on both sides.
        self.aliases: tuple[dict[Lease, str], ...] = ({}, {})
        self.leases: tuple[dict[str, Lease], ...] = ({}, {})
        self.runs: list[tuple[str, str]] = []
        self.outcomes: list[Outcome] = []
        """Every outcome that was sent, accepted or not."""
        self.places: dict[str, dict[str, Any]] = {}
        """Task, queue, schedule and due time of each claimed job, as an outcome repeats them."""

    def make(self) -> tuple[Store, Store]:
        raise NotImplementedError

    @initialize(requests=st.lists(_requests, min_size=3, max_size=6))
    def open(self, requests: list[dict[str, Any]]) -> None:
        self._stores = self.make()
        self._both(lambda store: store.open())
        self.enqueue(requests)

    def teardown(self) -> None:
        if self._stores:
            self._both(lambda store: store.close())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def _both(self, verb: Verb[T], learn: Callable[[T, T], None] | None = None) -> T:
        """Runs a verb on both stores, asserts that the answers are equal, and returns the left one."""
        left, right = self._loop.run_until_complete(each(verb, self._stores))
        if learn is not None:
            learn(left, right)
        seen = [plain(answer, alias) for answer, alias in zip((left, right), self.aliases, strict=True)]
        assert seen[0] == seen[1]
        return left

    def _learn(self, left: Claim, right: Claim) -> None:
        name = f"lease {len(self.leases[0])}"
        for claim, alias, leases in zip((left, right), self.aliases, self.leases, strict=True):
            for job in claim.jobs[:1]:
                alias[job.lease or ""], leases[name] = name, job.lease or ""

    def _finish(self, outcomes: list[Outcome]) -> None:
        def real(store: Store) -> list[Outcome]:
            leases = self.leases[self._stores.index(store)]
            return [replace(outcome, lease=leases.get(outcome.lease, "none")) for outcome in outcomes]

        self._both(lambda store: store.finish(real(store)))

    @rule(step=_steps)
    def play(self, step: tuple[str, dict[str, Any]]) -> None:
        self._play(step)

    def _play(self, step: tuple[str, dict[str, Any]]) -> None:
        verb, given = step
        getattr(self, verb)(**given)

    @invariant()
    def both_hold_the_same_jobs(self) -> None:
        if self._stores:
            self._both(lambda store: store.jobs(Filter(), now=self.now, limit=1000))
            self._both(lambda store: store.overview(now=self.now))
            self._both(lambda store: store.schedules(limit=9))

    @invariant()
    def active_jobs_of_schedules_are_unfinished(self) -> None:
        if self._stores:
            left = self._stores[:1]
            ((rows,), (jobs,)) = (
                self._loop.run_until_complete(each(lambda store: store.schedules(limit=9), left)),
                self._loop.run_until_complete(each(lambda store: store.jobs(Filter(), now=self.now, limit=1000), left)),
            )
            going = {job.id for job in jobs if not job.state.final}
            assert all(set(row.active) <= going for row in rows)

    # the steps

    def time_passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def enqueue(self, requests: list[dict[str, Any]]) -> None:
        jobs = self._new_jobs(requests)
        self._both(lambda store: store.enqueue(jobs, now=self.now))

    def _new_jobs(self, requests: list[dict[str, Any]]) -> list[NewJob]:
        keys = self.limit_keys or [None]
        more = [{**one["options"], "limit_key": limit_key_of_request(one, keys)} for one in requests]
        return [NewJob(**self._dated(one), **given) for one, given in zip(requests, more, strict=True)]

    def claim(self, worker: str, queues: Sequence[str] | None, tasks: Sequence[str], limit: int) -> None:
        def verb(store: Store) -> Awaitable[Claim]:
            return store.claim(queues, worker=worker, tasks=tasks, limit=limit, now=self.now)

        taken = self._both(verb, self._learn)
        self.runs += [(job.id, self.aliases[0][job.lease or ""]) for job in taken.jobs]
        self.places |= {
            job.id: {name: getattr(job, name) for name in ("task", "queue", "schedule", "due_at", "limit_key")}
            for job in taken.jobs
        }

    def beat_and_claim(self, worker: str, limit: int) -> None:
        self.beat(worker, 60)
        self.claim(worker, None, TASKS, limit)

    def beat(self, worker: str, span: float) -> None:
        info = WorkerInfo(
            id=worker,
            host="host",
            pid=1,
            queues=None,
            tasks=TASKS,
            concurrency=3,
            started_at=START,
            running=len(self.runs),
        )
        self._both(lambda store: store.beat(info, until=self.now + timedelta(seconds=span), now=self.now))

    def finish(
        self, chosen: list[tuple[int, dict[str, Any], dict[str, Any]]], then: list[dict[str, Any]] | None = None
    ) -> None:
        outcomes = []
        after = tuple(self._new_jobs(then or []))
        for n, ending, extra in chosen if self.runs else []:
            # Counted from the newest run, so that small numbers are runs still under way.
            job_id, lease = self.runs[-1 - n % len(self.runs)]
            more = {**self._dated(ending), **self.places[job_id], **extra, "then": after, "started_at": START}
            outcomes.append(Outcome(id=job_id, lease=lease, finished_at=self.now, **more))
        self.outcomes += outcomes
        self._finish(outcomes)

    def report(self, chosen: list[int], progress: bool) -> None:
        def real(store: Store) -> list[RunReport]:
            leases = self.leases[self._stores.index(store)]
            return [
                RunReport(
                    id=job_id,
                    lease=leases.get(lease, "none"),
                    lines=tuple(LogLine(1, n, self.now, 20, f"é {n}") for n in (1, 2)),
                    progress=Progress(1, self.now, 3, 7, "ü") if progress else None,
                    chunks=tuple(OutputChunk(n, 1, self.now, f'"é {n}"', n == 2) for n in (1, 2)),
                    checkpoints=tuple(Checkpoint(n, f"é {n}", self.now, f'"{self.now}"') for n in (1, 2)),
                )
                for job_id, lease in (self.runs[-1 - n % len(self.runs)] for n in chosen)
            ]

        if self.runs:
            self._both(lambda store: store.report(real(store)))

    def order(self, workers: Sequence[str] | None, drained: bool, stopped: bool) -> None:
        self._both(lambda store: store.command_workers(workers, WorkerCommands(3, drained, stopped), now=self.now))

    def prune(self, keep: int, age: float, limit: int) -> None:
        before = self.now - timedelta(seconds=age)
        for state, task in self._both(lambda store: store.finished_groups()):
            self._prune(state, task, keep, before, limit)

    def _prune(self, state: State, task: str, keep: int, before: datetime, limit: int) -> None:
        old = self._both(lambda store: store.prunable(state, task, keep=keep, before=before, limit=limit))
        gone = Filter(ids=tuple(job.id for job in old))
        self._both(lambda store: store.change(Action.DELETE, gone, now=self.now, limit=limit))

    def finish_stale(self, again: list[int], foreign: tuple[int, int]) -> None:
        """Sends outcomes again, and one under the lease of another run."""
        if not self.outcomes:
            return
        job, run = (self.outcomes[n % len(self.outcomes)] for n in foreign)
        repeated = [self.outcomes[-1 - n % len(self.outcomes)] for n in again]
        self._finish([*repeated, replace(job, lease=run.lease)])

    def crash_and_sweep(self, worker: str, limit: int, rescued: bool) -> None:
        self.beat(worker, 0)
        lost = self._both(lambda store: store.orphaned(now=self.now, limit=limit))
        if rescued:
            self.beat(worker, 20)
        crash: dict[str, Any] = {"state": State.PENDING, "ending": Ending.CRASHED, "run_at": self.now}
        crash |= {"crash": True, "silent": True, "breaker": _BREAKER}
        runs = [(job.id, self.aliases[0][job.lease or ""]) for job in lost]
        outcomes = [
            Outcome(id=job_id, lease=lease, finished_at=self.now, **crash, **self.places[job_id])
            for job_id, lease in runs
        ]
        self.outcomes += outcomes
        self._finish(outcomes)

    def change(
        self, action: Action, which: Filter, limit: int, reason: str, update: Update | None, after: str | None
    ) -> None:
        def verb(store: Store) -> Awaitable[Changed]:
            more: dict[str, Any] = {"reason": reason, "update": update, "after": after}
            return store.change(action, which, now=self.now, limit=limit, **more)

        self._both(verb)

    def pause_queue(self, name: str, paused: bool) -> None:
        self._both(lambda store: store.pause_queue(name, paused))

    # reading

    def read(self, which: Filter, limit: int, after: tuple[str, int] | None, newest: bool, sort: Sort) -> None:
        at = None if after is None or sort == "created" else START + timedelta(seconds=after[1])
        end = None if after is None else Cursor(after[0], at)

        def verb(store: Store) -> Awaitable[list[Job]]:
            return store.jobs(which, now=self.now, limit=limit, after=end, newest=newest, sort=sort)

        self._both(verb)
        self._both(lambda store: store.dead_groups(limit=limit))
        for span in SPAN_SECONDS:
            self._tallies(span)
        self._both(lambda store: store.orphaned(now=self.now, limit=limit))
        self._both(lambda store: store.overview(now=self.now))
        self._both(lambda store: store.workers(now=self.now))
        for job_id in sorted({job_id for job_id, _ in self.runs}):
            self._history(job_id)
        for name in SCHEDULES:
            self._ticks(name, limit)

    def _ticks(self, name: str, limit: int) -> None:
        self._both(lambda store: store.ticks(name, limit=limit))
        self._both(lambda store: store.ticks(name, limit=limit, before=4))

    def _tallies(self, span: Span) -> None:
        self._both(lambda store: store.tallies(span, since=EPOCH))

    def _history(self, job_id: str) -> None:
        self._both(lambda store: store.executions(job_id))
        self._both(lambda store: store.logs(job_id, limit=100))
        self._both(lambda store: store.logs(job_id, limit=1, after=(1, 1)))
        self._both(lambda store: store.output(job_id, limit=100))
        self._both(lambda store: store.output(job_id, limit=1, newest=True))
        self._both(lambda store: store.checkpoints(job_id))  # type: ignore[attr-defined]
        self._both(lambda store: store.checkpoints(job_id, after=1, limit=1))  # type: ignore[attr-defined]

    def _dated(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Turns seconds from now into instants, and drops the options."""
        return {
            name: self.now + timedelta(seconds=value) if name in ("run_at", "expires_at") else value
            for name, value in fields.items()
            if name != "options"
        }
