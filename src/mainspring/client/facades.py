"""The facades of an app whose store is an API."""

from .jobs import RemoteJobs
from .keys import RemoteKeys
from .queues import RemoteQueues
from .schedules import RemoteSchedules
from .triggers import RemoteTriggers
from .webhooks import RemoteWebhooks
from .workers import RemoteWorkers

__all__ = [
    "RemoteJobs",
    "RemoteKeys",
    "RemoteQueues",
    "RemoteSchedules",
    "RemoteTriggers",
    "RemoteWebhooks",
    "RemoteWorkers",
]
