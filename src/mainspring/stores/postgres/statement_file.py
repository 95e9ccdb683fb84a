"""Reads the statements of a .sql file, in which parts that statements share have names."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..package_file import read_package_file

_HEAD = re.compile(r"^-- (statement|fragment) (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)
# Not {1,18}, which is a part of a regular expression.
_NAME = re.compile(r"\{([a-z_]+)\}")


class StatementFile:
    """Parsed from a text in which `-- statement NAME` and `-- fragment NAME` begin a part.

    {name} in a statement stands for a fragment, or for a text that the caller gives. A fragment contains no other one,
    so that a reader looks up a name once. A comment has a line of its own, and is not sent to the server.
    """

    def __init__(self, text: str, **given: object) -> None:
        parts = _HEAD.split(text)[1:]
        bodies = [_COMMENT.sub("", body).strip() for body in parts[2::3]]
        found = list(zip(parts[::3], parts[1::3], bodies, strict=True))
        self.statements = {name: body for kind, name, body in found if kind == "statement"}
        self.fragments = {name: _filled(body, given) for kind, name, body in found if kind == "fragment"}
        self._given = given

    def statement(self, name: str, **given: object) -> str:
        """The statement as the server gets it. `given` are the texts of this variant of it."""
        return _filled(self.statements[name], {**self.fragments, **self._given, **given})


def _filled(text: str, texts: Mapping[str, object]) -> str:
    """The text with the texts of its names; their further lines are indented like the line of the name."""

    def filled(line: str) -> str:
        indent = line[: len(line) - len(line.lstrip())]
        return _NAME.sub(lambda found: str(texts[found[1]]).replace("\n", f"\n{indent}"), line)

    return "\n".join(map(filled, text.splitlines()))


def read_statements(name: str, **given: object) -> StatementFile:
    """The statements in a file of this package. `given` are texts that several of them contain."""
    return StatementFile(read_package_file(f"postgres/{name}"), **given)
