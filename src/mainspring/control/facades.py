"""The facades of an engine: each is imported and made when it is first used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from ..lazy import lazy_property

if TYPE_CHECKING:
    from .audit import Audit
    from .batches import Batches
    from .dead import Dead
    from .executions import Executions
    from .flows import Flows
    from .jobs import Jobs
    from .keys import Keys
    from .limits import Limits
    from .queues import Queues
    from .schedules import Schedules
    from .statistics import Statistics
    from .triggers import Triggers
    from .webhooks import Webhooks
    from .workers import Workers


class Facades(ABC):
    """The facades of an engine over its store."""

    @abstractmethod
    def make_facade(self, name: str) -> Any:
        """A facade of the class of that name."""

    @lazy_property
    def jobs(self) -> Jobs:
        made: Jobs = self.make_facade("Jobs")
        return made

    @lazy_property
    def dead(self) -> Dead:
        made: Dead = self.make_facade("Dead")
        return made

    @lazy_property
    def executions(self) -> Executions:
        made: Executions = self.make_facade("Executions")
        return made

    @lazy_property
    def flows(self) -> Flows:
        made: Flows = self.make_facade("Flows")
        return made

    @lazy_property
    def batches(self) -> Batches:
        made: Batches = self.make_facade("Batches")
        return made

    @lazy_property
    def keys(self) -> Keys:
        made: Keys = self.make_facade("Keys")
        return made

    @lazy_property
    def limits(self) -> Limits:
        made: Limits = self.make_facade("Limits")
        return made

    @lazy_property
    def queues(self) -> Queues:
        made: Queues = self.make_facade("Queues")
        return made

    @lazy_property
    def workers(self) -> Workers:
        made: Workers = self.make_facade("Workers")
        return made

    @lazy_property
    def schedules(self) -> Schedules:
        made: Schedules = self.make_facade("Schedules")
        return made

    @lazy_property
    def audit(self) -> Audit:
        made: Audit = self.make_facade("Audit")
        return made

    @lazy_property
    def webhooks(self) -> Webhooks:
        made: Webhooks = self.make_facade("Webhooks")
        return made

    @lazy_property
    def triggers(self) -> Triggers:
        made: Triggers = self.make_facade("Triggers")
        return made

    @lazy_property
    def statistics(self) -> Statistics:
        made: Statistics = self.make_facade("Statistics")
        return made
