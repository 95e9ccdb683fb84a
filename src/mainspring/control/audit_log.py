"""How every change that control makes comes into the audit trail: before it is made, and then what became of it."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import ContextVar
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

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
from .ground import Ground

_logger = logging.getLogger("mainspring")
# Bytes of what was asked or became of it, which with the names in it makes 10 kB.
ROOM = 9_000
# Characters of a value that are masked before it is cut to its share of that.
MAX_MASKED_CHARACTERS = 64 << 10
# Ids that are named, and the longest name, target and error in characters.
IDS, WHO, TARGET, ERROR = 100, 200, 1000, 1000
# Of a target that is too long, lists of more characters than this name their first values only.
LIST, NAMED = 200, 3
# Every change changes these.
_OF_ITSELF = ("revision", "updated_at")


class Grounded(Protocol):
    _ground: Ground


P = ParamSpec("P")
S = TypeVar("S", bound=Grounded)
T = TypeVar("T")
Method = Callable[Concatenate[S, P], Coroutine[Any, Any, T]]


class AuditRecord(Struct):
    """What is known of a change while it is made."""

    changed: Changed | None = None
    before: Any = UNSET
    after: Any = UNSET

    def told(self) -> dict[str, Any]:
        told: dict[str, Any] = {}
        if self.changed is not None:
            done, refused = self.changed.done, self.changed.refused
            told = {"done": len(done), "refused": len(refused), "ids": done[:IDS]}
        if self.after is not UNSET:
            told["before"], told["after"] = differing(self.before, self.after)
        return told


_deed: ContextVar[AuditRecord | None] = ContextVar("mainspring_deed", default=None)


def audited(action: str) -> Callable[[Method[S, P, T]], Method[S, P, T]]:
    """Where somebody acts, calls of this method are in the audit trail; its first argument is the target.

    An entry stands before anything is changed, or nothing is; its outcome follows. What is done as a part of another
    such call is in that one's entry, and a dry run in none.
    """

    def told(method: Method[S, P, T]) -> Method[S, P, T]:
        signature = inspect.signature(method)

        @wraps(method)
        async def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
            check_keywords(method.__qualname__, signature, kwargs)
            who = current_actor()
            if who is None or _deed.get() is not None or kwargs.get("dry_run"):
                return await method(self, *args, **kwargs)
            target, asked = _said(signature, signature.bind(self, *args, **kwargs).arguments)
            return await recorded(self._ground, who, action, target, asked, lambda: method(self, *args, **kwargs))

        return call

    return told


async def recorded(
    ground: Ground, who: str, action: str, target: str, asked: str, act: Callable[[], Awaitable[T]]
) -> T:
    """Does it, with an entry before it and the outcome after it."""
    store, now = await ground.opened(), ground.clock.now()
    entry = AuditEntry(id=new_id(now), at=now, who=clean(who, WHO), action=action, target=target, asked=asked)
    await store.record([entry])
    return await _done(store, entry, act)


async def _done(store: Store, entry: AuditEntry, act: Callable[[], Awaitable[T]]) -> T:
    deed = AuditRecord()
    token = _deed.set(deed)
    try:
        value = await act()
    except Exception as error:
        said = clean(f"{type(error).__name__}: {error}", ERROR)
        await _settle(store, entry, {"error": said, **deed.told()})
        raise
    finally:
        _deed.reset(token)
    await _settle(store, entry, deed.told())
    return value


async def _settle(store: Store, entry: AuditEntry, outcome: Mapping[str, Any]) -> None:
    """The change is made, or failed for reasons of its own: trouble here is not its caller's."""
    try:
        await store.record([replace(entry, outcome=fitted(outcome))])
    except MainspringError as trouble:
        _logger.warning("the outcome of %s by %s is not in the audit trail: %s", entry.action, entry.who, trouble)
        count_error("audit", trouble)


