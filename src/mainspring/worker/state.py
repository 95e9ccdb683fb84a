"""WorkerState: the phase of a worker between its start and its end, and what limits it meanwhile."""

from __future__ import annotations

import math
from typing import Literal

from ..records.worker import WorkerCommands

Phase = Literal["new", "starting", "running", "stopping", "ended"]


class WorkerState:
    """Changed by the worker's own events only: start, stop, beats, lapses, commands."""

    def __init__(self, grace: float) -> None:
        self.phase: Phase = "new"
        self.until_idle = False
        """It ends by itself when nothing is due, nothing runs and everything is stored."""
        self.max_runs = math.inf
        """After this number of runs it claims no more."""
        self.grace = grace
        """Seconds that runs get to end when the worker stops."""
        self.epoch = 0
        """Number of lapses: jobs that were claimed in an earlier epoch may be another worker's."""
        self.lapsed = False
        """The leases have lapsed, and no beat has succeeded since."""
        self.commands = WorkerCommands()
        """The operators' commands, as of the last beat."""
        self.recycled: str | None = None
        """Why the worker stops by itself, to be replaced by a new process; None if it does not."""
        self.stopped_by_operator = False
        """An operator has stopped it: only a supervisor starts a replacement."""

    @property
    def stopping(self) -> bool:
        """Whether it was told to stop, perhaps before it started."""
        return self.phase in ("stopping", "ended")

    @property
    def may_claim(self) -> bool:
        return not (self.lapsed or self.commands.drained or self.phase in ("stopping", "ended"))

    def start(self, *, until_idle: bool = False, max_runs: float = math.inf) -> None:
        self.until_idle, self.max_runs = until_idle, max_runs
        if self.phase == "new":
            self.phase = "starting"

    def run(self) -> None:
        """It claims jobs from now on, unless it was told to stop."""
        if self.phase == "starting":
            self.phase = "running"

    def stop(self, grace: float) -> None:
        """A second stop may shorten the grace, and not prolong it."""
        self.grace = min(self.grace, grace) if self.stopping else grace
        if self.phase != "ended":
            self.phase = "stopping"

    def end(self) -> None:
        """Its loops have ended. If it was not told to stop, an error has ended them, and it counts as running."""
        if self.phase == "stopping":
            self.phase = "ended"

    def lapse(self) -> None:
        self.lapsed = True
        self.epoch += 1

    def renew(self) -> bool:
        """Records a beat that has succeeded; returns whether the leases had lapsed."""
        lapsed, self.lapsed = self.lapsed, False
        return lapsed

    def command(self, commands: WorkerCommands) -> None:
        self.commands = commands
        self.stopped_by_operator = self.stopped_by_operator or commands.stopped

    def recycle(self, reason: str) -> None:
        self.recycled = reason

    def on_signal(self) -> bool:
        """Records a stop signal; returns whether it repeats an earlier one.

        A stop signal during recycling is meant for the process: no replacement, but running jobs keep their grace.
        """
        again, self.recycled = self.stopping and self.recycled is None, None
        return again
