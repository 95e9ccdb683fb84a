"""Options of Mainspring on a Django task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

if TYPE_CHECKING:
    from ..task.options import TaskOptions

F = TypeVar("F", bound=Callable[..., Any])
_ATTRIBUTE = "mainspring_options"


def options(**given: Unpack[TaskOptions]) -> Callable[[F], F]:
    """Gives a Django task options that Django has no words for, such as retries and timeouts:

    @task
    @options(max_retries=5, timeout=60)
    def send(to): ...
    """

    def give(fn: F) -> F:
        setattr(fn, _ATTRIBUTE, given)
        return fn

    return give


def options_of(fn: Callable[..., Any]) -> Mapping[str, Any]:
    """What options() has given the function."""
    found: Mapping[str, Any] = getattr(fn, _ATTRIBUTE, {})
    return found
