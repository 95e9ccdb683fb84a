"""How deep queues were: one sample a minute whoever looks, gaps where nobody did, and an end to all of them."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from ...clock import EPOCH
from ...insight.queue_depth import KIND, Depth, DepthSample, history, sample_once
from ...records.outcome import Retry
from ...store import Store
from .build import NOW, Contract, later, new_job, put, settle, start

HOUR, DAYS = timedelta(hours=1), timedelta(days=4)


async def kept(store: Store, now: datetime) -> list[str]:
    return [one.name for one in await store.documents(KIND, now=now, limit=1000)]


async def minutes(store: Store, window: timedelta = HOUR, *, now: datetime) -> list[float]:
    """When the samples were taken, in minutes after NOW."""
    return [(one.at - NOW) / timedelta(minutes=1) for one in await history(store, window, None, now=now)]


class DepthContract(Contract):
    async def test_of_many_who_look_in_one_minute_one_writes(self) -> None:
        async with self.opened() as store:
            told = await asyncio.gather(*(sample_once(store, later(n)) for n in range(10)))
            assert sum(told) == 1
            (sample,) = await history(store, HOUR, None, now=later(59))
            assert sample.at == later(told.index(True))
            assert await sample_once(store, later(59)) is False
            assert await sample_once(store, later(60)) is True

    async def test_a_sample_tells_what_each_queue_holds_and_for_how_long_it_has_been_due(self) -> None:
        async with self.opened() as store:
            await settle(store, await start(store, queue="again"), Retry(2), now=NOW)
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

    async def test_a_minute_in_which_nobody_looked_is_a_gap_and_one_without_jobs_is_none(self) -> None:
        async with self.opened() as store:
            for minute in (0, 1, 4):
                await sample_once(store, later(60 * minute))
            assert await minutes(store, now=later(300)) == [0, 1, 4]
            assert {one.total for one in await history(store, HOUR, None, now=later(300))} == {Depth()}

    async def test_a_window_ends_now_and_leaves_out_what_is_older(self) -> None:
        async with self.opened() as store:
            for minute in (-1, 30, 59, 61):
                await sample_once(store, later(60 * minute))
            assert await minutes(store, now=later(3600)) == [30, 59]

    async def test_over_days_the_first_sample_of_each_ten_minutes_stands_for_them(self) -> None:
        async with self.opened() as store:
            for minute in (3, 4, 9, 10, 19, 35):
                await sample_once(store, later(60 * minute))
            assert await minutes(store, DAYS, now=later(3600)) == [3, 10, 35]

    async def test_minutes_are_kept_for_hours_and_tens_of_them_for_days_and_no_longer(self) -> None:
        async with self.opened() as store:
            await sample_once(store, NOW)
            hours, end = NOW + timedelta(hours=3), NOW + DAYS
            assert await minutes(store, timedelta(hours=3), now=hours) == [0]
            assert len(await kept(store, hours + timedelta(minutes=1))) == 1
            assert await minutes(store, DAYS, now=end) == [0]
            assert await kept(store, end + timedelta(minutes=10)) == []
            await store.tidy(audited_since=EPOCH, now=end + timedelta(minutes=10))
            assert await kept(store, NOW) == []
