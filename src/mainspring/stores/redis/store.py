"""The Redis store: jobs in Redis or Valkey, shared by any number of machines."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from ...clock import instant
from ...errors import BadInput, StoreError
from ...failpoint import failpoint
from ...ids import JobId, WorkerId
from ...records.finding import Finding
from ...records.job import Action, Enqueued, Job, NewJob, State
from ...records.outcome import Outcome
from ...records.pruning import Pruning
from ...records.query import Changed, Cursor, Filter, Sort, Updates
from ...records.queue import DeadGroup, Overview
from ...records.run import Execution, LogLine, RunReport
from ...records.schema import Schema
from ...records.tally import Span, Tally
from ...records.worker import BeatReply, Claim, WorkerCommands, WorkerInfo, WorkerRow
from ...schedule.record import Due, Fired, Firing, LeaderTerm, Schedule, Tick
from ...store import Listening, Store, Topic
from ...survived_errors import SurvivedErrors
from ...task.retention import Rules
from ..rules import unique_ids
from . import claim, count, enqueue, finish, lists, tally
from . import schedules as series
from .aside import delete_queueless, set_aside_schedules
from .audit import RedisAudit
from .connector import RedisConnector
from .doctor import check_servers, findings, listener_finding
from .documents import RedisDocuments, prune_documents
from .feed import RedisFeed
from .hashes import read_hash
from .listener import RedisListener, RedisWakeups
from .repair import repair_keys, repair_schedules
from .run_reads import read_executions, read_lines
from .shard import Shards
from .two_phase import sweep
from .worker_rows import workers_of

_fold_errors = SurvivedErrors("tally", "the next beat folds the counts and ends transactions that were left behind")
# diagnose() waits this long for the listener's status.
LISTENER_TIMEOUT_SECONDS = 8.0


class RedisStore(RedisDocuments, RedisAudit, RedisFeed):
    """Each verb is one script or one optimistic transaction."""

    # life

    async def open(self, *, migrate: bool = True) -> None:
        if self._shards is not None and not self._shards.connector.usable:
            if self._shards.connector.pid != os.getpid():
                self._wakeups = RedisWakeups(self._clock)
            elif self._listener is not None:
                self._listener.forget()
            self._shards.connector.forget()
            self._shards = self._listener = None
        if self._shards is None:
            shards = Shards(RedisConnector(self.url))
            try:
                with self._clock.outside():
                    await check_servers(shards)
            except BaseException:
                await shards.connector.close()
                raise
            self._shards = shards
            self._listener = RedisListener(shards, self._wakeups) if self._clock.real else None

    async def close(self) -> None:
        shards, listener = self._shards, self._listener
        self._shards = self._listener = None
        if shards is None:
            return
        connector = shards.connector
        if connector.loop is asyncio.get_running_loop():
            with self._clock.outside():
                await _shut(listener, connector)
        elif connector.pid == os.getpid() and connector.loop.is_running():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_shut(listener, connector), connector.loop))
        else:
            for part in (listener, connector):
                if part is not None:
                    part.forget()

    def clone(self) -> Store:
        return RedisStore(self.url, clock=self._clock, durability=self._durability, wakeups=self._wakeups)

    async def schema(self) -> Schema:
        self._open()
        return Schema(1, 1, 1)

    async def migrate(self, target: int | None = None) -> list[int]:
        self._open()
        if target not in (None, 1):
            raise BadInput(f"the Redis store has one schema, 1; cannot migrate to {target}")
        return []

    async def time(self) -> datetime:
        shards = self._open()
        if not self._clock.real:
            return self._clock.now()
        seconds, micro = await shards.first.call("TIME")
        return instant(int(seconds) * 1_000_000 + int(micro))

    async def diagnose(self) -> list[Finding]:
        with self._clock.outside():
            found = await findings(self._open(), self._wakeups.data_loss.losses)
            if self._listener is not None:
                found.append(
                    listener_finding(
                        await self._listener.wait_until_known(LISTENER_TIMEOUT_SECONDS), self._listener.error_text
                    )
                )
        return found

    async def wait(self, topic: Topic, timeout: float, *, seen: int | None = None) -> int:
        self._open()
        if self._listener is not None:
            self._listener.listen()
        return await self._wakeups.broadcast("new" if topic == "claimable" else topic).wait(timeout, seen)

    @property
    def listening(self) -> Listening:
        if self._wakeups.listeners:
            return "ok"
        return "failed" if self._listener is not None and self._listener.error_text else "off"

    # the path of a job

    async def enqueue(self, jobs: Sequence[NewJob], *, now: datetime, within: Any = None) -> list[Enqueued]:
        shards = self._open()
        if within is not None:
            self.capabilities.require_transactions("within=")
        if not jobs:
            return []
        with self._clock.outside():
            answers = await enqueue.enqueue(shards, jobs, now)
        self._wakeups.notify("new")
        return answers

    async def claim(
        self,
        queues: Collection[str] | None,
        *,
        worker: WorkerId,
        tasks: Collection[str],
        limit: int,
        now: datetime,
    ) -> Claim:
        with self._clock.outside():
            found = await claim.claim(self._open(), queues, worker, tasks, limit, now)
        failpoint("claim.after_commit")
        if found.expired:
            self._wakeups.notify("final")
        return found

    async def beat(self, worker: WorkerInfo, *, until: datetime, now: datetime) -> BeatReply:
        shards = self._open()
        with self._clock.outside():
            await shards.each(lambda shard: self._wakeups.data_loss.check(shard, now))
            beat = await claim.beat(shards, worker, until, now)
            with _fold_errors.survive(StoreError):
                await tally.fold(shards)
                await sweep(shards)
        return beat

    async def orphaned(self, *, now: datetime, limit: int) -> list[Job]:
        with self._clock.outside():
            await self._repair(now)
            return await claim.orphaned(self._open(), now, limit)

    async def finish(self, outcomes: Sequence[Outcome]) -> set[JobId]:
        shards = self._open()
        if not outcomes:
            return set()
        with self._clock.outside():
            accepted = await finish.finish(shards, outcomes)
        self._wakeups.notify("new", "final")
        return accepted

    async def report(self, reports: Sequence[RunReport]) -> set[JobId]:
        with self._clock.outside():
            accepted = await finish.report(self._open(), reports)
        self._wakeups.notify("final")
        return accepted

    # schedules

    async def due(self, *, now: datetime, limit: int, computed: Collection[str] = ()) -> Due:
        with self._clock.outside():
            due = await series.due(self._open().first, now, limit, computed)
            await set_aside_schedules(self._open(), due.unreadable)
            return due

    async def fire(self, firings: Sequence[Firing], *, now: datetime) -> list[Fired]:
        with self._clock.outside():
            fired = await series.fire(self._open(), firings, now)
        if any(one.stands for one in fired):
            failpoint("fire.after_commit")
        self._wakeups.notify("new", "final")
        return fired

    async def drop_schedules(self, names: Collection[str]) -> list[str]:
        with self._clock.outside():
            return await series.drop(self._open(), names)

    async def schedules(
        self, names: Collection[str] | None = None, *, limit: int, after: str | None = None
    ) -> list[Schedule]:
        with self._clock.outside():
            return await series.schedules(self._open().first, names, limit, after)

    async def ticks(self, name: str, *, limit: int, before: int | None = None) -> list[Tick]:
        with self._clock.outside():
            return await series.ticks(self._open().first, name, limit, before)

    async def acquire_term(self, name: str, holder: str, *, until: datetime, now: datetime) -> LeaderTerm:
        with self._clock.outside():
            answer = await series.acquire_term(self._open(), name, holder, until, now)
        if answer.holder is None:
            self._wakeups.notify("new")
        return answer

    async def terms(self, *, now: datetime) -> list[LeaderTerm]:
        with self._clock.outside():
            return await series.held_terms(self._open().first, now)

    # operators

    async def change(
        self,
        action: Action,
        which: Filter,
        *,
        now: datetime,
        limit: int,
        reason: str = "",
        update: Updates | None = None,
        after: JobId | None = None,
    ) -> Changed:
        with self._clock.outside():
            changed = await finish.change(self._open(), action, which, now, limit, reason, update, after)
            if action is Action.DELETE and any(refusal.error for refusal in changed.refused.values()):
                changed = await delete_queueless(self._open(), changed)
        self._wakeups.notify("new", "final")
        return changed

    async def pause_queue(self, name: str, paused: bool) -> None:
        shard = self._open().of(name)
        with self._clock.outside():
            await shard.multi(
                [
                    ("SADD" if paused else "SREM", f"{shard.base}:paused", name),
                    ("PUBLISH", shard.base, "new"),
                ]
            )
        self._wakeups.notify("new")

    async def command_workers(
        self,
        workers: Collection[WorkerId] | None,
        commands: WorkerCommands,
        *,
        now: datetime,
        seen: WorkerCommands | None = None,
    ) -> list[WorkerId]:
        with self._clock.outside():
            return await claim.set_commands(self._open(), workers, commands, now, seen)

    # reading

    async def jobs(
        self,
        which: Filter,
        *,
        now: datetime,
        limit: int,
        after: Cursor | None = None,
        newest: bool = False,
        sort: Sort = "created",
        brief: bool = False,
    ) -> list[Job]:
        with self._clock.outside():
            return await lists.page(self._open(), which, now, limit, after, newest, sort, brief)

    async def executions(
        self, job_id: JobId | Collection[JobId], *, after: int = 0, limit: int | None = None
    ) -> list[Execution]:
        with self._clock.outside():
            return await read_executions(self._open(), sorted(unique_ids(job_id)), after, limit)

    async def logs(self, job_id: JobId, *, limit: int, after: tuple[int, int] = (0, 0)) -> list[LogLine]:
        with self._clock.outside():
            found = await read_lines(self._open(), job_id)
        found.sort(key=lambda line: (line.run, line.n))
        return [line for line in found if (line.run, line.n) > after][:limit]

    async def overview(self, *, now: datetime, finished: bool = True) -> Overview:
        with self._clock.outside():
            return await count.overview(self._open(), now)

    async def workers(self, *, now: datetime) -> list[WorkerRow]:
        shard = self._open().first
        with self._clock.outside():
            found = workers_of(await read_hash(shard, f"{shard.base}:worker"))
        return sorted((worker for worker in found.values() if worker.until > now), key=lambda worker: worker.info.id)

    async def tallies(self, span: Span, *, since: datetime) -> list[Tally]:
        with self._clock.outside():
            return await tally.tallies(self._open(), span, since)

    async def dead_groups(self, *, limit: int) -> list[DeadGroup]:
        with self._clock.outside():
            return await count.dead_groups(self._open(), limit)

    # forgetting

    async def finished_groups(self) -> list[tuple[State, str]]:
        with self._clock.outside():
            return await count.finished_groups(self._open())

    async def prunable(self, state: State, task: str, *, keep: int, before: datetime, limit: int) -> list[Job]:
        with self._clock.outside():
            return await count.prunable(self._open(), state, task, keep, before, limit)

    async def prune(self, rules: Rules, *, audited_since: datetime, now: datetime) -> Pruning:
        """Also removes empty names from the registers, and repairs schedules whose jobs were lost."""
        with self._clock.outside():
            await count.tidy_registers(self._open())
            await repair_schedules(self._open(), now)
            return Pruning(0, await prune_documents(self._open(), audited_since, now))

    # inside

    async def _repair(self, now: datetime) -> None:
        """Repairs the store after a data loss that a beat noticed. The beat itself has no time for it."""
        data_loss = self._wakeups.data_loss
        if data_loss.repaired < (losses := len(data_loss.losses)):
            await repair_schedules(self._open(), now)
            await repair_keys(self._open())
            data_loss.mark_repaired(losses)


async def _shut(listener: RedisListener | None, connector: RedisConnector) -> None:
    if listener is not None:
        await listener.close()
    await connector.close()
