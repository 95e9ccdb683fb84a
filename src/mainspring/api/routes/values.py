"""Kinds of values in bodies, as narrow as what they are given to."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from ...job import MAX_PRIORITY, MIN_PRIORITY

_LONGEST = 10**9
Name = Annotated[str, Meta(min_length=1, max_length=200)]
# Of what stands in URLs: webhooks and triggers.
Slug = Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$(?!\\n)")]
KeyName = Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$(?!\\n)")]
Instant = Annotated[datetime, Meta(tz=True)]
Seconds = Annotated[float, Meta(ge=0, le=_LONGEST)]
# Something that ends after a while.
Limit = Annotated[float, Meta(gt=0, le=_LONGEST)]
Count = Annotated[int, Meta(ge=0, lt=2**31)]
Priority = Annotated[int, Meta(ge=MIN_PRIORITY, le=MAX_PRIORITY)]
