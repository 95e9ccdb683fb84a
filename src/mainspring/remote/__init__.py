"""Control where the store is an API: one call of it does what control would do in several steps of its own."""

from .jobs import RemoteJobs
from .keys import RemoteKeys
from .queues import RemoteQueues
from .schedules import RemoteSchedules
from .triggers import RemoteTriggers
from .webhooks import RemoteWebhooks
from .workers import RemoteWorkers

__all__ = [
    "RemoteJobs", "RemoteKeys", "RemoteQueues", "RemoteSchedules", "RemoteTriggers", "RemoteWebhooks", "RemoteWorkers",
]  # fmt: skip
