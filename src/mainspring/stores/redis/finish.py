"""What runs and operators tell Redis of jobs: plain ends by a script, all else as the memory store takes it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from ...clock import EPOCH, micros
from ...failpoint import failpoint
from ...job import Action, Changed, Cursor, Filter, JobId, Lease, Report, Update
from ...outcome import Outcome
from ...tally import counted
from ..memory import change as memory_change
from ..memory import finish as memory
from ..rules import plain
from .home import Home, Homes
from .known import Known, load, read_jobs
from .line import Word
from .lists import page
from .part import Part
from .play import play
from .records import packed

_encode = msgspec.json.Encoder().encode


async def finish(homes: Homes, outcomes: Sequence[Outcome]) -> set[JobId]:
    failpoint("finish.mid_batch")
    ids = {outcome.id for outcome in outcomes}
    shares: dict[Home, list[Outcome]] = {}
    for outcome in outcomes:
        shares.setdefault(homes.of(outcome.queue), []).append(outcome)
    simple = len(ids) == len(outcomes) and all(map(_simple, outcomes))
    if len(homes.all) > 1 and simple:  # in one home the script looks by itself
        tasks = {outcome.task for outcome in outcomes}
        simple = not any(await homes.first.call("HMGET", f"{homes.first.base}:circuit", *tasks))
    if simple:
        done = await homes.each(lambda home: home.script("finish", _words(shares[home])), shares)
        shares = {home: some for (home, some), stands in zip(shares.items(), done, strict=True) if not stands}
    stands = ids - {outcome.id for some in shares.values() for outcome in some}
    if any(outcome.breaker is not None for outcome in outcomes) and len(shares) > 1:
        return await _finish(homes, outcomes)  # what a circuit becomes depends on their order
    for some in shares.values():
        stands |= await _finish(homes, some)
    return stands


async def _finish(homes: Homes, outcomes: Sequence[Outcome]) -> set[JobId]:
    async def prepare(known: Known) -> None:
        await load(homes, known, "job", {outcome.id for outcome in outcomes})
        await load(homes, known, "circuits", [""])

    def verb(part: Part) -> set[JobId]:
        accepted = [one for one in outcomes if memory.finish_one(part.jobs, part.workers, part.ledger, one)]
        part.ledger.count(accepted)
        return {outcome.id for outcome in outcomes if part.ledger.told(outcome)}

    return await play(homes, verb, max(outcome.finished_at for outcome in outcomes), prepare)


def _simple(outcome: Outcome) -> bool:
    return plain(outcome) and not outcome.then and outcome.schedule is None


def _words(outcomes: Sequence[Outcome]) -> list[Word]:
    counts = [_encode((micros(at), queue, task, sums)) for (at, queue, task), sums in counted(outcomes).items()]
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


async def report(homes: Homes, reports: Sequence[Report]) -> set[JobId]:
    shares: dict[Home, list[Report]] = {homes.first: list(reports)}
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


async def _report(homes: Homes, reports: Sequence[Report]) -> set[JobId]:
    async def prepare(known: Known) -> None:
        await load(homes, known, "job", {report.id for report in reports})
        known.touched |= known.jobs.keys()  # lines are kept of runs that still go on

    def verb(part: Part) -> set[JobId]:
        return {report.id for report in reports if memory.report_one(part.jobs, part.ledger, report)}

    return await play(homes, verb, EPOCH, prepare, "final")


async def change(
    homes: Homes,
    action: Action,
    which: Filter,
    now: datetime,
    limit: int,
    reason: str,
    update: Update | None,
    after: JobId | None,
) -> Changed:
    cursor = None if after is None else Cursor(after)
    ids = tuple(job.id for job in await page(homes, which, now, limit, cursor, False, "created"))
    named = replace(which, ids=ids)

    async def prepare(known: Known) -> None:
        await load(homes, known, "job", ids)

    def verb(part: Part) -> Changed:
        return memory_change.change(part.jobs, part.ledger, action, named, now, limit, reason, update, after)

    return await play(homes, verb, now, prepare)
