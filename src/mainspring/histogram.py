"""Log-linear histograms of durations and sizes: small for any number of values, and they can be added. Pure."""

from __future__ import annotations

from collections.abc import Mapping


def bucket_of(us: int) -> int:
    """The bucket of a value: four buckets for each power of two, so percentiles are within 13 % of the exact value."""
    if us < 4:
        return us
    bits = us.bit_length()
    return bits * 4 + ((us >> (bits - 3)) & 3)


def midpoint(number: int) -> float:
    """The middle of a bucket, in seconds."""
    if number < 12:
        return number / 1e6
    bits, part = divmod(number, 4)
    return ((4 + part) * 2 + 1) * 2.0 ** (bits - 4) / 1e6


def count_below(spread: Mapping[int, int], power: int) -> int:
    """The number of values less than 2 ** power, for a power of at least 2. Exact: no bucket crosses that limit."""
    return sum(count for number, count in spread.items() if number < 4 * (power + 1))


def percentile(spread: Mapping[int, int], share: float, ends: tuple[int, int] | None = None) -> float | None:
    """The duration in seconds that `share` of the values do not exceed, within 13 % of the exact value.

    `ends` are the smallest and the largest value in microseconds. With them the result is never outside of the observed
    range; if all values are equal, every percentile is that value.
    """
    left = share * sum(spread.values())
    for number in sorted(spread):
        left -= spread[number]
        if left <= 0:
            return midpoint(number) if ends is None else _between(number, spread[number], *ends) / 1e6
    return None


def _between(number: int, count: int, least: int, most: int) -> float:
    """The value of a bucket in microseconds, between `least` and `most`. Exact if one of these is alone in it."""
    if count == 1 and number in (bucket_of(most), bucket_of(least)):
        return most if number == bucket_of(most) else least
    return min(max(midpoint(number) * 1e6, least), most)
