"""The source tree as the house tests read it: paths, module names, parsed modules."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "mainspring"
TESTS = ROOT / "tests"
MODULES = sorted(SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    """The dotted name of a module, below mainspring."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def parse(path: Path) -> ast.Module:
    """A finalizer that runs meanwhile can spoil the parser's count of depth (CPython gh-106905)."""
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        gc.enable()


@cache
def tree_of(module: Path) -> ast.Module:
    """The parsed module, cached: many rules read each one."""
    return parse(module)
