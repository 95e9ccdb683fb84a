"""Windows of a list in order of creation: ranges of ids, which begin with their time, from the page's side on."""

from __future__ import annotations

from collections.abc import Iterator

from .job_query import Window

DAY_MICROSECONDS = 86_400_000_000
# Days from the first one, or from the last one, to the end of each window; beyond the last end is one more window.
WINDOW_DAYS = (1, 4, 12)
_MAX_MILLISECONDS = 2**48


def windows_of(newest: bool, anchor: int, until: str | None) -> Iterator[Window]:
    """The windows in order, from the day of `anchor` on. None goes beyond `until`."""
    day = anchor // DAY_MICROSECONDS
    ends = [_first_id(day + 1 - days if newest else day + days) for days in WINDOW_DAYS]
    last: str | None = None
    for end in [*ends, None]:
        if until is not None and (end is None or (end < until if newest else end > until)):
            yield (until, last) if newest else (last, id_after(until))
            return
        yield (end, last) if newest else (last, end)
        last = end


def id_after(id: str) -> str:
    """The bound of a window whose last id this is."""
    return f"{id}\x01"


def micros_of_id(id: str, default: int) -> int:
    """The time with which an id begins; `default` for an id of another form."""
    try:
        return 1000 * int(id[:8] + id[9:13], 16)
    except ValueError:
        return default


def _first_id(day: int) -> str:
    """The prefix of the ids of that day (UTC), which sorts before all of them."""
    milliseconds = min(max(day * DAY_MICROSECONDS // 1000, 0), _MAX_MILLISECONDS - 1)
    text = f"{milliseconds:012x}"
    return f"{text[:8]}-{text[8:]}"
