"""The way out of a wrong name."""

from __future__ import annotations

from collections.abc import Iterable


def hint(name: object, known: Iterable[str]) -> str:
    """The known name that is nearest to it, or some of those there are."""
    import difflib  # needed for a message only

    names = sorted(known)
    if near := difflib.get_close_matches(str(name)[:200], names, 1):
        return f"did you mean {near[0]!r}?"
    return f"known: {', '.join(names[:20]) or 'none'}"
