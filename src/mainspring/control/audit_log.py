"""The audit log: each change by a named actor is recorded before it is made, and its outcome after it."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import asdict, replace

from ..actor import current_actor
from ..errors import MainspringError
from ..ids import new_id
from ..mask import mask_to_cut
from ..records.audit import AuditEntry
from ..records.outcome import clean
from ..records.query import Changed
from ..records.queue import DeadGroup
from ..records.worker import WorkerCommands
from ..schedule.record import Schedule, Spec
from ..store import Store
from ..survived_errors import count_error
from ..task.task import Task
from .bulk_page import check_keywords

if TYPE_CHECKING:
    from ..engine import Engine

_logger = logging.getLogger("mainspring")
# Size of the recorded arguments or outcome; with the names in it that makes 10 kB.
MAX_ENTRY_BYTES = 9_000
# Characters of a value that are masked before it is cut to its share of that.
MAX_MASKED_CHARACTERS = 64 << 10
# Ids listed in an entry.
MAX_IDS = 100
MAX_WHO_CHARACTERS = 200
MAX_TARGET_CHARACTERS = 1000
MAX_ERROR_CHARACTERS = 1000
# In a target that is too long, longer lists are shortened to their first values.
MAX_LIST_CHARACTERS = 200
MAX_NAMED_VALUES = 3
# Fields that every change of a record changes.
_ALWAYS_CHANGED = ("revision", "updated_at")


class OnEngine(Protocol):
    _engine: Engine


P = ParamSpec("P")
S = TypeVar("S", bound=OnEngine)
T = TypeVar("T")
Method = Callable[Concatenate[S, P], Coroutine[Any, Any, T]]


class AuditRecord(Struct):
    """What is known about a change while it is made."""

    changed: Changed | None = None
    before: Any = UNSET
    after: Any = UNSET

    def outcome(self) -> dict[str, Any]:
        """What is recorded as the outcome of the change."""
        outcome: dict[str, Any] = {}
        if self.changed is not None:
            done, refused = self.changed.done, self.changed.refused
            outcome = {"done": len(done), "refused": len(refused), "ids": done[:MAX_IDS]}
        if self.after is not UNSET:
            outcome["before"], outcome["after"] = differences(self.before, self.after)
        return outcome


_current_record: ContextVar[AuditRecord | None] = ContextVar("mainspring_audit_record", default=None)


def audited(action: str) -> Callable[[Method[S, P, T]], Method[S, P, T]]:
    """Records calls of the method in the audit trail if an actor is named; the first argument is the target.

    The entry is stored before anything is changed, or nothing is changed; the outcome follows. A call made inside
    another recorded call belongs to that one's entry, and a dry run is not recorded.
    """

    def decorate(method: Method[S, P, T]) -> Method[S, P, T]:
        signature = inspect.signature(method)

        @wraps(method)
        async def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
            check_keywords(method.__qualname__, signature, kwargs)
            who = current_actor()
            if who is None or _current_record.get() is not None or kwargs.get("dry_run"):
                return await method(self, *args, **kwargs)
            target, arguments = _target_and_arguments(signature, signature.bind(self, *args, **kwargs).arguments)
            return await record_call(
                self._engine, who, action, target, arguments, lambda: method(self, *args, **kwargs)
            )

        return call

    return decorate


async def record_call(
    engine: Engine, who: str, action: str, target: str, arguments: str, act: Callable[[], Awaitable[T]]
) -> T:
    """Calls `act`, with an entry stored before it and its outcome after it."""
    store, now = await engine.connect(), engine.clock.now()
    entry = AuditEntry(
        id=new_id(now), at=now, who=clean(who, MAX_WHO_CHARACTERS), action=action, target=target, asked=arguments
    )
    await store.record([entry])
    return await _run(store, entry, act)


async def _run(store: Store, entry: AuditEntry, act: Callable[[], Awaitable[T]]) -> T:
    record = AuditRecord()
    token = _current_record.set(record)
    try:
        value = await act()
    except Exception as error:
        failure = clean(f"{type(error).__name__}: {error}", MAX_ERROR_CHARACTERS)
        await _record_outcome(store, entry, {"error": failure, **record.outcome()})
        raise
    finally:
        _current_record.reset(token)
    await _record_outcome(store, entry, record.outcome())
    return value


async def _record_outcome(store: Store, entry: AuditEntry, outcome: Mapping[str, Any]) -> None:
    """Failures here are logged only: the change is made, or has failed for reasons of its own."""
    try:
        await store.record([replace(entry, outcome=encode_bounded(outcome))])
    except MainspringError as trouble:
        _logger.warning("the outcome of %s by %s is not in the audit trail: %s", entry.action, entry.who, trouble)
        count_error("audit", trouble)


def is_recording() -> bool:
    """Whether a change is being recorded, so that it is worth finding out what to annotate."""
    return _current_record.get() is not None


def annotate(*, changed: Changed | None = None, before: Any = UNSET, after: Any = UNSET) -> None:
    """Adds to the outcome of the current change. Of several calls the first `before` and the last `after` count."""
    if (record := _current_record.get()) is None:
        return
    if changed is not None:
        record.changed = changed
    if record.before is UNSET:
        record.before = before
    if after is not UNSET:
        record.after = after


def differences(before: Any, after: Any) -> tuple[Any, Any]:
    """The parts that differ; both values as a whole if they have no fields to compare."""
    old, new = _fields(before), _fields(after)
    if not isinstance(old, dict) or not isinstance(new, dict):
        return before, after
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    pairs = {name: differences(old.get(name), new.get(name)) for name in names}
    return {name: pair[0] for name, pair in pairs.items()}, {name: pair[1] for name, pair in pairs.items()}


def _fields(value: Any) -> Any:
    """The record's fields by name; other values, such as a trigger, are compared as a whole."""
    if not isinstance(value, Schedule | Spec | WorkerCommands):
        return value
    return {name: one for name, one in asdict(value).items() if name not in _ALWAYS_CHANGED}


