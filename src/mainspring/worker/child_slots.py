"""ChildSlots: which runs of process tasks have a child process, which wait for one, and how many to claim ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..clock import Clock
from ..task.task import Task

if TYPE_CHECKING:
    from .run import Run

# A worker claims as many jobs ahead as its children have ended in this time: they begin about that much later.
AHEAD_SECONDS = 0.05
# A job that has waited this long for a child is released: its predecessors take longer than those before them.
MAX_WAIT_SECONDS = 1.0


class ChildSlots:
    """Lets `size` runs of process tasks go on at a time. The others wait, first come, first served."""

    def __init__(self, clock: Clock, size: int, tasks: Mapping[str, Task[Any, Any]]) -> None:
        """`tasks` are all tasks of the worker. `size` 0: every slot may hold a child process, and no run waits."""
        self._clock = clock
        self._size = size
        self.tasks = frozenset(name for name, task in tasks.items() if size and task.executor == "process")
        """The tasks whose runs need one of the children."""
        self._taken = 0
        self._waiting: deque[tuple[float, Run]] = deque()
        self._ended = self._ended_before = 0
        self._since = 0.0

    def __len__(self) -> int:
        """Number of runs that have a child."""
        return self._taken

    @property
    def room(self) -> int:
        """How many more jobs of these tasks to claim: none until half of them have ended, for few claims."""
        wanted, held = self._size + self._ahead(), self._taken + len(self._waiting)
        return wanted - held if held < self._size or 2 * held <= wanted else 0

    @property
    def oldest(self) -> float | None:
        """Since when the first of the waiting runs waits; None if none does."""
        return self._waiting[0][0] if self._waiting else None

    def take(self, run: Run) -> bool:
        """Gives the run a child if one is free; else it waits."""
        if run.job.task not in self.tasks:
            return True
        if self._taken < self._size:
            self._taken += 1
            run.give_child()
        else:
            self._waiting.append((self._clock.monotonic(), run))
        return run.has_child

    def give_back(self, run: Run) -> Run | None:
        """Takes the child of a run that has ended; returns the waiting run that has it now."""
        if not run.has_child:
            return None
        run.take_child()
        self._count_end()
        if not self._waiting:
            self._taken -= 1
            return None
        _, following = self._waiting.popleft()
        following.give_child(self._clock.now())
        return following

    def remove_ended(self) -> list[Run]:
        """Removes the waiting runs that were ended; returns them."""
        ended = [run for _, run in self._waiting if run.end_reason is not None]
        if ended:
            self._waiting = deque(entry for entry in self._waiting if entry[1].end_reason is None)
        return ended

    def waiting(self, until: float | None = None) -> list[Run]:
        """The runs that wait since `until` or longer; without it all."""
        return [run for since, run in self._waiting if until is None or since <= until]

    def _count_end(self) -> None:
        now = self._clock.monotonic()
        if (passed := now - self._since) > AHEAD_SECONDS:
            self._ended_before = self._ended if passed < 2 * AHEAD_SECONDS else 0
            self._ended, self._since = 0, now
        self._ended += 1

    def _ahead(self) -> int:
        """How many runs have ended in the last AHEAD_SECONDS, or twice that: none if runs take longer."""
        if self._clock.monotonic() - self._since > 2 * AHEAD_SECONDS:
            return 0
        return max(self._ended, self._ended_before)
