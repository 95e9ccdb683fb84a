"""Builds metric families from plain figures, with a bounded number of labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from ..counters import MAX_LABEL_SETS, OTHER_LABEL
from ..histogram import count_below

Labels = tuple[str, ...]


def counter(name: str, text: str, labels: Sequence[str], values: Mapping[Labels, float]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def gauge(name: str, text: str, labels: Sequence[str], values: Mapping[Labels, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def histogram(
    name: str,
    text: str,
    labels: Sequence[str],
    values: Mapping[Labels, tuple[Mapping[int, int], float]],
    bounds: Mapping[int, float],
) -> HistogramMetricFamily:
    """Each value is a histogram of bucket_of() and a sum; `bounds` maps powers of two (of its unit) to upper bounds."""
    family = HistogramMetricFamily(name, text, labels=labels)
    for key, (spread, total) in values.items():
        buckets = [(str(bound), float(count_below(spread, power))) for power, bound in bounds.items()]
        family.add_metric(key, [*buckets, ("+Inf", float(sum(spread.values())))], total)
    return family


def seconds(first: int, last: int, step: int = 1) -> dict[int, float]:
    """Bounds of durations counted in microseconds: 2**20 of them are 1.048576 s."""
    return {power: 2**power / 1e6 for power in range(first, last + 1, step)}


class FoldedLabels:
    """Decides which names get a label of their own: the first `limit` of them. The rest share "(other)"."""

    def __init__(self, names: Iterable[str], limit: int = MAX_LABEL_SETS) -> None:
        ordered = list(dict.fromkeys(names))
        self._own = frozenset(ordered[:limit])
        self.folded = len(ordered) - len(self._own)
        """Number of names without a label of their own."""

    def __call__(self, name: str) -> str:
        return name if name in self._own else OTHER_LABEL
