"""What may be seen of what users have put in: secrets by nobody, and, where it is so set, nothing of it by viewers.

The door says for each request who looks; a handler shows such things through these functions and need not know.
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
from ...schedule.record import INPUT, REASON_LIMIT, Tick

if TYPE_CHECKING:
    from .authenticate import Principal

_hides: ContextVar[bool] = ContextVar("mainspring.hides", default=False)


def hides_from(who: Principal | None, settings: Settings) -> bool:
    """Whether arguments, results, metadata, log lines and error texts are not for them."""
    return settings.hide_payloads and (who is None or who.role == "viewer")


@contextmanager
def shown_to(who: Principal | None, settings: Settings) -> Iterator[None]:
    """What is shown inside is for their eyes."""
    token = _hides.set(hides_from(who, settings))
    try:
        yield
    finally:
        _hides.reset(token)


def hiding() -> bool:
    """Whether whoever asks is one of those from whom such things are hidden."""
    return _hides.get()


def shown_data(text: str) -> Raw:
    """JSON without its secrets; what is no JSON becomes text, and what has too many parts to look at is hidden."""
    hidden = _hides.get() or has_too_many_parts(text)
    return Raw(msgspec.json.encode(MASK if hidden else mask(decode_or_text(text))))


def shown_mapping(values: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata, or arguments by name. Names are shown to everybody."""
    if _hides.get():
        return {mask_text(name): MASK for name in values}
    masked: dict[str, Any] = mask(values)
    return masked


def shown_failure(failure: Failure | None) -> Failure | None:
    if failure is None:
        return None
    if _hides.get():
        return replace(failure, message=MASK, stack=MASK)
    return replace(failure, message=mask_text(failure.message), stack=mask_text(failure.stack))


def shown_error(kind: str, limit: int = MAX_KIND_CHARACTERS) -> str:
    """A Failure.kind. Where it was cut, what stands last may be half a secret that no mask would know."""
    if _hides.get():
        name, colon, _ = kind.partition(":")
        return f"{name}: {MASK}" if colon else name
    return mask_text(kind if len(kind) < limit else f"{kind.rpartition(' ')[0]} …")


def shown_message(line: str) -> str:
    """A Failure.line."""
    return shown_error(line, MAX_LINE_CHARACTERS)


def shown_reason(reason: str) -> str:
    """A Tick.reason: a word of ours, or the error of a schedule's input function."""
    if not reason.startswith(INPUT):
        return mask_text(reason)
    return INPUT + shown_error(reason.removeprefix(INPUT), limit=REASON_LIMIT)


def shown_tick(tick: Tick) -> Tick:
    return replace(tick, reason=shown_reason(tick.reason)) if tick.reason else tick


def shown_target(target: str) -> str:
    """What an entry of the audit trail is about: a name, an id, or a choice as JSON, in which errors may stand."""
    if not _hides.get() or not target.startswith("{"):
        return mask_text(target)
    chosen = decode_or_text(target)
    if not isinstance(chosen, dict):  # it was cut
        return MASK
    return msgspec.json.encode({name: _chosen(name, value) for name, value in chosen.items()}).decode()


def _chosen(name: str, value: Any) -> Any:
    if name == "error":
        return shown_error(str(value))
    if name == "key_prefix":
        return MASK
    return [shown_error(str(one)) for one in value] if name == "errors" else mask(value)


def shown_key(key: str | None) -> str | None:
    """A job's unique or idempotency key, which may be made of its arguments: a digest of few of them can be tried."""
    return MASK if key is not None and _hides.get() else key


def shown_line(text: str) -> str:
    """What a run has logged or noted."""
    return MASK if text and _hides.get() else mask_text(text)


def shown_notice(notice: FeedEvent, text: str) -> str:
    """A live event as JSON: `text`, in which secrets are masked already, or that without what viewers may not see."""
    said = (notice.error, notice.line, notice.progress, notice.tick)
    if not _hides.get() or said == (None, None, None, None):
        return text
    error, line, progress = notice.error, notice.line, notice.progress
    return encode(
        replace(
            notice,
            error=shown_failure(error),
            line=line and replace(line, text=MASK),
            tick=notice.tick and shown_tick(notice.tick),
            progress=progress and replace(progress, note=shown_line(progress.note)),
        )
    )


def shown_text(text: str | None) -> str | None:
    """What an operator wrote: reasons and notes."""
    return None if text is None else mask_text(text)
