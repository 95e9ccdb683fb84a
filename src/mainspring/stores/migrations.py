"""The numbered steps of a store's schema: which there are, and who can work on the tables after each."""

from __future__ import annotations

import re
from importlib.resources import files

from ..errors import BadInput, SchemaMismatch
from ..records.schema import Schema

_HEAD = re.compile(r"^-- (up|down) (\d+)(?:, for (\d+))?\n", re.MULTILINE)


class Migrations:
    """Read from a text in which `-- up N` and `-- down N` begin a step.

    After `-- up N, for M` a release that knows schema M still works on the tables. Where nothing is said, only one that
    knows N does; such a step takes away or renames what older statements write, so that they fail and do no harm.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        parts = _HEAD.split(text)[1:]
        self._bodies: dict[tuple[str, int], str] = {}
        self._compatible: dict[int, int] = {}
        for way, number, compatible, body in zip(parts[::4], parts[1::4], parts[2::4], parts[3::4], strict=True):
            self._bodies[way, int(number)] = body.strip()
            if way == "up":
                self._compatible[int(number)] = int(compatible or number)
        self.newest = max(self._compatible)

    def oldest(self, version: int) -> int:
        """The oldest version a release may know to work on tables of this one."""
        return max((self._compatible[number] for number in range(1, version + 1)), default=0)

    def schema(self, version: int, oldest: int | None) -> Schema:
        """Tables of that version, seen by this release."""
        return Schema(version, self.newest, version if oldest is None else oldest)

    def target(self, asked: int | None) -> int:
        target = self.newest if asked is None else asked
        if not 0 <= target <= self.newest:
            raise BadInput(f"there is no schema version {target}; this release knows 0 to {self.newest}")
        return target

    def between(self, at: int, target: int) -> list[tuple[int, str]]:
        """The statements from one version to another, each step with the version after it."""
        if at > self.newest:
            raise SchemaMismatch(
                f"the store has schema {at}, this release knows {self.newest} at most: "
                "only the release that brought it there, or a later one, can take it back"
            )
        if at < target:
            return [(number, self._bodies["up", number]) for number in range(at + 1, target + 1)]
        return [(number - 1, self._bodies["down", number]) for number in range(at, target, -1)]


def load_migrations(name: str) -> Migrations:
    """Those of a file of this package."""
    return Migrations(files("mainspring.stores").joinpath(name).read_text(encoding="utf-8"))
