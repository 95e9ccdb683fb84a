"""Prometheus metrics: of the whole cluster, read from the store, and of this process, from its counters."""

from __future__ import annotations

from collections.abc import Iterable

try:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.registry import Collector
except ImportError as missing:
    from ..errors import BadSetting

    raise BadSetting("metrics need prometheus-client: pip install 'mainspring[metrics]'") from missing


class ReadyMetrics(Collector):
    """A collector of metric families that exist already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def exposition(families: Iterable[Metric], accept: str = "") -> tuple[bytes, str]:
    """The exposition page and its content type, in the format that the client accepts, or as plain text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ReadyMetrics(families))
    encode, kind = choose_encoder(accept)
    return encode(registry), kind
