"""Failures of flows: what a handler learns of a flow that has died, and of the steps that it died of."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from ..ids import JobId
from ..records.outcome import RunEnd
from ..records.run import Failure
from .dead_letter import DeadLetter


class DeadStep(Struct, frozen=True, kw_only=True):
    """A dead step of a flow, or a dead item of a map."""

    name: str
    task: str
    job_id: JobId | None = None
    """None if the step had no job, such as a map over a value that is no list, or if its job was deleted."""
    index: int | None = None
    """Of an item in its map, from 0 on."""
    arguments: Any = None
    """By name. The payload as text if it cannot be decoded."""
    failure: Failure
    attempts: int = 0


class FlowFailure(DeadLetter, frozen=True, kw_only=True):
    """A dead flow, as its handler receives it: a DeadLetter with the steps that the flow died of, the first one
    first. A handler of other tasks may take it, too; then it has no steps."""

    steps: tuple[DeadStep, ...] = ()

    def without_steps(self) -> FlowFailure:
        short = Failure("", "(left out: too long for a letter; see the job)")
        steps = (replace(one, arguments=None, failure=replace(short, type=one.failure.type)) for one in self.steps)
        return replace(self, steps=tuple(steps))


class FlowEnd(Struct, frozen=True, kw_only=True):
    """The end of a flow, which a run of its job has concluded."""

    ended: RunEnd
    revision: int
    """Of the flow's row that was read."""
    began_at: datetime
    dead: tuple[DeadStep, ...] = ()

    def failure_of(self, letter: DeadLetter) -> FlowFailure:
        """The letter with the dead steps."""
        return FlowFailure(**asdict(letter), steps=self.dead)
