"""Collect: a task that gets the items of several calls at once, in one job."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr, replace

from ..codec import Arguments, blake2b
from ..errors import BadInput, BadTask
from ..ids import new_id
from ..records.job import Collecting, NewJob
from ..span import Span, seconds
from ..suggest import SuggestingStructMeta, did_you_mean

if TYPE_CHECKING:
    from .options import CheckedOptions

MAX_SIZE = 1000
# Each call rewrites the job with all of its items, so it is full before it is as long as other payloads may be.
MAX_COLLECTED_BYTES = 256 << 10
_DIGEST_BYTES = 12
# What using() takes for a call whose job has the items of other calls, too.
CALL_OPTIONS = ("queue", "within")
# Options that say what happens to the job of one call.
_OF_ONE_CALL = ("unique_key", "idempotency_key", "expires")


class Collect(Struct, frozen=True, metaclass=SuggestingStructMeta):
    """Collects the items of calls in one job, which is due once there are `size` of them, or `delay` after the first
    of them, or `grace` after the last one.

    `by` makes a job of its own for each value: of this field of the item, or of a function of it.
    """

    size: int
    delay: Span
    grace: Span | None = None
    by: str | Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.size, bool) or not isinstance(self.size, int) or not 2 <= self.size <= MAX_SIZE:
            raise BadInput(f"Collect(size=…) takes a whole number from 2 to {MAX_SIZE:,}, got {self.size!r:.80}")
        force_setattr(self, "delay", _positive(self.delay, "delay"))
        if self.grace is not None:
            force_setattr(self, "grace", _positive(self.grace, "grace"))
            if self.grace >= self.delay:  # type: ignore[operator]
                raise BadInput(
                    f"Collect(grace={self.grace:g}) acts only if it is less than delay={self.delay:g}: leave it out"
                )
        if (
            self.by is not None
            and not isinstance(self.by, str)
            and (isinstance(self.by, type) or not callable(self.by))
        ):
            raise BadInput(f"Collect(by=…) takes the name of a field, or a function of an item; got {self.by!r:.80}")


def _positive(span: Any, name: str) -> float:
    if (found := seconds(span, f"Collect({name}=…)")) <= 0:
        raise BadInput(f"Collect({name}=…) takes more than 0 seconds, got {span!r:.80}")
    return found


def checked_collect(value: Any) -> Collect:
    if not isinstance(value, Collect):
        raise BadInput(f"takes a Collect, e.g. Collect(size=100, delay=5); got {value!r:.80}")
    return value


class Collector:
    """Makes the requests of one task that collects items."""

    def __init__(self, task: str, collect: Collect, arguments: Arguments, options: CheckedOptions) -> None:
        """Raises BadTask if the function or the other options do not fit."""
        self._task, self._collect, self._arguments = task, collect, arguments
        _check_options(task, options)
        self._name, self._item = _parameter(task, arguments)
        if isinstance(collect.by, str):
            _check_field(task, collect.by, self._item)

    def check_call(self, given: Mapping[str, Any]) -> None:
        """Raises BadInput for an option of one call that its job, which others share, cannot have."""
        if wrong := next((name for name in given if name not in CALL_OPTIONS), None):
            raise BadInput(
                f"task {self._task!r} collects the items of several calls in one job, which has the options of the "
                f"task: using() takes {' and '.join(CALL_OPTIONS)} there, not {wrong}"
            )

    def job(
        self, template: NewJob, args: tuple[Any, ...], kwargs: Mapping[str, Any], now: datetime, limit: int
    ) -> NewJob:
        """The request of a call: with one item, or by name with the list of several."""
        if args and (len(args) > 1 or kwargs):
            raise BadInput(f"task {self._task!r} collects items: enqueue(item) takes one")
        payload = self._arguments.encode((), {self._name: [args[0]]} if args else kwargs, limit)
        items = msgspec.json.decode(payload, type=dict[str, list[msgspec.Raw]]).get(self._name, [])
        self._check_count(len(items))
        collect, key = self._collecting(len(items), limit), self._key(template.queue, payload, items)
        new = replace(template, id=new_id(now), payload=payload, collect=collect)
        if collect.count >= collect.size:
            return new
        wait = collect.delay if collect.grace is None else collect.grace
        return replace(new, run_at=now + timedelta(seconds=wait), unique_key=key)

    def _check_count(self, count: int) -> None:
        if not 0 < count <= self._collect.size:
            raise BadInput(f"task {self._task!r} takes 1 to {self._collect.size:,} items at once, got {count:,}")

    def _collecting(self, count: int, limit: int) -> Collecting:
        collect = self._collect
        return Collecting(
            size=collect.size,
            delay=typing.cast("float", collect.delay),
            grace=typing.cast("float | None", collect.grace),
            max_bytes=min(limit, MAX_COLLECTED_BYTES),
            count=count,
        )

    def _key(self, queue: str, payload: str, items: list[msgspec.Raw]) -> str:
        """The key of the job that collects these items."""
        values = self._values(payload, items)
        if any(value != values[0] for value in values):
            raise BadInput(f"task {self._task!r} takes items of one key at once (Collect(by=…)): enqueue others apart")
        digest = blake2b(msgspec.json.encode((queue, values[0])), digest_size=_DIGEST_BYTES).hexdigest()
        return f"{self._task}:collect:{digest}"

    def _values(self, payload: str, items: list[msgspec.Raw]) -> list[bytes | None]:
        """For each item the value, as JSON, by which items are collected."""
        by = self._collect.by
        if by is None:
            return [None]
        if isinstance(by, str):
            return [self._field(by, item) for item in items]
        args, kwargs = self._arguments.decode(payload)
        return [self._encoded(by(item)) for item in (kwargs[self._name] if kwargs else args[0])]

    def _field(self, name: str, item: msgspec.Raw) -> bytes:
        found = msgspec.json.decode(item)
        if not isinstance(found, dict) or name not in found:
            raise BadInput(f"task {self._task!r} collects by {name!r}, which this item does not have")
        return self._encoded(found[name])

    def _encoded(self, value: Any) -> bytes:
        try:
            return msgspec.json.encode(value, order="sorted")
        except (TypeError, ValueError) as bad:
            raise BadInput(f"task {self._task!r}: Collect(by=…) gave no text or plain data: {bad}") from None


def _check_options(task: str, options: CheckedOptions) -> None:
    from .options import ConflictOptions

    defaults = type(options)()
    for name in (*_OF_ONE_CALL, *ConflictOptions.__annotations__):
        if getattr(options, name) != getattr(defaults, name):
            raise BadTask(f"task {task!r} collects the items of several calls in one job, so it has no {name}")


def _parameter(task: str, arguments: Arguments) -> tuple[str, Any]:
    """The name of the parameter that gets the items, and their type."""
    name, hint = next(iter(arguments.types.items()), ("", None))
    if len(arguments.types) != 1 or arguments.rest is not None or typing.get_origin(hint) is not list:
        raise BadTask(f"task {task!r} collects items, so its function takes one argument, annotated list[…]")
    return name, (typing.get_args(hint) or (Any,))[0]


def _check_field(task: str, name: str, item: Any) -> None:
    """Raises BadTask if the items certainly have no such field."""
    known = getattr(item, "__struct_encode_fields__", ())
    if is_dataclass(item) or typing.is_typeddict(item):
        bases: tuple[type, ...] = getattr(item, "__mro__", ())
        known = [field for one in bases for field in vars(one).get("__annotations__", ())]
    if known and name not in known:
        raise BadTask(f"task {task!r} collects by {name!r}, which its items do not have; {did_you_mean(name, known)}")
