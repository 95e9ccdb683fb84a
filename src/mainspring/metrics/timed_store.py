"""A store whose calls are timed. Only processes that serve metrics wrap their store in it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from ..counters import Counters
from ..events import FlowEnded, JobLost, JobPostponed, JobReported, SignalReceived, SlotLeaked, StoreTrouble
from ..records.job import UnreadableRecord
from ..records.worker import Claim
from ..schedule.record import Due
from ..store import Store
from ..survived_errors import METRIC as ERRORS_SURVIVED
from ..survived_errors import UNREADABLE_METRIC as RECORDS_UNREADABLE
from ..survived_errors import count_in
from .process import (
    CLAIM_SIZE,
    DURABLE_STEPS,
    FINISH_SIZE,
    FLOW_STEPS,
    JOB_LAG,
    JOBS_EXPIRED,
    JOBS_LOST,
    JOBS_POSTPONED,
    LEAKS,
    OUTPUT_CHUNKS,
    SIGNALS,
    STORE_ERRORS,
    STORE_SECONDS,
)

if TYPE_CHECKING:
    from ..app import Mainspring

# All methods but those that wait on purpose, or are called once per process.
_VERBS = {
    name for name in dir(Store) if not name.startswith("_") and inspect.iscoroutinefunction(getattr(Store, name))
} - {"wait", "open", "close", "migrate"}


class TimedStore:
    """Wraps a store, and observes its calls."""

    def __init__(self, store: Store, counters: Counters, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._counters = counters
        self._monotonic = monotonic

    def clone(self) -> Store:
        inner = self._store.clone()
        return cast(Store, self if inner is self._store else TimedStore(inner, self._counters, self._monotonic))

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        if name not in _VERBS:
            return value
        verb = self._timed(name, value)
        setattr(self, name, verb)  # the next call does not go through __getattr__
        return verb

    def _timed(self, name: str, verb: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        counters, monotonic, observe = self._counters, self._monotonic, _OBSERVERS.get(name)

        async def timed(*args: Any, **given: Any) -> Any:
            began = monotonic()
            try:
                answer = await verb(*args, **given)
            except Exception as error:
                counters.count(STORE_ERRORS, name, type(error).__name__)
                raise
            finally:
                counters.observe(STORE_SECONDS, (monotonic() - began,), name)
            if observe is not None:
                observe(counters, args, given, answer)
            return answer

        return timed


def _observe_finish(counters: Counters, args: Sequence[Any], given: dict[str, Any], answer: Any) -> None:
    outcomes = args[0] if args else given["outcomes"]
    counters.observe(FINISH_SIZE, (len(outcomes),))


def _observe_claim(counters: Counters, args: Sequence[Any], given: dict[str, Any], claim: Claim) -> None:
    now: datetime = given["now"]
    if claim.expired:
        counters.count(JOBS_EXPIRED, by=len(claim.expired))
    _count_unreadable(counters, claim.unreadable)
    if not claim.jobs:
        return
    counters.observe(CLAIM_SIZE, (len(claim.jobs),))
    lags: dict[str, list[float]] = {}
    for job in claim.jobs:
        lags.setdefault(job.queue, []).append(max(0.0, (now - job.due_at).total_seconds()))
    for queue, waited in lags.items():
        counters.observe(JOB_LAG, waited, queue)


def _observe_due(counters: Counters, args: Sequence[Any], given: dict[str, Any], due: Due) -> None:
    _count_unreadable(counters, due.unreadable)


def _count_unreadable(counters: Counters, unreadable: Sequence[UnreadableRecord]) -> None:
    for one in unreadable:
        counters.count(RECORDS_UNREADABLE, one.kind)


def _count_steps(counters: Counters, event: FlowEnded) -> None:
    for step, state in event.steps.items():
        counters.count(FLOW_STEPS, event.job.task, step, state)


def _count_reported(counters: Counters, event: JobReported) -> None:
    for name, stored in ((DURABLE_STEPS, event.report.checkpoints), (OUTPUT_CHUNKS, event.report.chunks)):
        if stored:
            counters.count(name, event.job.task, by=len(stored))


def _signal_labels(event: SignalReceived) -> tuple[str, str, str]:
    return event.job.task, event.name, event.answer


_OBSERVERS: dict[str, Callable[[Counters, Sequence[Any], dict[str, Any], Any], None]] = {
    "finish": _observe_finish,
    "claim": _observe_claim,
    "due": _observe_due,
}


# By app, for each one that is measured in this process.
_COUNTERS: WeakKeyDictionary[Mainspring, Counters] = WeakKeyDictionary()


def measure(app: Mainspring) -> Counters:
    """The counters of this app, which counts from now on; the first call has to be before the app is opened."""
    if app not in _COUNTERS:
        counters = Counters()
        app.wrap_store(lambda store: cast(Store, TimedStore(store, counters, app.clock.monotonic)))
        app.events.subscribe(JobLost, lambda event: counters.count(JOBS_LOST))
        app.events.subscribe(JobPostponed, lambda event: counters.count(JOBS_POSTPONED, event.job.task))
        app.events.subscribe(FlowEnded, lambda event: _count_steps(counters, event))
        app.events.subscribe(SignalReceived, lambda event: counters.count(SIGNALS, *_signal_labels(event)))
        app.events.subscribe(JobReported, lambda event: _count_reported(counters, event))
        app.events.subscribe(SlotLeaked, lambda event: counters.count(LEAKS))
        app.events.subscribe(
            StoreTrouble, lambda event: counters.count(ERRORS_SURVIVED, event.doing, "StoreUnavailable")
        )
        count_in(counters)
        _COUNTERS[app] = counters
    return _COUNTERS[app]


def counters_of(app: Mainspring) -> Counters | None:
    """The app's counters; None if it is not measured."""
    return _COUNTERS.get(app)
