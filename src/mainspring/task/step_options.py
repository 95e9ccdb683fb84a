"""The options of steps: those that act only in a flow, and those of a task that the jobs of its steps have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from ..errors import BadFlow
from ..records.plan import On, StepOptions
from .options import CheckedOptions, ConflictOptions, stored_options


class CheckedStepOptions(Struct, frozen=True, kw_only=True):
    """The options that act only in a flow, checked, with the default of each."""

    step: str | None = None
    after: Sequence[Any] = ()
    when: Any = None
    on: On = "success"
    optional: bool = False
    failed_ratio: float = 0.0
    at_once: int | None = None


def planned_options(
    own: CheckedOptions, given: CheckedOptions, fingerprint: str | None, group: str | None
) -> StepOptions:
    """The options of a step's jobs, whose limit_key is `group`. Raises BadFlow for one that a step cannot have."""
    if (reason := next(_not_for_steps(own, given), None)) is not None:
        raise BadFlow(reason)
    found = {**stored_options(own, given), "delay": own.delay, "expires": own.expires, "fingerprint": fingerprint}
    found["limit_key"] = group
    default = StepOptions()  # what equals it is left out of the stored plan
    names = (name for name in StepOptions.__struct_fields__ if found[name] != getattr(default, name))
    return StepOptions(**{name: found[name] for name in names})


def _not_for_steps(own: CheckedOptions, given: CheckedOptions) -> Iterator[str]:
    """What is wrong with options of a step, and the way out."""
    if own.collect is not None:
        yield "a step cannot collect items, as its job is of one flow: enqueue them from a task of the flow"
    for name in ("unique_key", "idempotency_key"):
        if getattr(own, name) is not None:
            way = f"clear it with using({name}=None), and give the key to the flow"
            yield f"a step has no {name}, as it runs once in its flow: {way}"
    if given.run_at is not None:
        yield "a step has no run_at, as it runs when what it needs has ended: use delay=, or run_at= of the flow"
    if given.within is not None:
        yield "a step has no within=, as its job is made later: enqueue the flow with within="
    if isinstance(own.expires, datetime):
        yield "expires of a step is a span, e.g. '1h', counted from when it is due; got an instant"
    for name in ConflictOptions.__annotations__:
        if getattr(given, name) != getattr(CheckedOptions(), name):
            yield f"a step has no {name}, as it has no key: give it to the flow, with the key"


def given_options(options: CheckedStepOptions) -> list[str]:
    """The names of those that differ from the default."""
    default = CheckedStepOptions()
    return [name for name in options.__struct_fields__ if getattr(options, name) is not getattr(default, name)]
