"""Suggestions in error messages: the known name that is nearest to an unknown one; and names that were renamed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from msgspec import StructMeta

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")

# Names that other libraries use, or that users try first, and our names for the same thing.
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
# The similarity a suggestion needs: "dely" suggests "delay", but "depth" does not suggest "path".
MIN_LIKENESS = 0.7
_MAX_NAMES = 20
_MAX_CHARACTERS = 200


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A suggestion as text: the nearest known name, or a list of known names."""
    names = sorted(known)
    if (near := nearest_name(str(name), names)) is not None:
        return f"did you mean {near!r}?"
    return f"known: {', '.join(names[:_MAX_NAMES]) or 'none'}"


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant. None if none is similar."""
    import difflib  # imported only if there is a message

    names = list(known)
    if SYNONYMS.get(name) in names:
        return SYNONYMS[name]
    near = difflib.get_close_matches(name[:_MAX_CHARACTERS], names, 1, MIN_LIKENESS)
    return near[0] if near else None


def unexpected_keyword(call: str, name: str, known: Iterable[str]) -> TypeError:
    """The error of a call with a keyword it does not take, with a suggestion."""
    return TypeError(f"{call}() got an unexpected keyword argument {name!r}; {did_you_mean(name, known)}")


class SuggestingMeta(type):
    """A metaclass: the error for an unknown keyword of the class suggests the nearest one."""

    if not TYPE_CHECKING:  # type checkers must see the class's own parameters

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            try:
                return super().__call__(*args, **kwargs)
            except TypeError as bad:
                match = _UNEXPECTED.search(str(bad))
                if match is None or match["name"] not in kwargs:
                    raise
                raise unexpected_keyword(cls.__name__, match["name"], _keywords(cls)) from None


class SuggestingStructMeta(SuggestingMeta, StructMeta):
    """SuggestingMeta for a Struct."""


def _keywords(cls: type) -> Iterable[str]:
    import inspect  # imported only if there is a message

    init: Any = cls.__init__  # type: ignore[misc]
    fields: tuple[str, ...] | None = getattr(cls, "__struct_fields__", None)
    return [name for name in inspect.signature(init).parameters if name != "self"] if fields is None else fields


def former_method(name: str, method: Callable[P, R]) -> Callable[P, R]:
    """The renamed method under its former name, with a DeprecationWarning."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        import warnings

        warnings.warn(f"{name}() is {method.__name__}() now", DeprecationWarning, stacklevel=2)
        return method(*args, **kwargs)

    return call


def renamed_value(old: str, new: str, value: T) -> T:
    """The value that has a new name, with a DeprecationWarning at the caller of the function that calls this one."""
    import warnings

    warnings.warn(f"{old} is {new} now", DeprecationWarning, stacklevel=3)
    return value
