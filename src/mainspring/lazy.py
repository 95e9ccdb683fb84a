"""Laziness: names that are imported, and values that are made, when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from threading import RLock
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


def exports(
    package: str, modules: Mapping[str, Iterable[str]], former: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns a package's `__getattr__` and `__dir__`. `modules` has the names that each module of the package defines.

    `former` has the new names of those that were renamed; a former one gives a DeprecationWarning.
    """
    homes = {name: module for module, names in modules.items() for name in names}
    renamed = former or {}

    def find(name: str) -> Any:
        if name in renamed:
            from .suggest import renamed_value

            return renamed_value(f"{package}.{name}", f"{package}.{renamed[name]}", find(renamed[name]))
        if name not in homes:
            return _submodule(package, name)
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)  # the next use does not come here
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return find, names


def _submodule(package: str, name: str) -> Any:
    """The module of the package with that name, so that `import mainspring` is enough to use mainspring.events."""
    path = f"{package}.{name}"
    missing = AttributeError(f"module {package!r} has no attribute {name!r}")
    if name.startswith("_"):
        raise missing
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        raise missing from None


class lazy_property(Generic[T]):
    """A property whose value is made at its first use, and kept: once, even if several threads ask at the same time.

    functools.cached_property of Python 3.12 and later has no lock.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._lock = RLock()
        self._name = make.__name__
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...
    @overload
    def __get__(self, owner: object, kind: type) -> T: ...
    def __get__(self, owner: object | None, kind: type) -> Self | T:
        if owner is None:
            return self
        values = vars(owner)
        with self._lock:
            if self._name not in values:
                values[self._name] = self._make(owner)
        value: T = values[self._name]
        return value
