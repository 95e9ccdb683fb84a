"""When a worker claims jobs, and how many of each queue and task."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime

from ..clock import Alarm, Clock
from ..poll_interval import poll_interval
from ..store import Store
from ..store_retry import StoreRetry
from .slots import Slots

Rooms = Mapping[str, int | None]
Request = tuple[list[str] | None, list[str], int]
# Seconds that a worker leaves a job that it has postponed to workers with other versions of its task.
DEFERENCE_SECONDS = 0.2
# Due instants of postponed jobs that are kept, those that have passed included, before the latter are dropped.
MIN_REMEMBERED = 100
# A freed slot waits this long for others before the worker claims for fewer than half of its slots.
GATHER = 0.005


class ClaimTrigger(Alarm):
    """Rings when it is time to ask, however slots became free."""

    def __init__(self, clock: Clock, slots: Slots, free: Callable[[], int]) -> None:
        """`free` says how many jobs the worker would take."""
        super().__init__(clock)
        self._slots = slots
        self._free = free
        self._gathering = False
        self._postponed: set[datetime] = set()
        self._room = MIN_REMEMBERED

    def postponed(self, run_at: datetime) -> None:
        """A job that this worker could not read is due then."""
        self._postponed.add(run_at)
        if len(self._postponed) > self._room:
            now = self._clock.now()
            self._postponed = {at for at in self._postponed if at >= now}
            self._room = max(MIN_REMEMBERED, 2 * len(self._postponed))  # so each is looked at twice on average

    def seconds_until(self, due_at: datetime) -> float:
        """When to ask for what is due then; for a job that was postponed here, after others had the chance to."""
        left = (due_at - self._clock.now()).total_seconds()
        return max(0.0, left + DEFERENCE_SECONDS * (due_at in self._postponed))

    def freed(self) -> None:
        """At once if half the slots are free; else soon, so that one claim fills several."""
        half = self._slots.free * 2 >= self._slots.size
        if self._gathering and not half:
            return
        if half and self._free() * 2 >= self._slots.size:
            self.ring()
        elif not self._gathering:
            self._gathering = True
            self._clock.call_later(GATHER, self._gathered)

    def _gathered(self) -> None:
        self._gathering = False
        self.ring()

    async def listen(
        self, store: Store, insist: StoreRetry, queues: Collection[str] | None, poll: float, heard: Callable[[], object]
    ) -> None:
        """Rings whenever the store says that something changed, and tells whoever else wants to know."""
        while True:
            await insist("waiting", lambda: store.wait(queues, poll_interval(store, poll)))
            self.ring()
            heard()


class Limits:
    """The queues (None: all there are) and tasks a worker serves, each with its limit; None: no limit."""

    def __init__(self, queues: Sequence[str] | Rooms | None, tasks: Rooms) -> None:
        self.queues: Rooms | None = queues if queues is None or isinstance(queues, Mapping) else dict.fromkeys(queues)
        self.tasks = tasks

    def requests(self, slots: Slots, free: Callable[[], int]) -> Iterator[Request]:
        """What to claim (queues, tasks, how many): each limited queue and task by its own room, then all others.

        `free` is asked each time, because the jobs of the last request have begun by then.
        """
        for queues, in_queue in _groups(self.queues):
            for tasks, of_task in _groups(self.tasks):
                room = free()
                for limits, running, name in (
                    (self.queues, slots.per_queue, in_queue),
                    (self.tasks, slots.per_task, of_task),
                ):
                    if name is not None and limits is not None:
                        room = min(room, (limits[name] or 0) - running[name])
                if room > 0 and tasks is not None:
                    yield queues, tasks, room


def given(limits: Rooms | None) -> dict[str, int]:
    """Those that have a limit."""
    return {name: limit for name, limit in (limits or {}).items() if limit is not None}


def _groups(limits: Rooms | None) -> list[tuple[list[str] | None, str | None]]:
    """Names to ask for: each that has a limit, then all others together, who would leave it no slot."""
    if limits is None:
        return [(None, None)]
    free = [name for name in limits if limits[name] is None]
    alone: list[tuple[list[str] | None, str | None]] = [([name], name) for name in limits if limits[name] is not None]
    return [*alone, (free, None)] if free else alone
