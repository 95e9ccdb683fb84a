"""Redaction of user data: secrets are masked for every caller and, with `hide_payloads`, all of it for viewers.

The authentication middleware sets the caller of each request; handlers pass user data through these functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ...bounds import has_too_many_parts
from ...codec import decode_or_text
from ...config import Settings
from ...feed.event import FeedEvent, encode
from ...mask import MASK, mask, mask_text
from ...records.run import MAX_KIND_CHARACTERS, MAX_LINE_CHARACTERS, Failure
from ...schedule.record import INPUT_ERROR, MAX_REASON_CHARACTERS, Tick

if TYPE_CHECKING:
    from ...records.principal import Principal

_hides: ContextVar[bool] = ContextVar("mainspring.hides", default=False)


def hides_payloads(principal: Principal | None, settings: Settings) -> bool:
    """Whether arguments, results, metadata, log lines and error texts are hidden from this caller."""
    return settings.hide_payloads and (principal is None or principal.role == "viewer")


@contextmanager
def redact_for(principal: Principal | None, settings: Settings) -> Iterator[None]:
    """Redacts for this caller within the block."""
    token = _hides.set(hides_payloads(principal, settings))
    try:
        yield
    finally:
        _hides.reset(token)


def is_hiding() -> bool:
    """Whether user data is hidden from the caller of this request."""
    return _hides.get()


def redact_data(text: str) -> Raw:
    """JSON with its secrets masked. A text that is not JSON becomes a string; one with too many parts is hidden."""
    hidden = _hides.get() or has_too_many_parts(text)
    return Raw(msgspec.json.encode(MASK if hidden else mask(decode_or_text(text))))


def redact_mapping(values: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata, or arguments by name. Names are never hidden."""
    if _hides.get():
        return {mask_text(name): MASK for name in values}
    masked: dict[str, Any] = mask(values)
    return masked


def redact_failure(failure: Failure | None) -> Failure | None:
    if failure is None:
        return None
    if _hides.get():
        return replace(failure, message=MASK, stack=MASK)
    return replace(failure, message=mask_text(failure.message), stack=mask_text(failure.stack))


def redact_error(kind: str, limit: int = MAX_KIND_CHARACTERS) -> str:
    """A Failure.kind. If it was cut, its last word is dropped: it may be a part of a secret, which no mask matches."""
    if _hides.get():
        name, colon, _ = kind.partition(":")
        return f"{name}: {MASK}" if colon else name
    return mask_text(kind if len(kind) < limit else f"{kind.rpartition(' ')[0]} …")


def redact_message(line: str) -> str:
    """A Failure.line."""
    return redact_error(line, MAX_LINE_CHARACTERS)


def redact_reason(reason: str) -> str:
    """A Tick.reason: one of the engine's, or the error of a schedule's input function."""
    if not reason.startswith(INPUT_ERROR):
        return mask_text(reason)
    return INPUT_ERROR + redact_error(reason.removeprefix(INPUT_ERROR), limit=MAX_REASON_CHARACTERS)


def redact_tick(tick: Tick) -> Tick:
    return replace(tick, reason=redact_reason(tick.reason)) if tick.reason else tick


def redact_target(target: str) -> str:
    """The target of an audit entry: a name, an id, or a filter as JSON, which may contain error texts."""
    if not _hides.get() or not target.startswith("{"):
        return mask_text(target)
    members = decode_or_text(target)
    if not isinstance(members, dict):  # it was cut
        return MASK
    return msgspec.json.encode({name: _redact_member(name, value) for name, value in members.items()}).decode()


def _redact_member(name: str, value: Any) -> Any:
    if name == "error":
        return redact_error(str(value))
    if name == "key_prefix":
        return MASK
    return [redact_error(str(one)) for one in value] if name == "errors" else mask(value)


def redact_key(key: str | None) -> str | None:
    """A job's unique or idempotency key. It may be a digest of its arguments, which can be guessed if they are few."""
    return MASK if key is not None and _hides.get() else key


def redact_line(text: str) -> str:
    """A log line or progress note of a run."""
    return MASK if text and _hides.get() else mask_text(text)


def redact_event(event: FeedEvent, text: str) -> str:
    """A live event as JSON. `text` is its encoding with secrets masked; user data is removed for viewers."""
    user_data = (event.error, event.line, event.progress, event.tick)
    if not _hides.get() or user_data == (None, None, None, None):
        return text
    error, line, progress = event.error, event.line, event.progress
    return encode(
        replace(
            event,
            error=redact_failure(error),
            line=line and replace(line, text=MASK),
            tick=event.tick and redact_tick(event.tick),
            progress=progress and replace(progress, note=redact_line(progress.note)),
        )
    )


def mask_note(text: str | None) -> str | None:
    """A reason or note that an operator wrote, with secrets masked. Never hidden."""
    return None if text is None else mask_text(text)
