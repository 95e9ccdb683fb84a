"""Deduplication keys, composed of a task's name, arguments, queue and period of time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from ..bounds import MAX_KEY_CHARACTERS, MAX_LONG_SPAN_SECONDS
from ..errors import BadInput
from ..span import Span, seconds
from ..suggest import SuggestingStructMeta


class Key(Struct, frozen=True, metaclass=SuggestingStructMeta):
    """A key made of the task's name and, optionally, its arguments, its queue and a period of time.

    `Key(args=True, period="1h")` allows the same call once an hour. Periods are counted from 1970 in UTC.
    """

    args: bool | str | tuple[str, ...] = False
    """True: all arguments. Names: only these."""
    queue: bool = False
    period: Span | None = None

    def make(self, task: str, values: Mapping[str, Any], queue: str, now: datetime) -> str:
        """The key of one call."""
        parts = [task]
        if self.args:
            chosen: tuple[str, ...] | list[str] = sorted(values)
            if not isinstance(self.args, bool):
                chosen = (self.args,) if isinstance(self.args, str) else self.args
            for name in chosen:
                if name not in values and self.args is not True:
                    raise BadInput(f"key of task {task!r} names argument {name!r}, which this call does not give")
            from hashlib import sha256

            data = msgspec.json.encode([(name, values[name]) for name in chosen], order="sorted", enc_hook=repr)
            parts.append(sha256(data).hexdigest()[:24])
        if self.queue:
            parts.append(f"queue={queue}")
        if self.period is not None:
            span = seconds(self.period, "Key(period=…)", MAX_LONG_SPAN_SECONDS)
            if span <= 0:
                raise BadInput("Key(period=…) must be more than 0 seconds")
            parts.append(f"period={int(now.timestamp() // span)}")
        return ":".join(parts)


KeySpec = str | Key | Callable[..., str]


def checked_key_spec(value: Any) -> Any:
    """The value of a key option. Raises BadInput if it cannot be one. The key of each call is checked later."""
    if isinstance(value, Key):
        if value.period is not None and seconds(value.period, "Key(period=…)", MAX_LONG_SPAN_SECONDS) <= 0:
            raise BadInput("Key(period=…) must be more than 0 seconds")
    elif not isinstance(value, str) and (isinstance(value, type) or not callable(value)):
        raise BadInput(f"is text, a Key or a function of the arguments, got {value!r:.80}")
    return value


def resolve_key(
    spec: KeySpec | None, option: str, task: str, values: Mapping[str, Any], queue: str, now: datetime
) -> str | None:
    """The key of one call: a text as given, a composed Key, or the result of a function of the arguments."""
    if spec is None:
        return None
    if isinstance(spec, Key):
        return spec.make(task, values, queue, now)
    if isinstance(spec, str):
        key: Any = spec
    elif isinstance(spec, type) or not callable(spec):
        raise BadInput(f"{option} of task {task!r} is text, a Key or a function of the arguments, got {spec!r:.80}")
    else:
        try:
            key = spec(**values)
        except TypeError as bad:
            raise BadInput(f"{option} of task {task!r} could not be made from the arguments: {bad}") from None
    if not isinstance(key, str) or not key or len(key) > MAX_KEY_CHARACTERS or not key.isprintable():
        raise BadInput(
            f"{option} of task {task!r} must be 1 to {MAX_KEY_CHARACTERS} printable characters, got {key!r:.80}"
        )
    return key
