"""Numbers as rows of blocks. Pure."""

from __future__ import annotations

from collections.abc import Sequence

BARS = " ▁▂▃▄▅▆▇█"


def bars_of(values: Sequence[int], height: int = 2) -> list[str]:
    """Rows of block characters, top first; the highest value fills them all, and more than 0 can be seen."""
    top = max(values, default=0) or 1
    full = len(BARS) - 1
    levels = [max(round(value / top * full * height), value > 0) for value in values]
    return ["".join(BARS[min(full, max(0, level - full * row))] for level in levels) for row in reversed(range(height))]


def squeezed(values: Sequence[int], width: int) -> list[int]:
    """At most so many values, neighbours added up from the newest back; the oldest sum may be of fewer."""
    size = max(1, -(-len(values) // max(1, width)))
    sums = [sum(values[max(0, end - size) : end]) for end in range(len(values), 0, -size)]
    return sums[::-1]


def trail(values: Sequence[int | None], width: int) -> str:
    """One row of at most so many blocks, each for the highest of its neighbours; a dot where there is no value."""
    size = max(1, -(-len(values) // max(1, width)))
    groups = [values[max(0, end - size) : end] for end in range(len(values), 0, -size)][::-1]
    peaks = [max((value for value in group if value is not None), default=None) for group in groups]
    (bars,) = bars_of([peak or 0 for peak in peaks], 1)
    return "".join("·" if peak is None else bar for peak, bar in zip(peaks, bars, strict=True))
