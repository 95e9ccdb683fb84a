"""The schema version of a store's tables, and whether this release can work with it. Pure."""

from __future__ import annotations

from msgspec import Struct


class Schema(Struct, frozen=True):
    """The schema version of a store, compared with this release."""

    version: int
    """The version of the tables. 0 if there are none."""
    newest: int
    """The newest version that this release knows."""
    oldest: int
    """A release that knows this version, or a later one, can work with the tables: old and new workers side by side."""

    @property
    def usable(self) -> bool:
        return self.oldest <= self.newest <= self.version

    @property
    def trouble(self) -> str | None:
        """Why this release cannot work with the tables, and the remedy. None if it can."""
        if self.usable:
            return None
        if self.version < self.newest:
            return f"the store has schema {self.version}, this release works with {self.newest}: mainspring migrate up"
        return (
            f"the store has schema {self.version}, for releases that know schema {self.oldest} or a later one; "
            f"this one knows {self.newest}: upgrade mainspring"
        )
