"""Sparklines: numbers as rows of block characters."""

from __future__ import annotations

from collections.abc import Sequence

BARS = " ▁▂▃▄▅▆▇█"


def bars_of(values: Sequence[int], height: int = 2) -> list[str]:
    """Rows of block characters, top first. The highest value fills all rows, and any value above 0 is visible."""
    top = max(values, default=0) or 1
    full = len(BARS) - 1
    levels = [max(round(value / top * full * height), value > 0) for value in values]
    return ["".join(BARS[min(full, max(0, level - full * row))] for level in levels) for row in reversed(range(height))]


def squeezed(values: Sequence[int], width: int) -> list[int]:
    """At most `width` sums of neighbouring values, grouped from the newest; the oldest group may be smaller."""
    size = max(1, -(-len(values) // max(1, width)))
    sums = [sum(values[max(0, end - size) : end]) for end in range(len(values), 0, -size)]
    return sums[::-1]


def trail(values: Sequence[int | None], width: int) -> str:
    """One row of at most `width` blocks, each the maximum of its group; a dot if the group has no value."""
    size = max(1, -(-len(values) // max(1, width)))
    groups = [values[max(0, end - size) : end] for end in range(len(values), 0, -size)][::-1]
    peaks = [max((value for value in group if value is not None), default=None) for group in groups]
    (bars,) = bars_of([peak or 0 for peak in peaks], 1)
    return "".join("·" if peak is None else bar for peak, bar in zip(peaks, bars, strict=True))
