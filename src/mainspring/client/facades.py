"""The facades of an engine whose store is an API."""

from collections.abc import Mapping

from .batches import RemoteBatches
from .flows import RemoteFlows
from .jobs import RemoteJobs
from .keys import RemoteKeys
from .queues import RemoteQueues
from .schedules import RemoteSchedules
from .stats import RemoteStatistics
from .triggers import RemoteTriggers
from .webhooks import RemoteWebhooks
from .workers import RemoteWorkers

REMOTE: Mapping[str, type] = {
    "Batches": RemoteBatches,
    "Flows": RemoteFlows,
    "Jobs": RemoteJobs,
    "Keys": RemoteKeys,
    "Queues": RemoteQueues,
    "Workers": RemoteWorkers,
    "Schedules": RemoteSchedules,
    "Webhooks": RemoteWebhooks,
    "Triggers": RemoteTriggers,
    "Statistics": RemoteStatistics,
}
