"""Durable steps in a child process: the functions run here, and the worker keeps the checkpoints."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from .. import errors
from ..codec import is_async
from ..errors import BadInput, MainspringError
from ..records.run import Failure
from ..span import Span, seconds
from ..task import durable
from ..task.durable import Suspended
from ..task.step_values import (
    check_place,
    checked_name,
    checked_value,
    decoded,
    decoder_of,
    in_step,
    name_of,
    signal_value,
    text_of,
)
from .interrupts import Interrupts
from .parent_pipe import ParentPipe
from .protocol import SignalAsked, SleepAsked, StepBegins, StepFailed, StepReturned

if TYPE_CHECKING:
    from ..task.task import Task

# The exceptions of the worker that a task may catch by their classes.
_RAISED = {
    kind.__name__: kind
    for kind in (
        *(Suspended, durable.CheckpointMismatch, BadInput, errors.SignalTimeout, errors.LeaseLost),
        *(errors.StoreUnavailable, errors.StoreError),
    )
}

_NO_CHILDREN = (
    "ctx.sync.{}() is not for executor='process': call it in a task without that option, which runs this one as a child"
)


class ChildSteps:
    """The durable steps of one run of a plain function. Any thread of it may call them."""

    def __init__(self, pipe: ParentPipe, interrupts: Interrupts, run: int) -> None:
        """`run` is the number of the run that they belong to."""
        self._pipe = pipe
        self._interrupts = interrupts
        self._run = run

    def step(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], name: str | None) -> Any:
        name = name_of(fn, name)
        check_place(f"step {name!r}")
        decode = decoder_of(fn)
        begun = self._ask(StepBegins(self._pipe.number(), name))
        key = begun.key
        if begun.text is not None:
            return decoded(key, begun.text, decode)
        try:
            with in_step(key):
                value = fn(*args, **kwargs)
                text = text_of(key, self._awaited(value) if is_async(fn) else value)
            value = checked_value(key, text, decode)
        except BaseException:
            with suppress(BadInput):  # the run has ended: there is nothing to tell
                self._pipe.send(StepFailed(self._pipe.number()), self._run)
            raise
        self._ask(StepReturned(self._pipe.number(), key, text))
        return value

    def sleep(self, span: Span, name: str | None) -> None:
        name = checked_name("sleep" if name is None else name)
        check_place(f"step {name!r}")
        self._ask(SleepAsked(self._pipe.number(), seconds(span, "ctx.sleep()"), name))

    def signal(self, name: str, type: Any, timeout: Span | None, default: Any) -> Any:
        check_place(f"signal {name!r:.80}")
        wait = None if timeout is None else seconds(timeout, "ctx.signal(timeout=…)")
        given = self._ask(SignalAsked(self._pipe.number(), name, wait, default is not UNSET))
        return default if given.text is None else signal_value(name, given.text, type)

    def run(self, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        raise BadInput(_NO_CHILDREN.format("run"))

    def map(self, task: Task[..., Any], items: Iterable[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        raise BadInput(_NO_CHILDREN.format("map"))

    def _awaited(self, work: Coroutine[Any, Any, Any]) -> Any:
        if threading.current_thread() is threading.main_thread():
            return self._interrupts.run(work)
        return asyncio.run(work)

    def _ask(self, question: StepBegins | StepReturned | SleepAsked | SignalAsked) -> Any:
        answer = self._pipe.ask(question, self._run)
        if answer.error is not None:
            raise _error_of(answer.error)
        return answer


def _error_of(failure: Failure) -> BaseException:
    kind = _RAISED.get(failure.type)
    return MainspringError(f"{failure.type}: {failure.message}") if kind is None else kind(failure.message)
