"""The history of queue depths: one sample a minute, gaps where none was taken, and limited retention."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from ...clock import EPOCH
from ...insight.queue_depth import KIND, Depth, DepthSample, history, sample_once
from ...records.outcome import Retry
from ...store import Store
from .build import NOW, Contract, finish_run, later, new_job, put, start
from .sentences import proves

HOUR = timedelta(hours=1)
DAYS = timedelta(days=4)


async def sample_names(store: Store, now: datetime) -> list[str]:
    return [one.name for one in await store.documents(KIND, now=now, limit=1000)]


async def sample_minutes(store: Store, window: timedelta = HOUR, *, now: datetime) -> list[float]:
    """The times of the samples, in minutes after NOW."""
    return [(one.at - NOW) / timedelta(minutes=1) for one in await history(store, window, None, now=now)]


class QueueDepthContract(Contract):
    @proves("DO1")
    async def test_one_depth_sample_is_written_per_minute(self) -> None:
        async with self.opened() as store:
            written = await asyncio.gather(*(sample_once(store, later(n)) for n in range(10)))
            assert sum(written) == 1
            (sample,) = await history(store, HOUR, None, now=later(59))
            assert sample.at == later(written.index(True))
            assert await sample_once(store, later(59)) is False
            assert await sample_once(store, later(60)) is True

    @proves("J4", "OV5")
    async def test_a_depth_sample_has_the_counts_and_oldest_due_time_of_each_queue(self) -> None:
        async with self.opened() as store:
            await finish_run(store, await start(store, queue="again"), Retry(2), now=NOW)
            await start(store, queue="busy")
            await put(store, new_job(queue="mail"), new_job(queue="mail", run_at=later(5)))
            await put(store, new_job(queue="mail", run_at=later(60)))
            await sample_once(store, later(10))
            again, busy, mail = Depth(retrying=1, oldest=8.0), Depth(running=1), Depth(2, 1, oldest=10.0)
            whole = DepthSample(later(10), Depth(2, 1, 1, 1, 10.0), {"again": again, "busy": busy, "mail": mail})
            assert await history(store, HOUR, None, now=later(10)) == [whole]
            assert await history(store, HOUR, "mail", now=later(10)) == [DepthSample(later(10), mail, {"mail": mail})]
            none = DepthSample(later(10), Depth(), {"none": Depth()})
            assert await history(store, HOUR, "none", now=later(10)) == [none]

    @proves("DO4")
    async def test_a_minute_without_a_sample_is_a_gap_but_an_empty_queue_is_not(self) -> None:
        async with self.opened() as store:
            for minute in (0, 1, 4):
                await sample_once(store, later(60 * minute))
            assert await sample_minutes(store, now=later(300)) == [0, 1, 4]
            assert {one.total for one in await history(store, HOUR, None, now=later(300))} == {Depth()}

    @proves("DO4")
    async def test_depth_history_ends_now_and_has_no_older_samples(self) -> None:
        async with self.opened() as store:
            for minute in (-1, 30, 59, 61):
                await sample_once(store, later(60 * minute))
            assert await sample_minutes(store, now=later(3600)) == [30, 59]

    @proves("DO1", "DO4")
    async def test_depth_history_over_days_has_one_sample_per_ten_minutes(self) -> None:
        async with self.opened() as store:
            for minute in (3, 4, 9, 10, 19, 35):
                await sample_once(store, later(60 * minute))
            assert await sample_minutes(store, DAYS, now=later(3600)) == [3, 10, 35]

    @proves("DO5", "P4")
    async def test_depth_samples_are_kept_for_hours_and_one_in_ten_for_days(self) -> None:
        async with self.opened() as store:
            await sample_once(store, NOW)
            hours, end = NOW + timedelta(hours=3), NOW + DAYS
            assert await sample_minutes(store, timedelta(hours=3), now=hours) == [0]
            assert len(await sample_names(store, hours + timedelta(minutes=1))) == 1
            assert await sample_minutes(store, DAYS, now=end) == [0]
            assert await sample_names(store, end + timedelta(minutes=10)) == []
            await store.prune({}, audited_since=EPOCH, now=end + timedelta(minutes=10))
            assert await sample_names(store, NOW) == []
