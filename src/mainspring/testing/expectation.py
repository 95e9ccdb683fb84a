"""The job that a test expects to have been enqueued, and how it is matched."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from ..codec import encode_call
from ..errors import BadInput, BadPayload
from ..ids import JobId
from ..records.job import Job
from ..span import Span, seconds
from ..task.task import Task

if TYPE_CHECKING:
    from ..app import Mainspring
    from ..sync import SyncHandle
    from ..task.handle import Handle


class Expectation:
    """A task with some of its arguments and of the job's options; those not given match anything."""

    def __init__(
        self,
        app: Mainspring,
        task: Task[Any, Any] | str | None,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        queue: str | None,
        delay: Span | None,
    ) -> None:
        known = app.tasks.get(task) if isinstance(task, str) else task
        if known is not None and app.tasks.get(known.name) is not known:
            raise BadInput(f"{known!r} is not as this app registered it; say queue= and delay= instead of using()")
        if known is None and args:
            raise BadInput("arguments by position need the task itself, which knows their names")
        self._name: str | None = task if isinstance(task, str) or task is None else task.name
        self._queue = queue
        self._delay = None if delay is None else timedelta(seconds=seconds(delay, "delay"))
        self._values = _plain(self._name, known.arguments.bind(tuple(args), kwargs) if known else kwargs)
        self._defaults = _defaults(known, self._values) if known else {}

    def matches(self, job: Job, delay: timedelta) -> bool:
        given = self._defaults | msgspec.json.decode(job.payload)
        return (
            self._name in (None, job.task)
            and self._queue in (None, job.queue)
            and self._delay in (None, delay)
            and all(name in given and given[name] == value for name, value in self._values.items())
        )

    def __str__(self) -> str:
        return _text(self._name or "of any task", self._values, self._queue, self._delay)


def describe(job: Job, delay: timedelta) -> str:
    return f"{_text(job.task, msgspec.json.decode(job.payload), job.queue, delay or None)} ({job.state})"


def _text(task: str, values: Mapping[str, Any], queue: str | None, delay: timedelta | None) -> str:
    text = f"{task}({', '.join(f'{name}={value!r}' for name, value in values.items())})" if values else task
    text += "" if queue is None else f" in queue {queue!r}"
    return text if delay is None else f"{text} with delay {delay.total_seconds():g} s"


def _plain(task: str | None, values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as they are in a payload: a date is a string, a dataclass an object."""
    plain: dict[str, Any] = msgspec.json.decode(encode_call(task or "", values, 1 << 30))
    return plain


def _defaults(task: Task[Any, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults of the wanted arguments, for calls that left them out."""
    found: dict[str, Any] = {}
    for parameter in inspect.signature(task.fn).parameters.values():
        if parameter.name in wanted and parameter.default is not parameter.empty:
            try:
                found |= _plain(task.name, {parameter.name: parameter.default})
            except BadPayload:  # a default that cannot be sent is never expected
                continue
    return found


def id_of(run: Handle[Any] | SyncHandle[Any] | JobId) -> JobId:
    return run if isinstance(run, str) else run.id
