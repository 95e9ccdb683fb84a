"""Schema: which version a store's tables are, and whether this release can work on them. Pure."""

from __future__ import annotations

from msgspec import Struct


class Schema(Struct, frozen=True):
    """The tables of a store, seen by one release."""

    version: int
    """Of the tables; 0: there are none."""
    newest: int
    """The newest version this release knows."""
    oldest: int
    """The oldest version a release may know and still work on the tables: older and newer workers side by side."""

    @property
    def usable(self) -> bool:
        return self.oldest <= self.newest <= self.version

    @property
    def trouble(self) -> str | None:
        """What keeps this release from working, and the way out."""
        if self.usable:
            return None
        if self.version < self.newest:
            return f"the store has schema {self.version}, this release works with {self.newest}: mainspring migrate up"
        return (
            f"the store has schema {self.version}, for releases that know schema {self.oldest} or a later one; "
            f"this one knows {self.newest}: upgrade mainspring"
        )
