"""Documents: small texts under a name, such as API keys, webhooks and sessions."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

# A store that leaves something to the next tidying has taken as many at least.
MIN_PRUNED_ROWS = 500


class Document(Struct, frozen=True, kw_only=True):
    """A small text under a name: an API key, a webhook, a session."""

    kind: str
    name: str
    text: str
    revision: int = 1
    """Which version of it this is: each change adds one."""
    expires_at: datetime | None = None