# encoding


def _target_and_arguments(signature: inspect.Signature, given: Mapping[str, Any]) -> tuple[str, str]:
    """The target, and the other arguments as JSON."""
    first = [name for name, one in signature.parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD][1:2]
    others: dict[str, Any] = {}
    for name, value in list(given.items())[1:]:
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            others |= value
        elif name not in first:
            others[name] = value
    target = _target(given.get(first[0])) if first else "{}"
    return target, encode_bounded({name: value for name, value in others.items() if value is not UNSET})


def _target(value: Any) -> str:
    """A name or an id as it is, a filter as JSON; a filter for a single id is that id."""
    value = getattr(value, "name", value)
    if isinstance(value, str):
        return clean(value, MAX_TARGET_CHARACTERS)
    if value is None:
        return "{}"
    if not isinstance(value, Struct):
        return clean(repr(value), MAX_TARGET_CHARACTERS)
    chosen = {name: one for name, one in asdict(value).items() if one is not None}
    if isinstance(value, DeadGroup):
        chosen = {"task": value.task, "error": value.error}
    for name in ("ids", "names"):
        if list(chosen) == [name] and len(chosen[name]) == 1:
            return clean(str(chosen[name][0]), MAX_TARGET_CHARACTERS)
    text = _json(chosen).decode()
    return (
        text
        if len(text) <= MAX_TARGET_CHARACTERS
        else clean(_json(_shorten_lists(chosen)).decode(), MAX_TARGET_CHARACTERS)
    )


def _shorten_lists(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Shortens long lists to their first values and adds their length: JSON that is cut anywhere cannot be decoded."""
    cut: dict[str, Any] = {}
    for name, values in chosen.items():
        if (
            isinstance(values, tuple | list)
            and len(values) > MAX_NAMED_VALUES
            and len(_json(values)) > MAX_LIST_CHARACTERS
        ):
            cut |= {name: values[:MAX_NAMED_VALUES], f"{name}_count": len(values)}
        else:
            cut[name] = values
    return cut


def encode_bounded(parts: Mapping[str, Any]) -> str:
    """One JSON object. If it would be too long, its long values are shortened to texts."""
    encoded = {name: _json(value) for name, value in parts.items()}
    if sum(map(len, encoded.values())) > MAX_ENTRY_BYTES:
        share = MAX_ENTRY_BYTES // len(encoded)
        encoded = {
            name: part if len(part) <= share else _json(_shorten(part.decode(), max(60, share // 4)))
            for name, part in encoded.items()
        }
    return msgspec.json.encode({name: Raw(part) for name, part in encoded.items()}).decode()


def _shorten(text: str, limit: int) -> str:
    return clean(mask_to_cut(text, MAX_MASKED_CHARACTERS), limit)


def _json(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=_encode_other)
    except (TypeError, ValueError, RecursionError):
        return msgspec.json.encode(clean(repr(value), MAX_ERROR_CHARACTERS))


def _encode_other(value: Any) -> Any:
    if isinstance(value, UnsetType):
        return None
    if isinstance(value, Task):
        return value.name
    return dict(value) if isinstance(value, Mapping) else repr(value)
