"""The numbered migrations of a store's schema, and the releases that can work on the tables after each."""

from __future__ import annotations

import re

from ..errors import BadInput, SchemaMismatch
from ..records.schema import Schema
from .package_file import read_package_file

_HEAD = re.compile(r"^-- (up|down) (\d+)(?:, for (\d+))?\n", re.MULTILINE)


class Migrations:
    """Parsed from a text in which `-- up N` and `-- down N` begin a migration.

    After `-- up N, for M` a release that knows schema M can still work on the tables. After a plain `-- up N` only
    releases that know N can: the migration drops or renames what older statements write, so that these fail instead of
    doing harm.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        parts = _HEAD.split(text)[1:]
        self._bodies: dict[tuple[str, int], str] = {}
        self._compatible: dict[int, int] = {}
        for direction, number, compatible, body in zip(parts[::4], parts[1::4], parts[2::4], parts[3::4], strict=True):
            self._bodies[direction, int(number)] = body.strip()
            if direction == "up":
                self._compatible[int(number)] = int(compatible or number)
        self.newest = max(self._compatible)

    def oldest(self, version: int) -> int:
        """The oldest schema version that a release must know to work on tables of `version`."""
        return max((self._compatible[number] for number in range(1, version + 1)), default=0)

    def schema(self, version: int, oldest: int | None) -> Schema:
        """The state of a store whose tables have that version, as this release sees it."""
        return Schema(version, self.newest, version if oldest is None else oldest)

    def target(self, version: int | None) -> int:
        """The version to migrate to; None is the newest. Raises BadInput if there is no such version."""
        target = self.newest if version is None else version
        if not 0 <= target <= self.newest:
            raise BadInput(f"there is no schema version {target}; this release knows 0 to {self.newest}")
        return target

    def between(self, at: int, target: int) -> list[tuple[int, str]]:
        """The statements that lead from one version to another, as (version after them, statements)."""
        if at > self.newest:
            raise SchemaMismatch(
                f"the store has schema {at}, this release knows {self.newest} at most: "
                "only the release that migrated it there, or a later one, can migrate it down"
            )
        if at < target:
            return [(number, self._bodies["up", number]) for number in range(at + 1, target + 1)]
        return [(number - 1, self._bodies["down", number]) for number in range(at, target, -1)]


def load_migrations(name: str) -> Migrations:
    """The migrations in a file of this package."""
    return Migrations(read_package_file(name))
