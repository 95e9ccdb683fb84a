"""Limits: how many jobs of each queue and task a worker runs at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from .slots import Slots

Rooms = Mapping[str, int | None]
Request = tuple[list[str] | None, list[str], int]


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
