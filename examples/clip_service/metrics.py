"""The service's own figures for Prometheus; those of its jobs stand beside them."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import func, select

from mainspring.metrics.cluster import ClusterCollector

from .app import app
from .database import session
from .tables import Clip, Delivery, Incident, IndexingCount, Subscription

registry = CollectorRegistry()


class Tables(Collector):
    """Read from the database when Prometheus asks: every process has the same figures, and no restart loses any."""

    def collect(self) -> Iterable[Metric]:
        with session() as db:
            total = db.scalar(select(func.count(Clip.id))) or 0
            embedded = db.scalar(select(func.count(Clip.embedded_at))) or 0
            yield GaugeMetricFamily("clips_with_embedding", "Clips that can be searched.", embedded)
            yield GaugeMetricFamily("clips_without_embedding", "Clips that cannot.", total - embedded)
            yield GaugeMetricFamily("clip_incidents", "Jobs that died.", db.scalar(select(func.count(Incident.id))))
            indexing = CounterMetricFamily("indexing_jobs", "Runs that index clips.", labels=["status"])
            for row in db.scalars(select(IndexingCount)):
                indexing.add_metric([row.status], row.runs)
            yield indexing
            yield _by_state("webhook_deliveries", "Webhooks for creators, by state.", Delivery)
            yield _by_state("subscriptions", "Subscriptions, by state.", Subscription)


def _by_state(name: str, about: str, table: type[Delivery] | type[Subscription]) -> Metric:
    family = GaugeMetricFamily(name, about, labels=["state"])
    with session() as db:
        for state, count in db.execute(select(table.state, func.count(table.id)).group_by(table.state)):
            family.add_metric([state], count)
    return family


registry.register(Tables())
registry.register(ClusterCollector(app))
