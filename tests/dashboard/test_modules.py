"""The modules without a browser: every imported name is exported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

HOME = Path(__file__).parents[2] / "src" / "mainspring" / "dashboard"
MODULES = [path for path in sorted(HOME.rglob("*.js")) if path.parent.name != "vendor"]
TAKEN = re.compile(r"import\s+(?:\{([^}]*)\}|(\w+))?\s*(?:from\s*)?\(?\"(\.[^\"]+)\"")
GIVEN = re.compile(r"export\s+(?:async\s+)?(?:function|const|let|class)\s+(\w+)|export\s*\{([^}]*)\}")


def names(text: str, last: bool) -> set[str]:
    """The names in a list such as `a, b as c`, before or after `as`."""
    return {part.split(" as ")[-1 if last else 0].strip() for part in text.split(",") if part.strip()}


def given(path: Path) -> set[str]:
    found = GIVEN.findall(path.read_text(encoding="utf-8"))
    return {name for name, _ in found if name} | {name for _, some in found for name in names(some, last=True)}


def missing_imports(path: Path) -> Iterator[str]:
    """Imports of a module whose file does not exist or does not export that name."""
    me = path.relative_to(HOME).as_posix()
    for some, _, address in TAKEN.findall(path.read_text(encoding="utf-8")):
        other = (path.parent / address).resolve()
        if not other.is_file():
            yield f"{me}: {address}"
        elif other.parent.name != "vendor":
            yield from (f"{me}: {name} of {address}" for name in names(some, last=False) - given(other))


def test_modules_import_only_what_others_export() -> None:
    assert len(MODULES) > 50
    assert [offence for path in MODULES for offence in missing_imports(path)] == []
