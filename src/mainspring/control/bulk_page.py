"""Paging options of bulk changes by filter, and the cursor at which the next call continues."""

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
    """How many of the matching jobs one call changes: all of them by default."""

    limit: int
    """Maximum number of jobs, refused ones included; the result's `next` continues from there."""
    after: str | None
    """The `next` of the previous call, with the same filter."""


def check_keywords(call: str, signature: Signature, given: Mapping[str, Any]) -> None:
    """Raises TypeError for an unknown keyword. Other **options than BulkPage are checked by the method itself."""
    last = list(signature.parameters.values())[-1]
    if last.kind is last.VAR_KEYWORD and last.annotation != "Unpack[BulkPage]":
        return
    more = BulkPage.__annotations__ if last.kind is last.VAR_KEYWORD else {}
    for name in given:
        if name not in signature.parameters and name not in more:
            known = [one for one in signature.parameters if one not in ("self", "which", "part")]
            raise unexpected_keyword(call, name, [*known, *more])


def existing_only(which: Filter, now: datetime) -> Filter:
    """The filter restricted to jobs that exist now: later ones are left alone. Ids need no restriction."""
    if which.ids is not None:
        return which
    return replace(which, created_before=min(which.created_before or now, now))


def bulk_token(which: Filter, after: JobId) -> str:
    return urlsafe_b64encode(msgspec.json.encode((which.created_before, after))).decode().rstrip("=")


def resume_from(which: Filter, after: str | None, now: datetime) -> tuple[Filter, JobId | None]:
    """The filter of the first call, and the last job processed."""
    if after is None:
        return existing_only(which, now), None
    try:
        text = urlsafe_b64decode(after + "=" * (-len(after) % 4))
        since, id = msgspec.json.decode(text, type=tuple[Zoned | None, str])
        if id.isprintable():
            return existing_only(which, since or now), id
    except (TypeError, ValueError, msgspec.DecodeError):
        pass
    raise BadInput(f"after={after!r:.80} is not where a change was cut short; give its `next`")
