"""Durations and sizes counted in buckets, so that any number of them takes little room and can be added. Pure."""

from __future__ import annotations

from collections.abc import Mapping


def bucket(us: int) -> int:
    """A number for durations alike: four to each doubling, so a percentile is within 13 % of the truth."""
    if us < 4:
        return us
    bits = us.bit_length()
    return bits * 4 + ((us >> (bits - 3)) & 3)


def middle(number: int) -> float:
    """The duration in seconds that a bucket stands for."""
    if number < 12:
        return number / 1e6
    bits, part = divmod(number, 4)
    return ((4 + part) * 2 + 1) * 2.0 ** (bits - 4) / 1e6


def edges(number: int) -> tuple[int, int]:
    """The shortest and the longest duration of a bucket, in microseconds."""
    if number < 12:
        return number, number
    bits, part = divmod(number, 4)
    least = (4 + part) << (bits - 3)
    return least, least + (1 << (bits - 3)) - 1


def below(spread: Mapping[int, int], power: int) -> int:
    """How many are less than two to that power (from the second on): a bucket never lies on both sides of it."""
    return sum(count for number, count in spread.items() if number < 4 * (power + 1))


def percentile(spread: Mapping[int, int], share: float, total: int | None = None) -> float | None:
    """Seconds within which that share of the runs was over.

    `total` is the sum of all durations in microseconds: with it the figures agree with the average, and runs that all
    took the same time have that time as every percentile. Without it each bucket stands for its middle.
    """
    left, place = share * sum(spread.values()), 0.5 if total is None else _place(spread, total)
    for number in sorted(spread):
        left -= spread[number]
        if left <= 0:
            least, most = edges(number)
            return (least + place * (most - least)) / 1e6
    return None


def _place(spread: Mapping[int, int], total: int) -> float:
    """How far into their buckets the durations lie on average, from 0 to 1, for them to have this sum."""
    bounds = {number: edges(number) for number in spread}
    room = sum((most - least) * spread[number] for number, (least, most) in bounds.items())
    beyond = total - sum(least * spread[number] for number, (least, _) in bounds.items())
    return min(1.0, max(0.0, beyond / room)) if room else 0.0
