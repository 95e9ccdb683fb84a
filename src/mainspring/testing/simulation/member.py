"""A member of the cluster: one process with its host, its link, its app and, if it works, its worker."""

from __future__ import annotations

import asyncio
from random import Random

from ...app import Mainspring
from .auditor import Auditor
from .host import Host
from .ledger import Ledger
from .link import Link
from .plan import Crash, Cut, Fault, Freeze, Leave, Loss, Plan, Slow
from .tasks import register


class Member:
    def __init__(self, host: Host, plan: Plan, ledger: Ledger, auditor: Auditor) -> None:
        self.host = host
        self.link = Link(host, ledger, Random(f"{plan.seed} {host.name}"))
        self.app = Mainspring(self.link.store(), clock=host.clock, instance_id=host.name, **plan.settings)
        register(self.app, host, auditor)
        self.main: asyncio.Task[None] | None = None
        self._leaving = asyncio.Event()

    @property
    def works(self) -> bool:
        return self.main is not None and not self.host.dead and not self._leaving.is_set()

    def work(self, slots: int) -> None:
        self.main = asyncio.create_task(self._work(slots))

    async def _work(self, slots: int) -> None:
        async with self.app.worker(concurrency=slots):
            await self._leaving.wait()

    def leave(self) -> None:
        self.host.clock.call_later(0, self._leaving.set)

    def heal(self) -> None:
        self.link.clear()
        self.host.thaw()

    def suffer(self, move: Fault) -> None:
        match move:
            case Crash():
                self.host.crash()
            case Leave():
                self.leave()
            case Freeze(span=span):
                self.host.freeze()
                self.host.world.call_later(span, self.host.thaw)
            case Cut(span=span, hangs=hangs):
                self.link.cut, self.link.hangs = True, hangs
                self.host.world.call_later(span, self.link.heal)
            case Loss(span=span, share=share):
                self.link.loss = share
                self.host.world.call_later(span, self.link.heal)
            case Slow(span=span, far=far):
                self.link.far = far
                self.host.world.call_later(span, self.link.heal)
