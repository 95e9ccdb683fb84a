"""The names of durable steps, and their values as checkpoints have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import msgspec

from ..codec import ResultCodec, encode, type_decoder
from ..errors import BadInput, BadPayload
from ..records.outcome import failure_of
from .durable import CheckpointMismatch

MAX_CHECKPOINT_BYTES = 1 << 20
MAX_NAME_CHARACTERS = 200
_in_step: ContextVar[str | None] = ContextVar("mainspring_in_step", default=None)


@contextmanager
def in_step(key: str) -> Iterator[None]:
    """The code of a step."""
    token = _in_step.set(key)
    try:
        yield
    finally:
        _in_step.reset(token)


def check_place(what: str) -> None:
    """Raises BadInput in the code of a step."""
    if (outer := _in_step.get()) is not None:
        raise BadInput(f"{what} was called inside of step {outer!r}: call it in the task itself")


def name_of(fn: Callable[..., Any], name: str | None) -> str:
    if name is not None:
        return checked_name(name)
    if not callable(fn):
        raise BadInput(f"ctx.step() takes a function and its arguments, got {fn!r:.80}")
    found = getattr(fn, "__name__", None)
    if not isinstance(found, str) or not found.isidentifier():
        raise BadInput(f"the step of {fn!r:.80} needs a name: ctx.step(fn, …, name=…)")
    return checked_name(found)


def checked_name(name: str) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARACTERS or not name.isprintable() or "#" in name:
        raise BadInput(
            f"a step's name is text of 1 to {MAX_NAME_CHARACTERS} printable characters without '#', got {name!r:.80}"
        )
    return name


@lru_cache(maxsize=512)
def decoder_of(fn: Callable[..., Any]) -> Callable[[str], Any]:
    return type_decoder(ResultCodec(fn, getattr(fn, "__name__", "step")).type)


def text_of(key: str, value: Any) -> str:
    """The value as it is stored. Raises BadInput if it cannot be."""
    try:
        text = encode(value, MAX_CHECKPOINT_BYTES).decode()
    except BadPayload as bad:
        raise BadInput(f"the value of step {key!r} cannot be stored: {bad}") from None
    if len(text) > MAX_CHECKPOINT_BYTES:
        raise BadInput(
            f"step {key!r} returned {len(text):,} bytes, the limit is {MAX_CHECKPOINT_BYTES:,}: keep big data elsewhere"
        )
    return text


def checked_value(key: str, text: str, decode: Callable[[str], Any]) -> Any:
    """The value as later runs will see it."""
    try:
        return decode(text)
    except msgspec.ValidationError as bad:
        raise BadInput(f"the value of step {key!r} does not fit its return annotation: {bad}") from None


def decoded(key: str, text: str, decode: Callable[[str], Any]) -> Any:
    """The stored value of a step. Raises CheckpointMismatch if it does not fit."""
    try:
        return decode(text)
    except Exception as bad:  # of any kind: validators of the value's class run there
        reason = failure_of(bad, stack=False).message
        raise CheckpointMismatch(
            f"checkpoint {key!r} of the run before does not fit: {reason}. Rename the step, or accept the old form"
        ) from None


def signal_value(name: str, text: str, type: Any) -> Any:
    """The value of a signal. Raises CheckpointMismatch if it does not fit."""
    try:
        return type_decoder(type)(text)
    except Exception as bad:  # of any kind: validators of the value's class run there
        reason = failure_of(bad, stack=False).message
        raise CheckpointMismatch(f"the value of signal {name!r} does not fit: {reason}") from None
