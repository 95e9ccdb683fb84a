"""A store whose verbs are timed: the one place that does it, and only where somebody asked for metrics."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from ..counters import Counters
from ..events import JobLost, JobPostponed, SlotLeaked, StoreTrouble
from ..records.job import UnreadableRecord
from ..records.worker import Claim
from ..schedule.record import Due
from ..store import Store
from ..survived_errors import METRIC as ERRORS_SURVIVED
from ..survived_errors import UNREADABLE_METRIC as RECORDS_UNREADABLE
from ..survived_errors import count_in
from .process import (
    CLAIM_SIZE,
    FINISH_SIZE,
    JOB_LAG,
    JOBS_EXPIRED,
    JOBS_LOST,
    JOBS_POSTPONED,
    LEAKS,
    STORE_ERRORS,
    STORE_SECONDS,
)

if TYPE_CHECKING:
    from ..app import Mainspring

# All but those that wait on purpose, or come once in a life.
_VERBS = {
    name for name in dir(Store) if not name.startswith("_") and inspect.iscoroutinefunction(getattr(Store, name))
} - {"wait", "wait_final", "open", "close", "migrate"}


class Timed:
    """Otherwise the store it wraps."""

    def __init__(self, store: Store, meter: Counters, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._meter = meter
        self._monotonic = monotonic

    def beside(self) -> Store:
        inner = self._store.beside()
        return cast(Store, self if inner is self._store else Timed(inner, self._meter, self._monotonic))

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        if name not in _VERBS:
            return value
        verb = self._timed(name, value)
        setattr(self, name, verb)  # so that the next call comes straight to it
        return verb

    def _timed(self, name: str, verb: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        meter, monotonic, note = self._meter, self._monotonic, _NOTES.get(name)

        async def timed(*args: Any, **given: Any) -> Any:
            began = monotonic()
            try:
                answer = await verb(*args, **given)
            except Exception as error:
                meter.count(STORE_ERRORS, name, type(error).__name__)
                raise
            finally:
                meter.observe(STORE_SECONDS, (monotonic() - began,), name)
            if note is not None:
                note(meter, args, given, answer)
            return answer

        return timed


def _finished(meter: Counters, args: Sequence[Any], given: dict[str, Any], answer: Any) -> None:
    outcomes = args[0] if args else given["outcomes"]
    meter.observe(FINISH_SIZE, (len(outcomes),))


def _claimed(meter: Counters, args: Sequence[Any], given: dict[str, Any], claim: Claim) -> None:
    now: datetime = given["now"]
    if claim.expired:
        meter.count(JOBS_EXPIRED, by=len(claim.expired))
    _set_aside(meter, claim.unreadable)
    if not claim.jobs:
        return
    meter.observe(CLAIM_SIZE, (len(claim.jobs),))
    lags: dict[str, list[float]] = {}
    for job in claim.jobs:
        lags.setdefault(job.queue, []).append(max(0.0, (now - job.due_at).total_seconds()))
    for queue, waited in lags.items():
        meter.observe(JOB_LAG, waited, queue)


def _due(meter: Counters, args: Sequence[Any], given: dict[str, Any], due: Due) -> None:
    _set_aside(meter, due.unreadable)


def _set_aside(meter: Counters, unreadable: Sequence[UnreadableRecord]) -> None:
    for one in unreadable:
        meter.count(RECORDS_UNREADABLE, one.kind)


_NOTES: dict[str, Callable[[Counters, Sequence[Any], dict[str, Any], Any], None]] = {
    "finish": _finished,
    "claim": _claimed,
    "due": _due,
}


# Of each app that is measured in this process.
_METERS: WeakKeyDictionary[Mainspring, Counters] = WeakKeyDictionary()


def measured(app: Mainspring) -> Counters:
    """What counts the doings of this app from now on; the first time it has to be before the app is opened."""
    if app not in _METERS:
        meter = Counters()
        app.through(lambda store: cast(Store, Timed(store, meter, app.clock.monotonic)))
        app.events.subscribe(JobLost, lambda event: meter.count(JOBS_LOST))
        app.events.subscribe(JobPostponed, lambda event: meter.count(JOBS_POSTPONED, event.job.task))
        app.events.subscribe(SlotLeaked, lambda event: meter.count(LEAKS))
        app.events.subscribe(StoreTrouble, lambda event: meter.count(ERRORS_SURVIVED, event.doing, "StoreUnavailable"))
        count_in(meter)
        _METERS[app] = meter
    return _METERS[app]


def meter_of(app: Mainspring) -> Counters | None:
    """None: it is not measured."""
    return _METERS.get(app)
