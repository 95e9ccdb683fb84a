"""Documents: small named texts, such as API keys, webhooks and sessions."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

# Minimum rows a store prunes per call if more remain.
MIN_PRUNED_ROWS = 500


class Document(Struct, frozen=True, kw_only=True):
    """A small named text: an API key, a webhook, a session."""

    kind: str
    name: str
    text: str
    revision: int = 1
    """The version of the document: each change adds one."""
    expires_at: datetime | None = None


class DocumentDrop(Struct, frozen=True):
    """The request to delete a document."""

    kind: str
    name: str