def noting() -> bool:
    """Whether it is worth finding out what there is to note."""
    return _deed.get() is not None


def annotate(*, changed: Changed | None = None, before: Any = UNSET, after: Any = UNSET) -> None:
    """What belongs into the outcome of the change under way; of several, the first `before` and the last `after`."""
    if (deed := _deed.get()) is None:
        return
    if changed is not None:
        deed.changed = changed
    if deed.before is UNSET:
        deed.before = before
    if after is not UNSET:
        deed.after = after


def differing(before: Any, after: Any) -> tuple[Any, Any]:
    """What is not the same in both; where there is only one of them, all of it."""
    old, new = _facts(before), _facts(after)
    if not isinstance(old, dict) or not isinstance(new, dict):
        return before, after
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    pairs = {name: differing(old.get(name), new.get(name)) for name in names}
    return {name: pair[0] for name, pair in pairs.items()}, {name: pair[1] for name, pair in pairs.items()}


def _facts(value: Any) -> Any:
    """By name; a trigger, for one, is told as a whole."""
    if not isinstance(value, Schedule | Spec | WorkerCommands):
        return value
    return {name: one for name, one in asdict(value).items() if name not in _OF_ITSELF}


# what is written


def _said(signature: inspect.Signature, given: Mapping[str, Any]) -> tuple[str, str]:
    """The target, and the other arguments as JSON."""
    first = [name for name, one in signature.parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD][1:2]
    asked: dict[str, Any] = {}
    for name, value in list(given.items())[1:]:
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            asked |= value
        elif name not in first:
            asked[name] = value
    target = _target(given.get(first[0])) if first else "{}"
    return target, fitted({name: value for name, value in asked.items() if value is not UNSET})


def _target(value: Any) -> str:
    """An id or a name as it is, a choice as JSON; one that chooses a single job by its id is that id."""
    value = getattr(value, "name", value)
    if isinstance(value, str):
        return clean(value, TARGET)
    if value is None:
        return "{}"
    if not isinstance(value, Struct):
        return clean(repr(value), TARGET)
    chosen = {name: one for name, one in asdict(value).items() if one is not None}
    if isinstance(value, DeadGroup):
        chosen = {"task": value.task, "error": value.error}
    for name in ("ids", "names"):
        if list(chosen) == [name] and len(chosen[name]) == 1:
            return clean(str(chosen[name][0]), TARGET)
    text = _json(chosen).decode()
    return text if len(text) <= TARGET else clean(_json(_beginnings(chosen)).decode(), TARGET)


def _beginnings(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The first of each long list, with how many there are: what is cut amid JSON could not be read."""
    cut: dict[str, Any] = {}
    for name, values in chosen.items():
        if isinstance(values, tuple | list) and len(values) > NAMED and len(_json(values)) > LIST:
            cut |= {name: values[:NAMED], f"{name}_count": len(values)}
        else:
            cut[name] = values
    return cut


def fitted(parts: Mapping[str, Any]) -> str:
    """One JSON object. Where it would be longer than there is room for, long parts are texts that were cut."""
    said = {name: _json(value) for name, value in parts.items()}
    if sum(map(len, said.values())) > ROOM:
        share = ROOM // len(said)
        said = {
            name: part if len(part) <= share else _json(_beginning(part.decode(), max(60, share // 4)))
            for name, part in said.items()
        }
    return msgspec.json.encode({name: Raw(part) for name, part in said.items()}).decode()


def _beginning(text: str, limit: int) -> str:
    return clean(mask_to_cut(text, MAX_MASKED_CHARACTERS), limit)


def _json(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=_plain)
    except (TypeError, ValueError, RecursionError):
        return msgspec.json.encode(clean(repr(value), ERROR))


def _plain(value: Any) -> Any:
    if isinstance(value, UnsetType):
        return None
    if isinstance(value, Task):
        return value.name
    return dict(value) if isinstance(value, Mapping) else repr(value)
