"""Failures of flows: what a handler learns of a flow that has died, and of the steps that it died of."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from ..ids import JobId
from ..records.outcome import RunEnd
from ..records.run import Failure
from .dead_letter import LEFT_OUT, DeadLetter

# Dead steps in a letter that is too long with all of them.
MAX_BRIEF_STEPS = 5


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


class FlowEnd(Struct, frozen=True, kw_only=True):
    """The end of a flow, which a run of its job has concluded."""

    ended: RunEnd
    revision: int
    """Of the flow's row that was read."""
    began_at: datetime
    dead: tuple[DeadStep, ...] = ()
    steps: Mapping[str, str] = {}
    """How each step has ended."""

    def failure_of(self, letter: DeadLetter, *, brief: bool = False) -> FlowFailure:
        """The letter with the dead steps; if that is too long, with less of them."""
        steps = map(_brief, self.dead[:MAX_BRIEF_STEPS]) if brief else self.dead
        return FlowFailure(**asdict(letter), steps=tuple(steps))


def _brief(step: DeadStep) -> DeadStep:
    return replace(step, arguments=LEFT_OUT, failure=Failure(step.failure.type, LEFT_OUT))
