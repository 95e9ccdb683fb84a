"""The limit of a task, as its code says it, and the group of each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ..bounds import MAX_NAME_CHARACTERS
from ..codec import blake2b, encode
from ..errors import BadInput
from ..records.limit import (
    AT_ONCE,
    KEY_SEPARATOR,
    MAX_LIMIT_KEY_CHARACTERS,
    MAX_PER_SECONDS,
    MAX_RATE_JOBS,
    MAX_RUNNING_JOBS,
    StoredLimit,
    limit_key_of,
)
from ..span import Span, seconds
from ..suggest import SuggestingStructMeta

# `task:` and the name of a task.
MAX_LIMIT_NAME_CHARACTERS = MAX_NAME_CHARACTERS + 5
LimitBy = str | tuple[str, ...] | Callable[..., str]
"""A parameter, several, or a function of the arguments."""


class Limit(Struct, frozen=True, kw_only=True, metaclass=SuggestingStructMeta):
    """How many jobs of a task run at once, and how many start in a time, over all workers.

    `Limit(running=1, by="customer_id")` runs one job of each customer at a time; `Limit(rate=100, per=60)` starts at
    most 100 jobs a minute. `Limit(by="tenant")` limits nothing, but lets tenants take turns.
    """

    running: int | None = None
    """Jobs of one key that run at once. 0: none starts."""
    rate: int | None = None
    """Jobs of one key that start within `per`."""
    per: Span = 1.0
    burst: int = 1
    """Jobs of one key that may start at once after a rest."""
    total: int | None = None
    """Jobs of all keys that run at once. 0: none starts."""
    by: LimitBy | None = None
    """What the key of a call is made of. None: all calls have one key."""


def by_names(limit: Limit) -> tuple[str, ...]:
    """The parameters that make the key; empty for a function."""
    if isinstance(limit.by, str):
        return (limit.by,)
    return limit.by if isinstance(limit.by, tuple) else ()


def checked_limit(value: Any) -> Limit:
    """The limit. Raises BadInput if a number of it makes no sense."""
    if not isinstance(value, Limit):
        raise BadInput(f"takes Limit(running=…, rate=…, per=…, burst=…, by=…, total=…), got {value!r:.80}")
    for name, least, most in (
        ("running", 0, MAX_RUNNING_JOBS),
        ("total", 0, MAX_RUNNING_JOBS),
        ("rate", 1, MAX_RATE_JOBS),
    ):
        number = getattr(value, name)
        if number is not None:
            _check_number(name, number, least, most)
    _check_number("burst", value.burst, 1, MAX_RATE_JOBS)
    per = seconds(value.per, "Limit(per=…)")
    if per <= 0:
        raise BadInput("Limit(per=…) must be more than 0 seconds")
    if value.rate is None and (value.burst != 1 or value.per != 1.0):
        raise BadInput("Limit(per=…, burst=…) act only with rate=: say how many jobs start in that time")
    if value.rate is not None and value.burst * per / value.rate > MAX_PER_SECONDS:
        raise BadInput("Limit(burst=…) is more than the rate allows in 366 days: choose a smaller one")
    _check_by(value.by)
    return value


def _check_number(name: str, value: Any, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadInput(f"Limit({name}=…) is a whole number from {least} to {most:,}, got {value!r:.80}")


def _check_by(by: Any) -> None:
    if by is None or (callable(by) and not isinstance(by, type)):
        return
    names = (by,) if isinstance(by, str) else by
    if not isinstance(names, tuple) or not names or not all(isinstance(one, str) and one for one in names):
        raise BadInput(f"Limit(by=…) takes a parameter's name, a tuple of names or a function, got {by!r:.80}")


def check_parameters(limit: Limit, parameters: Mapping[str, Any], task: str) -> None:
    """Raises BadInput if `by` names a parameter that the task does not have."""
    for name in by_names(limit):
        if name not in parameters:
            known = ", ".join(parameters) or "none"
            raise BadInput(f"the limit of task {task!r} is by {name!r}, which is no parameter of it; known: {known}")


def stored_limit(limit: Limit, name: str) -> StoredLimit:
    """The limit as the store keeps it, with the digest of what the code says."""
    found = StoredLimit(
        name=name,
        running=limit.running,
        rate=limit.rate,
        per=seconds(limit.per, "Limit(per=…)"),
        burst=limit.burst,
        total=limit.total,
        by=by_names(limit),
    )
    digest = blake2b(msgspec.json.encode(found), digest_size=8).hexdigest()
    return msgspec.structs.replace(found, declared=digest)


def limit_key(limit: Limit | None, given: str | None, task: str, values: Callable[[], Mapping[str, Any]]) -> str | None:
    """The group of a call: the key that the call has `given`, or that its arguments make. None if it has no limit."""
    name = task_limit_name(task)
    if given is not None:
        return limit_key_of(name, given)
    if limit is None:
        return None
    return limit_key_of(name, "" if limit.by is None else _key_of(limit, task, values()))


def at_once_name(jobs: int) -> str:
    """The name of the limit of a map with at_once."""
    return f"{AT_ONCE}{jobs}"


def task_limit_name(task: str) -> str:
    return f"task:{task}"


def _key_of(limit: Limit, task: str, values: Mapping[str, Any]) -> str:
    if callable(limit.by):
        try:
            key: Any = limit.by(**values)
        except TypeError as bad:
            raise BadInput(f"the key of the limit of task {task!r} could not be made: {bad}") from None
    else:
        return key_of_values(by_names(limit), task, values)
    return checked_group_key(key, f"the key of the limit of task {task!r}")


def key_of_values(names: tuple[str, ...], task: str, values: Mapping[str, Any]) -> str:
    """The key made of these arguments: a text as it is, other values as JSON."""
    for name in names:
        if name not in values:
            raise BadInput(f"the limit of task {task!r} is by {name!r}, which this call does not give")
    texts = [_text_of(values[name]) for name in names]
    return checked_group_key("/".join(texts), f"the key of the limit of task {task!r}")


def _text_of(value: Any) -> str:
    """A text as it is, other values as their JSON: the same of a call in Python and of one over HTTP."""
    data = encode(value)
    decoded = msgspec.json.decode(data)
    return decoded if isinstance(decoded, str) else msgspec.json.encode(decoded, order="sorted").decode()


def check_limit_key(limit_key: Any, of: str) -> None:
    """Raises BadInput if it is no name of a limit, a line break and a key."""
    name, found, key = limit_key.partition(KEY_SEPARATOR) if isinstance(limit_key, str) else ("", "", "")
    good = (
        found and name.startswith(("task:", AT_ONCE)) and name.isprintable() and len(name) <= MAX_LIMIT_NAME_CHARACTERS
    )
    if not good or (name.startswith(AT_ONCE) and not name[len(AT_ONCE) :].isdecimal()):
        raise BadInput(
            f"limit_key of {of} is made by its task: use task.using(limit_key=…).job(…), got {limit_key!r:.80}"
        )
    if key:
        checked_group_key(key, f"limit_key of {of}")


def checked_group_key(key: Any, what: str) -> str:
    """The key. Raises BadInput if it is no short printable text."""
    if not isinstance(key, str) or not 0 < len(key) <= MAX_LIMIT_KEY_CHARACTERS or not key.isprintable():
        bounds = f"1 to {MAX_LIMIT_KEY_CHARACTERS} printable characters"
        raise BadInput(f"{what} must be {bounds}, got {key!r:.80}: make a shorter one with by=lambda …, or limit_key=")
    return key
