"""A node of the cluster: one process with its host, link and app, and with a worker if it runs jobs."""

from __future__ import annotations

import asyncio
from random import Random

from mainspring.app import Mainspring

from .audited_store import AuditedStore
from .auditor import Auditor
from .host import Host
from .network import Link
from .plan import Crash, CrashAtFiring, Cut, Fault, Freeze, Loss, Plan, Slow, Stop
from .schedule_plan import declare
from .tasks import register

# Time in which a process recovers from a fault: calls under way end, and the next ones are made.
RECOVERY_SECONDS = 10.0


class Node:
    """One process of the cluster: a worker, a client or the operator."""

    def __init__(self, host: Host, plan: Plan, store: AuditedStore, auditor: Auditor, release: int = 0) -> None:
        self.host = host
        self._watch = auditor.watch
        self._lag = plan.settings["beat"] + RECOVERY_SECONDS
        entries = plan.schedule_plan.releases[release]
        self._computes = {entry.name for entry in entries if entry.computed}
        self.link = Link(host, store, Random(f"{plan.seed} {host.name}"))
        self.link.crash = self._crash
        self.app = Mainspring(self.link.store(), clock=host.clock, instance_id=host.name, **plan.settings)
        register(self.app, host, auditor)
        declare(self.app, entries)
        self.main: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._stop_requested = False

    @property
    def works(self) -> bool:
        return self.main is not None and not self.host.dead and not self._stop_requested

    def work(self, slots: int) -> None:
        self.main = asyncio.create_task(self._work(slots))
        self._update_health()

    async def _work(self, slots: int) -> None:
        async with self.app.worker(concurrency=slots):
            await self._stopping.wait()

    def stop(self) -> None:
        self._stop_requested = True
        self.host.clock.call_later(0, self._stopping.set)
        self._update_health()

    def heal(self) -> None:
        """Ends all faults and drops late requests."""
        self.link.clear()
        self.host.thaw()
        self._update_health()

    def freeze_for(self, seconds: float) -> None:
        self.host.freeze_for(seconds)
        self.host.world.call_later(seconds, self._wake)
        self._update_health()

    def _wake(self) -> None:
        if self.host.may_thaw:
            self.host.thaw()
        self._update_health()

    def _crash(self) -> None:
        self.host.crash()
        self._update_health()

    def _heal_link(self) -> None:
        self.link.heal()
        self._update_health()

    def _update_health(self) -> None:
        """Records whether the node is healthy; it counts as recovered once calls under way have ended."""
        if self.works and not self.host.frozen and self.link.healthy:
            self._watch.mark_healthy(self.host.name, self._lag, self._computes)
        else:
            self._watch.mark_unhealthy(self.host.name)
            self._lag = max(self._lag, self.link.max_delay + RECOVERY_SECONDS)

    def apply(self, move: Fault) -> None:
        match move:
            case Crash():
                self.host.crash()
            case CrashAtFiring(point=point):
                self.link.crash_point = point
            case Stop():
                self.stop()
            case Freeze(span=span):
                self.freeze_for(span)
            case Cut(span=span, hangs=hangs):
                self.link.cut, self.link.hangs = True, hangs
                self.host.world.call_later(span, self._heal_link)
            case Loss(span=span, share=share):
                self.link.loss = share
                self.host.world.call_later(span, self._heal_link)
            case Slow(span=span, max_delay=max_delay):
                self.link.max_delay = max_delay
                self.host.world.call_later(span, self._heal_link)
        self._update_health()
