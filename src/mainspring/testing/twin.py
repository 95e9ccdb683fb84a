"""Two stores, the same random verbs, every answer compared: a difference is a bug."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import UNSET, Struct
from msgspec.structs import asdict, replace

from ..job import SHOWN, Action, Claim, Ending, Failure, Filter, Lease, NewJob, State, WorkerInfo
from ..outcome import Outcome
from ..retry import Backoff
from ..store import Store

START = datetime(2030, 1, 1, tzinfo=UTC)
QUEUES, TASKS, TAGS, WORKERS = ("high", "low"), ("mail", "resize"), ("x", "y"), ("ada", "bob", "cyd")

T = TypeVar("T")
Verb = Callable[[Store], Awaitable[T]]

_names = {"queue": st.sampled_from(QUEUES), "task": st.sampled_from(TASKS)}
_spans = st.sampled_from([-5, -1, 0, 0.000001, 1, 5, 30])
_ids = st.integers(0, 40).map("00000000-0000-7000-8000-{:012}".format)
_keys = st.none() | st.sampled_from(["k1", "k2"])
_requests = st.fixed_dictionaries(
    {"id": _ids, "payload": st.sampled_from(['"a"', '"b"', '{"é": 1e400}']), **_names},
    optional={
        "priority": st.integers(-1, 1),
        "run_at": _spans,
        "expires_at": _spans,
        "unique_key": _keys,
        "idempotency_key": _keys,
        "on_conflict": st.sampled_from(["return", "raise", "replace", "debounce"]),
        "debounce_limit": st.sampled_from([None, 2.5, 20.0]),
        "timeout": st.sampled_from([UNSET, None, 1.5]),
        "max_retries": st.sampled_from([None, 0, 2]),
        "backoff": st.sampled_from([None, Backoff(), Backoff.linear(2)]),
        "tags": st.lists(st.sampled_from(TAGS), unique=True).map(tuple),
        "metadata": st.just({"a": [1, {"b": None}]}),
    },
)
_filters = st.builds(
    Filter,
    ids=st.none() | st.lists(_ids, max_size=4).map(tuple),
    states=st.none() | st.lists(st.sampled_from(SHOWN), max_size=3).map(tuple),
    queues=st.none() | st.sampled_from([("high",), QUEUES, ()]),
    tasks=st.none() | st.sampled_from([("mail",), TASKS]),
    tags=st.none() | st.sampled_from([("x",), ("y", "x"), ()]),
)
_FAILURE = Failure("ValueError", "böse")
_endings: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"state": State.COMPLETED, "ending": Ending.COMPLETED, "result": '"é"'},
        {"state": State.COMPLETED, "ending": Ending.COMPLETED, "failure": _FAILURE},
        {"state": State.PENDING, "ending": Ending.FAILED, "run_at": 5, "failure": _FAILURE},
        {"state": State.PENDING, "ending": Ending.SNOOZED, "run_at": 0.000001, "refund": True},
        {"state": State.PENDING, "ending": Ending.RELEASED, "run_at": 0, "refund": True},
        {"state": State.DEAD, "ending": Ending.TIMEOUT, "failure": _FAILURE},
        {"state": State.CANCELLED, "ending": Ending.CANCELLED},
        {"state": State.PENDING, "ending": Ending.CRASHED, "run_at": 0, "crash": True},
        {"state": State.DEAD, "ending": Ending.CRASHED, "crash": True, "failure": _FAILURE},
    ]
)
_some = st.sampled_from([1, 2, 3, 100])
_which = st.integers(0, 10_000)


def twin_machine(make_left: Callable[[], Store], make_right: Callable[[], Store]) -> type[RuleBasedStateMachine]:
    """A state machine over two fresh stores; run it with `twin_machine(…).TestCase`."""

    class Twin(_Twin):
        def make(self) -> tuple[Store, Store]:
            return make_left(), make_right()

    return Twin


class _Twin(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._stores: tuple[Store, ...] = ()
        self.now = START
        # A lease is minted by its store: here it bears one name on both sides, the number of its claim.
        self.aliases: tuple[dict[Lease, str], ...] = ({}, {})
        self.leases: tuple[dict[str, Lease], ...] = ({}, {})
        self.runs: list[tuple[str, str]] = []
        self.told: list[Outcome] = []

    def make(self) -> tuple[Store, Store]:
        raise NotImplementedError

    @initialize()
    def open(self) -> None:
        self._stores = self.make()
        for store in self._stores:
            self._runner.run(_call(store.open()))

    def teardown(self) -> None:
        for store in self._stores:
            self._runner.run(_call(store.close()))
        self._runner.close()

    def _both(self, verb: Verb[T], learn: Callable[[T, T], None] | None = None) -> T:
        """The left answer, after it was found equal to the right one."""
        left, right = (self._runner.run(_call(verb(store))) for store in self._stores)
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

    # time

    @rule(seconds=st.sampled_from([0.000001, 1, 5, 30]))
    def time_passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    # the path of a job

    @rule(requests=st.lists(_requests, min_size=1, max_size=4))
    def enqueue(self, requests: list[dict[str, Any]]) -> None:
        jobs = [NewJob(**self._dated(request)) for request in requests]
        self._both(lambda store: store.enqueue(jobs, now=self.now))

    @rule(
        worker=st.sampled_from(WORKERS),
        queues=st.sampled_from([None, None, ("high",), QUEUES, ()]),
        tasks=st.sampled_from([TASKS, TASKS, ("mail",), ("unknown",)]),
        limit=_some,
    )
    def claim(self, worker: str, queues: Collection[str] | None, tasks: Collection[str], limit: int) -> None:
        def verb(store: Store) -> Awaitable[Claim]:
            return store.claim(queues, worker=worker, tasks=tasks, limit=limit, now=self.now)

        taken = self._both(verb, self._learn)
        self.runs += [(job.id, self.aliases[0][job.lease or ""]) for job in taken.jobs]

    @rule(worker=st.sampled_from(WORKERS), span=st.sampled_from([-1, 0, 5, 20, 20, 60]), running=st.integers(0, 2))
    def beat(self, worker: str, span: float, running: int) -> None:
        info = WorkerInfo(id=worker, host="host", pid=1, queues=None, tasks=TASKS, concurrency=3,
                          started_at=START, running=running)  # fmt: skip
        self._both(lambda store: store.beat(info, until=self.now + timedelta(seconds=span), now=self.now))

    @precondition(lambda self: self.runs)
    @rule(chosen=st.lists(st.tuples(_which, _endings), min_size=1, max_size=4))
    def finish(self, chosen: list[tuple[int, dict[str, Any]]]) -> None:
        outcomes = []
        for n, ending in chosen:
            # Counted from the newest run, so that small numbers are runs that go on.
            job_id, lease = self.runs[-1 - n % len(self.runs)]
            outcomes.append(Outcome(id=job_id, lease=lease, finished_at=self.now, **self._dated(ending)))
        self.told += outcomes
        self._finish(outcomes)

    @precondition(lambda self: self.told)
    @rule(chosen=st.lists(_which, min_size=1, max_size=3))
    def finish_again(self, chosen: list[int]) -> None:
        self._finish([self.told[-1 - n % len(self.told)] for n in chosen])

    @precondition(lambda self: self.runs)
    @rule(n=_which, lease=_which)
    def finish_under_a_foreign_lease(self, n: int, lease: int) -> None:
        job_id, _ = self.runs[n % len(self.runs)]
        _, name = self.runs[lease % len(self.runs)]
        done = {"state": State.COMPLETED, "ending": Ending.COMPLETED, "finished_at": self.now}
        self._finish([Outcome(id=job_id, lease=name, **done)])

    @rule(limit=_some)
    def expired(self, limit: int) -> None:
        self._both(lambda store: store.expired(now=self.now, limit=limit))

    # operators

    @rule(action=st.sampled_from(Action), which=_filters, limit=_some, reason=st.sampled_from(["", "why"]))
    def change(self, action: Action, which: Filter, limit: int, reason: str) -> None:
        self._both(lambda store: store.change(action, which, now=self.now, limit=limit, reason=reason))

    @rule(name=st.sampled_from(QUEUES), paused=st.booleans())
    def pause_queue(self, name: str, paused: bool) -> None:
        self._both(lambda store: store.pause_queue(name, paused))

    # reading

    @rule(which=_filters, limit=_some, after=st.none() | _ids, newest=st.booleans())
    def jobs(self, which: Filter, limit: int, after: str | None, newest: bool) -> None:
        self._both(lambda store: store.jobs(which, now=self.now, limit=limit, after=after, newest=newest))

    @rule()
    def history(self) -> None:
        for job_id in {job_id for job_id, _ in self.runs}:
            self._both(lambda store, job_id=job_id: store.executions(job_id))

    @rule()
    def overview(self) -> None:
        self._both(lambda store: store.queues(now=self.now))
        self._both(lambda store: store.workers(now=self.now))
        self._both(lambda store: store.counts(now=self.now))

    @invariant()
    def both_hold_the_same_jobs(self) -> None:
        if self._stores:
            self._both(lambda store: store.jobs(Filter(), now=self.now, limit=1000))

    def _dated(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Spans from now become instants."""
        spans = {name: span for name, span in fields.items() if name in ("run_at", "expires_at")}
        return {**fields, **{name: self.now + timedelta(seconds=span) for name, span in spans.items()}}


async def _call(verb: Awaitable[T]) -> T:
    return await verb


def plain(answer: Any, aliases: Mapping[Lease, str]) -> Any:
    """An answer as builtins that compare well, with every lease under its alias."""
    match answer:
        case Struct():
            return {"": type(answer).__name__, **plain(asdict(answer), aliases)}
        case dict():
            return {name: plain(value, aliases) for name, value in answer.items()}
        case list() | tuple():
            return [plain(value, aliases) for value in answer]
        case str():
            return aliases.get(answer, answer)
        case _:
            return answer
