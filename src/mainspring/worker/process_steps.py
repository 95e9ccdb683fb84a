"""Durable steps of a task in a child process: the worker's side, which answers what the child asks."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from msgspec import UNSET

from ..executor.protocol import (
    Answer,
    Question,
    SignalAsked,
    SleepAsked,
    StepBegins,
    StepFailed,
    StepReturned,
)
from ..records.outcome import failure_of
from ..task.context import Context
from ..task.durable import Suspended
from .durable import DurableSteps

_DEFAULT = object()


async def answer(ctx: Context, question: Question) -> Answer | None:
    """The answer to a question of the run's child; with an error if the call fails, or suspends the run."""
    try:
        # Opened by the first question.
        return await _answer(cast(DurableSteps, ctx.durable_run("a durable step")), question)
    except (Exception, Suspended) as error:
        return Answer(question.n, error=failure_of(error, stack=False))


async def _answer(steps: DurableSteps, question: Question) -> Answer | None:
    n = question.n
    match question:
        case StepBegins(name=name):
            key = steps.key(name)
            found = await steps.begin(key)
            return Answer(n, key, None if found is None else found.value)
        case StepReturned(key=key, text=text):
            try:
                await steps.keep(key, text)
            finally:
                steps.end()
        case StepFailed():
            steps.end()
            return None
        case SleepAsked(seconds=seconds, name=name):
            await steps.sleep(seconds, name)
        case SignalAsked(name=name, seconds=seconds, has_default=has_default):
            given: Any = await steps.signal(name, msgspec.Raw, seconds, _DEFAULT if has_default else UNSET)
            return Answer(n, text=None if given is _DEFAULT else bytes(given).decode())
    return Answer(n)
