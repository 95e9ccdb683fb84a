"""Counters of this process, for metrics. Their snapshots can be sent and added; sums never decrease."""

from __future__ import annotations

import threading
from collections.abc import Iterable, KeysView

from msgspec import Struct

from .histogram import bucket_of

# Sets of label values in one metric; further ones are counted together under OTHER_LABEL.
MAX_LABEL_SETS = 200
OTHER_LABEL = "(other)"
_SEPARATOR = "\x00"


class Histogram(Struct, omit_defaults=True):
    """Measured values: their sum, and their number by histogram.bucket_of(), in millionths."""

    total: float = 0.0
    buckets: dict[int, int] = {}

    def add(self, other: Histogram) -> None:
        self.total += other.total
        for number, count in other.buckets.items():
            self.buckets[number] = self.buckets.get(number, 0) + count


class CounterSnapshot(Struct, omit_defaults=True):
    """Counts and histograms by metric and label values."""

    totals: dict[str, dict[str, float]] = {}
    spreads: dict[str, dict[str, Histogram]] = {}

    def count(self, name: str, labels: str, by: float) -> None:
        series = self.totals.setdefault(name, {})
        labels = _key_of(series.keys(), labels)
        series[labels] = series.get(labels, 0) + by

    def spread(self, name: str, labels: str) -> Histogram:
        series = self.spreads.setdefault(name, {})
        labels = _key_of(series.keys(), labels)
        found = series.get(labels)
        if found is None:
            found = series[labels] = Histogram()
        return found

    def add(self, other: CounterSnapshot) -> None:
        for name, series in other.totals.items():
            for labels, count in series.items():
                self.count(name, labels, count)
        for name, spreads in other.spreads.items():
            for labels, spread in spreads.items():
                self.spread(name, labels).add(spread)

    def __bool__(self) -> bool:
        return bool(self.totals or self.spreads)


class Counters:
    """Counts and histograms of a process. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = CounterSnapshot()

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        with self._lock:
            self._counts.count(name, _SEPARATOR.join(labels), by)

    def observe(self, name: str, values: Iterable[float], *labels: str) -> None:
        with self._lock:
            spread = self._counts.spread(name, _SEPARATOR.join(labels))
            for value in values:
                spread.total += value
                number = bucket_of(max(0, int(value * 1_000_000)))
                spread.buckets[number] = spread.buckets.get(number, 0) + 1

    def whole(self) -> CounterSnapshot:
        """A copy of everything counted since the last take()."""
        counts = CounterSnapshot()
        with self._lock:
            counts.add(self._counts)
        return counts

    def add(self, counts: CounterSnapshot) -> None:
        """Adds the counts of another process."""
        with self._lock:
            self._counts.add(counts)

    def take(self) -> CounterSnapshot:
        """Everything counted since the last take(). The counters start again at 0."""
        with self._lock:
            taken, self._counts = self._counts, CounterSnapshot()
        return taken


def label_values(labels: str) -> list[str]:
    """The label values in a key."""
    return labels.split(_SEPARATOR)


def _key_of(known: KeysView[str], labels: str) -> str:
    """The key to count these labels under: their own, or that of all others if there are too many."""
    if labels in known or len(known) < MAX_LABEL_SETS:
        return labels
    return _SEPARATOR.join(OTHER_LABEL for _ in label_values(labels))
