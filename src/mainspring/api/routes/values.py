"""Kinds of values in bodies, as narrow as what they are given to."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from ...bounds import MAX_NAME_CHARACTERS, MAX_SPAN_SECONDS
from ...job import MAX_PRIORITY, MIN_PRIORITY

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARACTERS)]
# Of what stands in URLs: webhooks and triggers.
Slug = Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
KeyName = Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$")]
Instant = Annotated[datetime, Meta(tz=True)]
Seconds = Annotated[float, Meta(ge=0, le=MAX_SPAN_SECONDS)]
# Something that ends after a while.
Limit = Annotated[float, Meta(gt=0, le=MAX_SPAN_SECONDS)]
Count = Annotated[int, Meta(ge=0, lt=2**31)]
Priority = Annotated[int, Meta(ge=MIN_PRIORITY, le=MAX_PRIORITY)]
