"""Claim requests of a worker: when it claims, and how many jobs of each queue and task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..clock import Alarm, Clock
from ..errors import BadInput
from ..store import Store
from ..store.poll_interval import poll_interval
from ..store.retry import StoreRetry
from ..task.options import check_name
from ..task.task import Task
from ..webhook.record import QUEUE as WEBHOOKS
from ..webhook.record import TASK as WEBHOOK
from .child_slots import ChildSlots
from .slots import Slots

if TYPE_CHECKING:
    from ..engine import Engine

LimitsByName = Mapping[str, int | None]
ClaimRequestArgs = tuple[list[str] | None, list[str], int]
# After postponing a job it cannot decode, a worker leaves it this long to workers with another version of the task.
DEFERENCE_SECONDS = 0.2
# Number of remembered due times of postponed jobs above which past ones are dropped.
MIN_REMEMBERED_INSTANTS = 100
# How long a freed slot waits for more of them before the worker claims for fewer than half of its slots.
GATHER_SECONDS = 0.005


class ClaimTrigger(Alarm):
    """Wakes the claim loop when slots become free or the store reports a change."""

    def __init__(
        self, clock: Clock, slots: Slots, free_slots: Callable[[], int], gather: float = GATHER_SECONDS
    ) -> None:
        """`free_slots` returns how many jobs the worker would accept now; `gather` is 0 to claim for every slot."""
        super().__init__(clock)
        self._slots = slots
        self._free_slots = free_slots
        self._gather = gather
        self._gathering = False
        self._children_only = False
        self._postponed: set[datetime] = set()
        self._room = MIN_REMEMBERED_INSTANTS

    def note_claim(self, children_only: bool) -> None:
        """Records whether the last claim left no jobs but those for child processes: then another claim helps only when
        the children have room."""
        self._children_only = children_only

    def note_postponed(self, run_at: datetime) -> None:
        """Records that this worker has postponed a job until `run_at` because it could not decode it."""
        self._postponed.add(run_at)
        if len(self._postponed) > self._room:
            now = self._clock.now()
            self._postponed = {at for at in self._postponed if at >= now}
            self._room = max(MIN_REMEMBERED_INSTANTS, 2 * len(self._postponed))  # amortised: two checks per instant

    def seconds_until(self, due_at: datetime) -> float:
        """Seconds until a claim for a job due at `due_at`; longer for one postponed here, so that others go first."""
        left = (due_at - self._clock.now()).total_seconds()
        return max(0.0, left + DEFERENCE_SECONDS * (due_at in self._postponed))

    def slot_freed(self) -> None:
        """Called after one or several slots became free: wakes the claim loop at once if half of them are free or
        nothing runs, else soon, so that one claim fills several."""
        if self.rung:
            return
        if not self._gather or not len(self._slots):
            self.ring()
            return
        if self._children_only and self._slots.child_room == 0:
            return
        capacity = self._slots.capacity
        half = self._slots.free * 2 >= capacity
        if self._gathering and not half:
            return
        if half and self._free_slots() * 2 >= capacity:
            self.ring()
        elif not self._gathering:
            self._gathering = True
            self._clock.call_later(self._gather, self._ring_gathered)

    def _ring_gathered(self) -> None:
        self._gathering = False
        self.ring()

    async def listen(self, store: Store, retry: StoreRetry, poll: float, on_change: Callable[[], object]) -> None:
        """Wakes the claim loop whenever the store reports a change, and calls `on_change`."""
        seen: int | None = None

        def next_change() -> Awaitable[int]:
            return store.wait("claimable", poll_interval(store, poll), seen=seen)

        while True:
            seen = await retry("waiting", next_change)
            self.ring()
            on_change()


def checked_queues(queues: Any) -> None:
    """Raises BadInput unless they are names, or a mapping of names to slots, or None."""
    if queues is None:
        return
    if isinstance(queues, str) or not isinstance(queues, Sequence | Mapping) or not queues:
        raise BadInput(f"queues takes a list of names or a mapping of name to slots, got {queues!r}")
    for name in queues:
        check_name(name, "queue name")
    limits = list(queues.values()) if isinstance(queues, Mapping) else []
    if any(limit is not None and (type(limit) is not int or limit < 1) for limit in limits):
        raise BadInput(f"a queue's slots are a whole number of at least 1, or None; got {queues!r}")


class ClaimLimits:
    """The queues (None: all) and tasks that a worker serves, each with its limit (None: no limit)."""

    def __init__(self, queues: Sequence[str] | LimitsByName | None, tasks: LimitsByName, children: ChildSlots) -> None:
        self.queues: LimitsByName | None = (
            queues if queues is None or isinstance(queues, Mapping) else dict.fromkeys(queues)
        )
        self.tasks = tasks
        self.has_limits = bool(with_limit(self.queues) or with_limit(tasks))
        self._children = children
        self.shares_children = bool(children.tasks)
        # The tasks that share the child processes are claimed alone: there may be room for others only.
        shared = {name: limit for name, limit in tasks.items() if name in children.tasks}
        of_tasks = _groups({name: limit for name, limit in tasks.items() if name not in shared}) + _groups(shared)
        self._groups = [(queue, task) for queue in _groups(self.queues) for task in of_tasks]
        free = [name for name, limit in tasks.items() if limit is None and name not in shared]
        queues_left = None if self.queues is None else [name for name, limit in self.queues.items() if limit is None]
        self.unlimited = (queues_left, free) if free and queues_left != [] else None
        """The queues (None: all) and tasks without a limit that run in no child process; None if there are none."""

    def requests(self, slots: Slots, free_slots: Callable[[], int]) -> Iterator[ClaimRequestArgs]:
        """Yields claims as (queues, tasks, limit): one for each limited queue and task, then one for all others.

        Calls `free_slots` for each, because the jobs of the previous claim have started by then.
        """
        for (queues, in_queue), (tasks, of_task) in self._groups:
            room = free_slots()
            for limits, running, name in (
                (self.queues, slots.per_queue, in_queue),
                (self.tasks, slots.per_task, of_task),
            ):
                if name is not None and limits is not None:
                    room = min(room, (limits[name] or 0) - running[name])
            if self.in_children(tasks):
                room = min(room, self._children.room)
            if room > 0 and tasks is not None:
                yield queues, tasks, room

    def in_children(self, tasks: Sequence[str] | None) -> bool:
        """Whether these tasks of a claim share the child processes."""
        return bool(tasks) and tasks is not None and tasks[0] in self._children.tasks


def with_limit(limits: LimitsByName | None) -> dict[str, int]:
    """The entries that have a limit."""
    return {name: limit for name, limit in (limits or {}).items() if limit is not None}


def _groups(limits: LimitsByName | None) -> list[tuple[list[str] | None, str | None]]:
    """Names per claim: each limited name alone, first, so that the unlimited ones cannot take its slots."""
    if limits is None:
        return [(None, None)]
    free = [name for name in limits if limits[name] is None]
    alone: list[tuple[list[str] | None, str | None]] = [([name], name) for name in limits if limits[name] is not None]
    return [*alone, (free, None)] if free else alone


def served_tasks(engine: Engine, queues: Sequence[str] | Mapping[str, int | None] | None) -> dict[str, Task[Any, Any]]:
    """The tasks that a worker runs. Raises BadInput if there are none, or if the queues are wrong."""
    tasks = engine.registry.runnable
    if not tasks and WEBHOOKS not in (queues or ()):
        raise BadInput("this app has no tasks, so a worker would have nothing to run: register some with @app.task")
    checked_queues(queues)
    if queues is None or WEBHOOKS in queues:
        tasks[WEBHOOK] = engine.delivery_task()
    if engine.has_flows:
        from .flow_tasks import flow_tasks

        tasks.update(flow_tasks(engine))
    return tasks
