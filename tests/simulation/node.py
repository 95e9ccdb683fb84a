"""A member of the cluster: one process with its host, its link, its app and, if it works, its worker."""

from __future__ import annotations

import asyncio
from random import Random

from mainspring.app import Mainspring

from .auditor import Auditor
from .host import Host
from .ledger import Ledger
from .network import Link
from .plan import Ambush, Crash, Cut, Fault, Freeze, Leave, Loss, Plan, Slow
from .schedule_plan import declare
from .tasks import register

# Seconds in which a process is itself again after a trouble: calls under way end, the next ones are made.
RECOVERY = 10.0


class Member:
    def __init__(self, host: Host, plan: Plan, ledger: Ledger, auditor: Auditor, release: int = 0) -> None:
        self.host = host
        self._watch = auditor.watch
        self._lag = plan.settings["beat"] + RECOVERY
        entries = plan.agenda.releases[release]
        self._makes = {entry.name for entry in entries if entry.computed}
        self.link = Link(host, ledger, Random(f"{plan.seed} {host.name}"))
        self.link.crash = self._crash
        self.app = Mainspring(self.link.store(), clock=host.clock, instance_id=host.name, **plan.settings)
        register(self.app, host, auditor)
        declare(self.app, entries)
        self.main: asyncio.Task[None] | None = None
        self._leaving = asyncio.Event()
        self._told = False

    @property
    def works(self) -> bool:
        return self.main is not None and not self.host.dead and not self._told

    def work(self, slots: int) -> None:
        self.main = asyncio.create_task(self._work(slots))
        self._look()

    async def _work(self, slots: int) -> None:
        async with self.app.worker(concurrency=slots):
            await self._leaving.wait()

    def leave(self) -> None:
        self._told = True
        self.host.clock.call_later(0, self._leaving.set)
        self._look()

    def heal(self) -> None:
        """All is well, and nothing old is under way."""
        self.link.clear()
        self.host.thaw()
        self._look()

    def rest(self, seconds: float) -> None:
        self.host.rest(seconds)
        self.host.world.call_later(seconds, self._wake)
        self._look()

    def _wake(self) -> None:
        if self.host.rested:
            self.host.thaw()
        self._look()

    def _crash(self) -> None:
        self.host.crash()
        self._look()

    def _mend(self) -> None:
        self.link.heal()
        self._look()

    def _look(self) -> None:
        """Tells whether it can be relied on, once what is under way has come to its end."""
        if self.works and not self.host.frozen and self.link.good:
            self._watch.well(self.host.name, self._lag, self._makes)
        else:
            self._watch.ill(self.host.name)
            self._lag = max(self._lag, self.link.far + RECOVERY)

    def suffer(self, move: Fault) -> None:
        match move:
            case Crash():
                self.host.crash()
            case Ambush(point=point):
                self.link.ambush = point
            case Leave():
                self.leave()
            case Freeze(span=span):
                self.rest(span)
            case Cut(span=span, hangs=hangs):
                self.link.cut, self.link.hangs = True, hangs
                self.host.world.call_later(span, self._mend)
            case Loss(span=span, share=share):
                self.link.loss = share
                self.host.world.call_later(span, self._mend)
            case Slow(span=span, far=far):
                self.link.far = far
                self.host.world.call_later(span, self._mend)
        self._look()
