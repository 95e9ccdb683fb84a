"""What runs and operators tell Redis of jobs: plain ends by a script, all else as the memory store takes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from ...clock import EPOCH, micros
from ...failpoint import failpoint
from ...ids import JobId, Lease
from ...records.job import Action
from ...records.outcome import Outcome
from ...records.query import Changed, Cursor, Filter, Refusal, Updates
from ...records.run import RunReport
from ...records.tally import sums_by_minute
from .. import rules
from ..memory import change as memory_change
from ..memory import finish as memory
from . import plain
from .connection import Word
from .known import read_jobs
from .lists import page
from .reads import of_change, of_outcome, of_report
from .records import packed, unpacked
from .shard import Shard, Shards
from .snapshot import Name, Snapshot
from .tables import Tables
from .transact import transact

_encode = msgspec.json.Encoder().encode
# Plain ends that go in one script: others wait for as long.
MAX_PLAIN = 1_000


async def finish(homes: Shards, outcomes: Sequence[Outcome]) -> set[JobId]:
    failpoint("finish.mid_batch")
    times = Counter(outcome.id for outcome in outcomes)
    simple = await _simple(homes, outcomes, times)
    done = await _finish_plain(homes, [outcome for outcome in simple if outcome.schedule is None])
    left = [outcome for outcome in outcomes if outcome.id not in done] if done else list(outcomes)
    if len(homes.all) == 1:  # in a cluster a job and its schedule lie apart
        done |= await _finish_scheduled(homes, left, {outcome.id for outcome in simple})
        left = [outcome for outcome in left if outcome.id not in done]
    return done | await _finish(homes, left, times) if left else done


async def _simple(homes: Shards, outcomes: Sequence[Outcome], times: Mapping[JobId, int]) -> list[Outcome]:
    """Those that may be plain. What becomes of a circuit depends on the order of all outcomes of its task."""
    tripping = {outcome.task for outcome in outcomes if outcome.breaker is not None and not rules.plain(outcome)}
    simple = [
        outcome for outcome in outcomes
        if rules.plain(outcome) and not outcome.then and times[outcome.id] == 1 and outcome.task not in tripping
    ]  # fmt: skip
    if not simple or len(homes.all) == 1:  # in one home circuits are looked at on the way
        return simple
    tasks = list(dict.fromkeys(outcome.task for outcome in simple))
    found = await homes.first.call("HMGET", f"{homes.first.base}:circuit", *tasks)
    moving = {task for task, text in zip(tasks, found, strict=True) if text is not None}
    return [outcome for outcome in simple if outcome.task not in moving]


async def _finish_plain(homes: Shards, outcomes: Sequence[Outcome]) -> set[JobId]:
    """The jobs that the script has ended."""
    if not outcomes:
        return set()
    shares: dict[Shard, list[Outcome]] = {}
    for outcome in outcomes:
        shares.setdefault(homes.of(outcome.queue), []).append(outcome)
    done = set[JobId]()
    for some in await homes.each(lambda home: _finish_in(home, shares[home]), shares):
        done |= some
    return done


async def _finish_in(home: Shard, outcomes: Sequence[Outcome]) -> set[JobId]:
    done = set[JobId]()
    for start in range(0, len(outcomes), MAX_PLAIN):
        some = list(outcomes[start : start + MAX_PLAIN])
        if odd := {unpacked(id) for id in await home.script("finish", _words(some))}:
            some = [outcome for outcome in some if outcome.id not in odd]
            if not some or await home.script("finish", _words(some)):
                continue  # what has changed in between is ended the long way
        done |= {outcome.id for outcome in some}
    return done


async def _finish_scheduled(homes: Shards, outcomes: Sequence[Outcome], simple: set[JobId]) -> set[JobId]:
    """The jobs whose plain end was written with what it means for their schedules."""
    chosen = [outcome for outcome in outcomes if outcome.schedule is not None and outcome.id in simple]
    others = {outcome.schedule for outcome in outcomes if outcome.schedule is not None and outcome.id not in simple}
    return await plain.finish(homes, chosen, others) if chosen else set()


async def _finish(homes: Shards, outcomes: Sequence[Outcome], times: Mapping[JobId, int]) -> set[JobId]:
    def needs(outcome: Outcome, snapshot: Snapshot) -> Iterator[Name]:
        return of_outcome(outcome, snapshot, times[outcome.id] > 1)

    def rule(tables: Tables, outcome: Outcome) -> bool:
        if memory.finish_one(tables.jobs, tables.workers, tables.ledger, outcome):
            tables.ledger.count([outcome])
            return True
        return tables.ledger.told(outcome)

    now = max(outcome.finished_at for outcome in outcomes)
    stands = await transact(homes, "finish", outcomes, needs, rule, now)
    return {outcome.id for outcome, stood in zip(outcomes, stands, strict=True) if stood}


def _words(outcomes: Sequence[Outcome]) -> list[Word]:
    counts = [_encode((micros(at), queue, task, sums)) for (at, queue, task), sums in sums_by_minute(outcomes).items()]
    leases: dict[Lease, tuple[Lease, list[bytes], list[str], list[str]]] = {}
    for outcome in outcomes:
        if (lists := leases.get(outcome.lease)) is None:
            lists = leases[outcome.lease] = (outcome.lease, [], [], [])
        _, ids, instants, rest = lists
        ids.append(packed(outcome.id))
        instants.append(str(micros(outcome.finished_at)))
        rest.append("0" if outcome.result is None else f"1{outcome.result}")
    words: list[Word] = ["final", len(counts), *counts]
    for lease, ids, instants, rest in leases.values():
        words += (lease, len(ids), *ids, *instants, *rest)
    return words


async def report(homes: Shards, reports: Sequence[RunReport]) -> set[JobId]:
    shares: dict[Shard, list[RunReport]] = {homes.first: list(reports)}
    if len(homes.all) > 1:
        found = await read_jobs(homes, list({report.id for report in reports}))
        shares.clear()
        for report in reports:
            if (job := found[report.id][1]) is not None:
                shares.setdefault(homes.of(job.queue), []).append(report)
    stands = set[JobId]()
    for some in await homes.each(lambda home: _report(homes, shares[home]), shares):
        stands |= some
    return stands


async def _report(homes: Shards, reports: Sequence[RunReport]) -> set[JobId]:
    def rule(tables: Tables, report: RunReport) -> bool:
        tables.bound.add(report.id)  # lines are kept of runs that still go on
        return memory.report_one(tables.jobs, tables.ledger, report)

    stands = await transact(homes, "report", reports, of_report, rule, EPOCH, "final")
    return {report.id for report, stood in zip(reports, stands, strict=True) if stood}


async def change(
    homes: Shards,
    action: Action,
    which: Filter,
    now: datetime,
    limit: int,
    reason: str,
    update: Updates | None,
    after: JobId | None,
) -> Changed:
    cursor = None if after is None else Cursor(after)
    ids = [job.id for job in await page(homes, which, now, limit, cursor, False, "created")]

    def needs(id: JobId, snapshot: Snapshot) -> Iterator[Name]:
        return of_change(homes, action, rules.update_of(update, id), id, snapshot)

    def rule(tables: Tables, id: JobId) -> Changed:
        one = replace(which, ids=(id,))
        return memory_change.change(tables.jobs, tables.ledger, action, one, now, 1, reason, update, None)

    done, refused = list[JobId](), dict[JobId, Refusal]()
    for one in await transact(homes, f"change ({action.value})", ids, needs, rule, now):
        done += one.done
        refused |= one.refused
    return Changed(done, refused, ids[-1] if ids and len(ids) == limit else None)
