"""Types of fields in request bodies, with their limits."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from ...bounds import MAX_NAME_CHARACTERS, MAX_SPAN_SECONDS
from ...errors import BadInput
from ...records.job import MAX_PRIORITY, MIN_PRIORITY
from ...retry import Backoff
from ...span import parse_span

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARACTERS)]
# Names of webhooks and triggers, which are parts of URLs.
Slug = Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$(?!\\n)")]
KeyName = Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$(?!\\n)")]
Instant = Annotated[datetime, Meta(tz=True)]
# Parsed by the method that it is passed to.
SpanText = Annotated[str, Meta(max_length=100, description="A span of time such as 4s, 1h30m or 2 days.")]
Seconds = Annotated[float, Meta(ge=0, le=MAX_SPAN_SECONDS)] | SpanText
# A span greater than zero.
Limit = Annotated[float, Meta(gt=0, le=MAX_SPAN_SECONDS)] | SpanText
# A text is a span, or an instant with its zone.
LimitOrInstant = (
    Annotated[float, Meta(gt=0, le=MAX_SPAN_SECONDS)]
    | Annotated[
        str, Meta(max_length=100, description="A span such as 1h30m, or an instant such as 2030-01-01T09:00:00Z.")
    ]
)
Count = Annotated[int, Meta(ge=0, lt=2**31)]
Priority = Annotated[int, Meta(ge=MIN_PRIORITY, le=MAX_PRIORITY)]


class BackoffRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The delay before each retry."""

    initial: Seconds = 1.0
    multiplier: float = 2.0
    max: Seconds = 3600.0
    jitter: float = 0.25
    curve: Literal["exponential", "linear"] = "exponential"

    def backoff(self) -> Backoff:
        return Backoff(self.initial, self.multiplier, self.max, self.jitter, self.curve)


def span_or_instant(given: float | str | None, name: str) -> float | str | datetime | None:
    """The given span, or the instant in the given text. Raises BadInput if the text is neither."""
    if not isinstance(given, str) or parse_span(given) is not None:
        return given
    try:
        return msgspec.convert(given, Instant)
    except msgspec.ValidationError:
        accepted = "a span such as 3600 or '1h30m', or an instant with its zone such as 2030-01-01T09:00:00Z"
        raise BadInput(f"{name} takes {accepted}; got {given!r:.80}") from None
