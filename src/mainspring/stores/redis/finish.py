"""Finish and report: plain ends by finish.lua, checkpoints by keep.lua, everything else by the rules.

finish.lua repeats the rule rules.finish.finish_one for plain completions, also of jobs with keys on a single server;
test_twin.py compares the two. keep.lua repeats rules.finish.report_one for checkpoints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ...clock import EPOCH
from ...errors import BadInput
from ...failpoint import failpoint
from ...ids import JobId
from ...records.outcome import Outcome
from ...records.run import RunReport
from ...records.worker import CarryOn, Finished
from .. import rules
from ..rules.finish import finish_one, has_only_checkpoints, report_one
from ..rules.loaded import LoadedTables
from ..rules.read_sets import KnownValues, Name, of_outcome, of_report
from . import plain
from .checkpoints import keep_checkpoints
from .enqueue_limited import limit_elsewhere
from .finish_script import MAX_PLAIN, end_plain
from .handle import RedisHandle
from .job_reads import read_jobs
from .releases import older_workers
from .shard import Shard, Shards
from .step_ends import finish_steps, is_plain_item
from .transact import transact


class RedisFinish(RedisHandle):
    """Ends runs, and records their reports."""

    async def finish(self, outcomes: Sequence[Outcome], *, carry_on: CarryOn | None = None) -> Finished:
        shards = self._open()
        if not outcomes:
            return Finished()
        with self._clock.outside():
            accepted = await _finish(shards, outcomes)
        # The end of a plain run makes no job claimable, so it wakes no claim.
        self._wakeups.notify(*(("new", "final") if any(map(_makes_work, outcomes)) else ("final",)))
        return Finished(accepted)

    async def report(self, reports: Sequence[RunReport]) -> set[JobId]:
        shards = self._open()
        shares: dict[Shard, list[RunReport]] = {shards.first: list(reports)}
        accepted = set[JobId]()
        with self._clock.outside():
            if len(shards.all) > 1:
                shares = await _by_shard(shards, reports)
            for some in await shards.each(lambda shard: _report(shards, shard, shares[shard]), shares):
                accepted |= some
        if not all(map(has_only_checkpoints, reports)):
            self._wakeups.notify("final")
        return accepted


def _makes_work(outcome: Outcome) -> bool:
    """Whether the outcome may make a job claimable or a schedule due."""
    plain = rules.is_plain_completion(outcome)
    more = outcome.then or outcome.breaker or outcome.schedule or outcome.step or outcome.limit_key
    return not plain or bool(more)


async def _finish(shards: Shards, outcomes: Sequence[Outcome]) -> set[JobId]:
    """The jobs whose outcomes are accepted. It tries the plain ends first, then the rule for the rest."""
    failpoint("finish.mid_batch")
    if (then := [job for one in outcomes for job in one.then]) and (error := await limit_elsewhere(shards, then)):
        raise BadInput(error)
    times = Counter(outcome.id for outcome in outcomes)
    simple = await _maybe_plain(shards, outcomes, times)
    done = await _finish_plain(
        shards, [one for one in simple if one.schedule is None and (one.step is None or is_plain_item(one))]
    )
    done |= await _finish_steps(
        shards, [one for one in outcomes if one.id not in done], [one for one in simple if one.id not in done]
    )
    left = [outcome for outcome in outcomes if outcome.id not in done] if done else list(outcomes)
    if len(shards.all) == 1:  # in a cluster a job and its schedule may be in two shards
        done |= await _finish_scheduled(shards, left, {outcome.id for outcome in simple})
        left = [outcome for outcome in left if outcome.id not in done]
    return done | await _finish_by_rule(shards, left, times) if left else done


async def _maybe_plain(shards: Shards, outcomes: Sequence[Outcome], times: Mapping[JobId, int]) -> list[Outcome]:
    """The outcomes that may be plain. None of a task with a circuit: its state depends on the order of all outcomes."""
    tripping = {
        outcome.task for outcome in outcomes if outcome.breaker is not None and not rules.is_plain_completion(outcome)
    }
    simple = [
        outcome
        for outcome in outcomes
        if rules.is_plain_completion(outcome)
        and not outcome.then
        and times[outcome.id] == 1
        and (outcome.account is None or (outcome.schedule is None and outcome.started_at is not None))
        and outcome.task not in tripping
    ]
    if not simple or len(shards.all) == 1:  # with one shard finish.lua checks the circuits itself
        return simple
    tasks = list(dict.fromkeys(outcome.task for outcome in simple))
    found = await shards.first.call("HMGET", f"{shards.first.base}:circuit", *tasks)
    moving = {task for task, text in zip(tasks, found, strict=True) if text is not None}
    return [outcome for outcome in simple if outcome.task not in moving]


async def _finish_plain(shards: Shards, outcomes: Sequence[Outcome]) -> set[JobId]:
    """The jobs that finish.lua ended."""
    if not outcomes:
        return set()
    shares: dict[Shard, list[Outcome]] = {}
    for outcome in outcomes:
        shares.setdefault(shards.of(outcome.queue), []).append(outcome)
    done = set[JobId]()
    alone = len(shards.all) == 1
    for some in await shards.each(lambda shard: _finish_in(shard, shares[shard], alone), shares):
        done |= some
    return done


async def _finish_in(shard: Shard, outcomes: Sequence[Outcome], alone: bool) -> set[JobId]:
    """The jobs of one shard that finish.lua ended, tried again without those that are not plain.

    `alone`: there are no other shards, so this one records the keys of its jobs.
    """
    done = set[JobId]()
    for start in range(0, len(outcomes), MAX_PLAIN):
        some = list(outcomes[start : start + MAX_PLAIN])
        if odd := (await end_plain(shard, some, alone)).jobs:
            some = [outcome for outcome in some if outcome.id not in odd]
            if not some or (await end_plain(shard, some, alone)).jobs:
                continue  # something changed in between: the rules finish them
        done |= {outcome.id for outcome in some}
    return done


async def _finish_scheduled(shards: Shards, outcomes: Sequence[Outcome], simple: set[JobId]) -> set[JobId]:
    """The jobs whose plain end was written together with the change of their schedules."""
    chosen = [one for one in outcomes if one.schedule is not None and one.step is None and one.id in simple]
    others = {outcome.schedule for outcome in outcomes if outcome.schedule is not None and outcome.id not in simple}
    return await plain.finish_plain(shards, chosen, others) if chosen else set()


async def _finish_steps(shards: Shards, outcomes: Sequence[Outcome], simple: Sequence[Outcome]) -> set[JobId]:
    """The jobs whose plain end was written together with the moves of their flows."""
    chosen = [outcome for outcome in simple if outcome.step is not None]
    if not chosen:
        return set()
    plain = {outcome.id for outcome in chosen}
    others = {outcome.step.flow for outcome in outcomes if outcome.step is not None and outcome.id not in plain}
    return await finish_steps(shards, chosen, others | {outcome.id for outcome in outcomes})


async def _finish_by_rule(shards: Shards, outcomes: Sequence[Outcome], times: Mapping[JobId, int]) -> set[JobId]:
    """Ends jobs by the rule."""

    def needs(outcome: Outcome, known: KnownValues) -> Iterator[Name]:
        return of_outcome(outcome, known, times[outcome.id] > 1)

    def rule(tables: LoadedTables, outcome: Outcome) -> bool:
        tables.older_workers = older
        return finish_one(tables, outcome) or tables.is_recorded(outcome)

    now = max(outcome.finished_at for outcome in outcomes)
    begins = any(outcome.plan is not None or outcome.awaits for outcome in outcomes)
    older = await older_workers(shards, now) if begins else []
    accepted = await transact(shards, "finish", outcomes, needs, rule, now)
    return {outcome.id for outcome, is_accepted in zip(outcomes, accepted, strict=True) if is_accepted}


async def _by_shard(shards: Shards, reports: Sequence[RunReport]) -> dict[Shard, list[RunReport]]:
    """The reports of each shard. Those of jobs that do not exist are left out."""
    found = await read_jobs(shards, list({report.id for report in reports}))
    shares: dict[Shard, list[RunReport]] = {}
    for report in reports:
        if (job := found[report.id][1]) is not None:
            shares.setdefault(shards.of(job.queue), []).append(report)
    return shares


async def _report(shards: Shards, shard: Shard, reports: Sequence[RunReport]) -> set[JobId]:
    accepted, others = await keep_checkpoints(shard, reports)
    if others:
        answers = await transact(shards, "report", others, of_report, report_one, EPOCH, "final")
        accepted |= {report.id for report, is_accepted in zip(others, answers, strict=True) if is_accepted}
    return accepted
