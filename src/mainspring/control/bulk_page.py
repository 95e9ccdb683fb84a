"""Where a change by filter that was cut short goes on."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from datetime import datetime
from inspect import Signature
from typing import Annotated, Any, TypedDict

import msgspec
from msgspec.structs import replace

from ..errors import BadInput
from ..ids import JobId
from ..records.query import Filter
from ..suggest import unexpected_keyword

Zoned = Annotated[datetime, msgspec.Meta(tz=True)]


class BulkPage(TypedDict, total=False):
    """How much of what a filter matches is done in one call: all of it, if nothing is said."""

    limit: int
    """At most so many jobs, refused ones among them; the answer's `next` is where to go on."""
    after: str | None
    """The `next` of the call before, with the same filter."""


def check_keywords(call: str, signature: Signature, given: Mapping[str, Any]) -> None:
    """Refuses a keyword that a method does not have; options other than those of a BulkPage it checks itself."""
    last = list(signature.parameters.values())[-1]
    if last.kind is last.VAR_KEYWORD and last.annotation != "Unpack[BulkPage]":
        return
    more = BulkPage.__annotations__ if last.kind is last.VAR_KEYWORD else {}
    for name in given:
        if name not in signature.parameters and name not in more:
            known = [one for one in signature.parameters if one not in ("self", "which", "part")]
            raise unexpected_keyword(call, name, [*known, *more])


def bounded(which: Filter, now: datetime) -> Filter:
    """Those there are now: others may come meanwhile, and are left alone. Ids say themselves who is meant."""
    if which.ids is not None:
        return which
    return replace(which, created_before=min(which.created_before or now, now))


def token(which: Filter, after: JobId) -> str:
    return urlsafe_b64encode(msgspec.json.encode((which.created_before, after))).decode().rstrip("=")


def resumed(which: Filter, after: str | None, now: datetime) -> tuple[Filter, JobId | None]:
    """The filter of the first call, and the last job that was met."""
    if after is None:
        return bounded(which, now), None
    try:
        text = urlsafe_b64decode(after + "=" * (-len(after) % 4))
        since, id = msgspec.json.decode(text, type=tuple[Zoned | None, str])
        if id.isprintable():
            return bounded(which, since or now), id
    except (TypeError, ValueError, msgspec.DecodeError):
        pass
    raise BadInput(f"after={after!r:.80} is not where a change was cut short; give its `next`")
