"""Durations and sizes counted in buckets, so that any number of them takes little room and can be added. Pure."""

from __future__ import annotations

from collections.abc import Mapping


def bucket_of(us: int) -> int:
    """A number for durations alike: four to each doubling, so a percentile is within 13 % of the truth."""
    if us < 4:
        return us
    bits = us.bit_length()
    return bits * 4 + ((us >> (bits - 3)) & 3)


def midpoint(number: int) -> float:
    """The duration in seconds that a bucket stands for."""
    if number < 12:
        return number / 1e6
    bits, part = divmod(number, 4)
    return ((4 + part) * 2 + 1) * 2.0 ** (bits - 4) / 1e6


def count_below(spread: Mapping[int, int], power: int) -> int:
    """How many are less than two to that power (from the second on): a bucket never lies on both sides of it."""
    return sum(count for number, count in spread.items() if number < 4 * (power + 1))


def percentile(spread: Mapping[int, int], share: float, ends: tuple[int, int] | None = None) -> float | None:
    """Seconds within which that share of the runs was over, within 13 % of the truth.

    `ends` are the shortest and the longest duration in microseconds: with them the figure never lies outside of what
    was observed, and runs that all took the same time have that time as every percentile.
    """
    left = share * sum(spread.values())
    for number in sorted(spread):
        left -= spread[number]
        if left <= 0:
            return midpoint(number) if ends is None else _between(number, spread[number], *ends) / 1e6
    return None


def _between(number: int, count: int, least: int, most: int) -> float:
    """The microseconds that a bucket stands for where these are the ends: an end that is alone in it is exact."""
    if count == 1 and number in (bucket_of(most), bucket_of(least)):
        return most if number == bucket_of(most) else least
    return min(max(midpoint(number) * 1e6, least), most)
