"""signal(): a step of a flow that has no job, since its value is given from outside."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec
from msgspec import UNSET

from ..codec import encode, json_schema, type_decoder
from ..errors import BadFlow, BadInput, BadPayload
from ..records.flow import MAX_SIGNAL_BYTES, MAX_SIGNAL_NAME_CHARACTERS
from ..records.plan import SignalStep
from ..span import Span, seconds
from .arguments import check_value, has_unknown
from .json_types import remembered, union_of
from .planner import Planner, current_planner, planning
from .shape import shape_with
from .steps import naming

if TYPE_CHECKING:
    from ..task.task import Task

T = TypeVar("T")
D = TypeVar("D")
# A longer schema is left out of the plan: it only helps those who give the signal by hand.
MAX_SCHEMA_BYTES = 16_384
# Flows of one process whose types of signals are remembered.
MAX_REMEMBERED_FLOWS_COUNT = 500


@overload
def signal(name: str, type: type[T], /, *, timeout: Span | None = None, after: Any = ()) -> T: ...
@overload
def signal(name: str, type: type[T], /, *, timeout: Span, default: D, after: Any = ()) -> T | D: ...
@overload
def signal(
    name: str, type: Any = Any, /, *, timeout: Span | None = None, default: Any = UNSET, after: Any = ()
) -> Any: ...
def signal(name: str, type: Any = Any, /, *, timeout: Span | None = None, default: Any = UNSET, after: Any = ()) -> Any:
    """A value that is given from outside of the flow: `go = signal("approval", Approval, timeout="3d", after=check)`.

    The timeout counts from the end of `after`. Then the value is `default`; without one the step is dead, as one whose
    job is dead.
    """
    planner = current_planner(f"signal({name!r:.80})")
    return add_signal(planner, name, type, timeout=timeout, default=default, after=after)


def add_signal(
    planner: Planner,
    name: str,
    type: Any = Any,
    *,
    timeout: Span | None = None,
    default: Any = UNSET,
    after: Any = (),
    schema: str | None = None,
) -> Any:
    """Adds a signal to the flow that is being planned. `schema` is that of the type; None: it follows from it."""
    check_name(name)
    with naming(f"signal {name!r}"):
        wait = None if timeout is None else seconds(timeout, "timeout=")
        if wait is None and default is not UNSET:
            raise BadFlow("default= is the value after the timeout: it needs a timeout=")
        if has_unknown(default):
            raise BadFlow("default= is a value that is known now, and no value of a step")
        given = None
        if default is not UNSET:
            if default is not None:
                check_value(default, type, "default=")
            given = planner.literal(default)
        result = union_of([type, None]) if default is None else type
        planner.signal_types[name] = type
        step = SignalStep(wait, given, schema_text(type) if schema is None else schema)
        return planner.add_signal(name, step, after, result)


def check_name(name: Any) -> None:
    """Raises BadInput if a signal cannot have this name."""
    if not isinstance(name, str) or not name or len(name) > MAX_SIGNAL_NAME_CHARACTERS or not name.isprintable():
        raise BadInput(
            f"a signal's name is printable text of 1 to {MAX_SIGNAL_NAME_CHARACTERS} characters, got {name!r:.80}"
        )


@remembered
def schema_text(type: Any) -> str:
    """The JSON schema of a type; empty if it says nothing, or is too long to be stored."""
    try:
        text = msgspec.json.encode(json_schema(type)).decode()
    except (TypeError, ValueError):  # a type that only its own decoder knows
        return ""
    return "" if text == "{}" or len(text) > MAX_SCHEMA_BYTES else text


def signal_value(task: Task[Any, Any] | None, name: str, value: Any) -> str:
    """The value as JSON. Raises BadInput if it certainly does not fit the signal of this flow."""
    check_name(name)
    try:
        data = encode(value)
    except BadPayload as bad:
        raise BadPayload(f"the value of signal {name!r}: {bad}") from None
    if len(data) > MAX_SIGNAL_BYTES:
        raise BadPayload(
            f"the value of signal {name!r} has {len(data):,} bytes, at most {MAX_SIGNAL_BYTES:,} are kept: pass the "
            "name of what is kept elsewhere"
        )
    wanted = Any if task is None or not task.is_flow else signal_types(task).get(name, Any)
    if wanted is not Any:
        try:
            type_decoder(wanted)(data)
        except Exception as bad:  # of the type's own code, too
            raise BadInput(f"the value of signal {name!r} does not fit: {bad}") from None
    return data.decode()


@lru_cache(MAX_REMEMBERED_FLOWS_COUNT)
def signal_types(task: Task[Any, Any]) -> Mapping[str, Any]:
    """The types of a flow's signals by name, as far as they are found without an input."""
    with planning(task.app) as planner:
        try:
            shape_with(planner, task)
        except BadFlow:  # what comes behind the first look at the input is not found
            return planner.signal_types
        return planner.signal_types
