"""The facades of an engine whose store is an API."""

from ..engine import Facades
from .jobs import RemoteJobs
from .keys import RemoteKeys
from .queues import RemoteQueues
from .schedules import RemoteSchedules
from .stats import RemoteStatistics
from .triggers import RemoteTriggers
from .webhooks import RemoteWebhooks
from .workers import RemoteWorkers

REMOTE = Facades(
    jobs=RemoteJobs,
    keys=RemoteKeys,
    queues=RemoteQueues,
    workers=RemoteWorkers,
    schedules=RemoteSchedules,
    webhooks=RemoteWebhooks,
    triggers=RemoteTriggers,
    statistics=RemoteStatistics,
)
