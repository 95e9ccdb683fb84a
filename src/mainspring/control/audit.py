"""app.audit: who did what."""

from __future__ import annotations

from collections.abc import Sequence

from ..document import Entry, Trail
from .ground import Ground
from .jobs import PAGE, checked_limit


class Audit:
    """The changes of those who are named: in code by `with acting(…)`, and by the command line."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    async def list(self, which: Trail | None = None, *, limit: int = 100, before: str | None = None) -> Sequence[Entry]:
        """Matching entries, newest first; give the last one's id as `before` for the next page."""
        checked_limit(limit, PAGE)
        return await (await self._ground.opened()).audit(which or Trail(), limit=limit, before=before)
