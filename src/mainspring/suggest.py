"""The way out of a wrong name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec import StructMeta

# Names that other libraries use, or that people try first, and ours for the same thing.
SYNONYMS = {
    "attempts": "max_retries", "max_attempts": "max_retries", "max_tries": "max_retries", "retry": "max_retries",
    "retries": "max_retries", "countdown": "delay", "eta": "run_at", "at": "run_at", "when": "run_at",
    "ttl": "expires", "expires_in": "expires", "expiry": "expires", "time_limit": "timeout",
    "soft_time_limit": "soft_timeout", "retry_backoff": "backoff", "args": "arguments", "kwargs": "arguments",
    "arguments": "kwargs", "autoretry_for": "retry_on", "dedup_key": "unique_key", "key": "unique_key",
    "timezone": "tz", "coalesce": "catch_up", "misfire_grace_time": "grace", "max_instances": "concurrency",
    "db": "store", "database": "store", "url": "store", "max_workers": "concurrency", "status": "state",
    "from": "start", "to": "end", "wait": "delay",
}  # fmt: skip
_UNEXPECTED = re.compile(r"[uU]nexpected keyword argument '(?P<name>[^']*)'")
# Share of a name that has to be the same: "dely" is meant for "delay", "depth" is not for "path".
MIN_LIKENESS = 0.7
_MAX_NAMES = 20
_MAX_CHARACTERS = 200


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """The known name that is nearest to it, or some of those there are."""
    names = sorted(known)
    if (near := nearest_name(str(name), names)) is not None:
        return f"did you mean {near!r}?"
    return f"known: {', '.join(names[:_MAX_NAMES]) or 'none'}"


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant."""
    import difflib  # needed for a message only

    names = list(known)
    if SYNONYMS.get(name) in names:
        return SYNONYMS[name]
    near = difflib.get_close_matches(name[:_MAX_CHARACTERS], names, 1, MIN_LIKENESS)
    return near[0] if near else None


def unexpected_keyword(call: str, name: str, known: Iterable[str]) -> TypeError:
    """What a call raises that got a keyword it does not have."""
    return TypeError(f"{call}() got an unexpected keyword argument {name!r}; {did_you_mean(name, known)}")


class SuggestingMeta(type):
    """A metaclass: a keyword that the class does not have is refused with the nearest one."""

    if not TYPE_CHECKING:  # a checker is to see the class's own parameters

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            try:
                return super().__call__(*args, **kwargs)
            except TypeError as bad:
                match = _UNEXPECTED.search(str(bad))
                if match is None or match["name"] not in kwargs:
                    raise
                raise unexpected_keyword(cls.__name__, match["name"], _keywords(cls)) from None


class SuggestingStructMeta(SuggestingMeta, StructMeta):
    """The same for a Struct."""


def _keywords(cls: type) -> Iterable[str]:
    import inspect  # needed for a message only

    init: Any = cls.__init__  # type: ignore[misc]
    fields: tuple[str, ...] | None = getattr(cls, "__struct_fields__", None)
    return [name for name in inspect.signature(init).parameters if name != "self"] if fields is None else fields
