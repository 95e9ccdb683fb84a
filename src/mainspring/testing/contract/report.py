"""report and logs: what a run says while it goes on, under the lease that started it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from ...records.job import Action, Job, State
from ...records.outcome import Crashed, Discard, Done, Released, Retry, Snooze
from ...records.run import Progress, RunReport
from .build import (
    NOW,
    Contract,
    a_line,
    act,
    beat,
    bring,
    claim,
    everything,
    later,
    new_job,
    put,
    run_again,
    see,
    settle,
    start,
    tell,
)


def kind(ended: Any) -> str:
    return type(ended).__name__


def a_progress(at: float, done: float, **fields: Any) -> Progress:
    return Progress(**{"run": 1, "at": later(at), "done": done, **fields})


class ReportContract(Contract):
    # lines

    async def test_the_lines_of_a_run_are_kept_as_they_were_told(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            lines = [replace(a_line(n, text), at=later(0.000001 * n), level=10 * n) for n, text in
                     enumerate(["", "é 🕰", "two\nlines", "it's \"quoted\" %s"], 1)]  # fmt: skip
            assert await tell(store, job, *lines) == {job.id}
            assert await store.logs(job.id, limit=10) == lines

    async def test_lines_are_seen_while_the_run_goes_on_and_change_nothing_else(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await tell(store, job, a_line(1))
            assert await see(store, job.id) == job
            assert (await beat(store)).holds == {job.id: job.lease}

    async def test_a_line_told_twice_is_kept_once_as_it_was_told_first(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await tell(store, job, a_line(1, "first"), a_line(1, "second"))
            assert await tell(store, job, a_line(1, "third"), a_line(2)) == {job.id}
            assert await store.logs(job.id, limit=10) == [a_line(1, "first"), a_line(2)]

    async def test_lines_of_each_run_are_counted_apart(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await tell(store, job, a_line(1, "one"))
            await settle(store, job, Retry(0), now=NOW)
            await tell(store, await run_again(store, job.id), a_line(1, "two", run=2))
            assert [line.text for line in await store.logs(job.id, limit=10)] == ["one", "two"]

    async def test_several_runs_report_in_one_call(self) -> None:
        async with self.opened() as store:
            first, second = await start(store), await start(store)
            told = [RunReport(id=job.id, lease=job.lease or "", lines=(a_line(1, job.id),)) for job in (first, second)]
            assert await store.report(told) == {first.id, second.id}
            assert await store.logs(second.id, limit=10) == [a_line(1, second.id)]

    async def test_nothing_to_report_is_no_error(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await store.report([]) == set()
            assert await tell(store, job) == {job.id}

    # the fence

    async def _refused(self, store: Any, job: Job) -> None:
        """Neither its line nor its progress is kept."""
        before, lines = await everything(store), await store.logs(job.id, limit=10)
        assert await tell(store, job, a_line(9), progress=a_progress(1, 5)) == set()
        assert (await everything(store), await store.logs(job.id, limit=10)) == (before, lines)

    async def test_a_report_under_another_lease_is_refused(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await self._refused(store, replace(job, lease="another"))

    async def test_a_lease_reports_only_for_the_jobs_of_its_own_claim(self) -> None:
        async with self.opened() as store:
            first, second = await start(store), await start(store)
            await self._refused(store, replace(second, lease=first.lease))

    @pytest.mark.parametrize("ended", [Done(), Retry(5), Snooze(5), Released(), Discard()], ids=kind)
    async def test_a_report_of_a_run_that_has_ended_is_refused(self, ended: Any) -> None:
        async with self.opened() as store:
            job = await start(store)
            await settle(store, job, ended, now=NOW)
            await self._refused(store, job)

    async def test_a_report_of_a_lost_lease_is_refused_though_the_job_runs_again(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=NOW)
            await settle(store, job, Crashed("ada", 3), now=NOW)
            await run_again(store, job.id, worker="bob")
            await self._refused(store, job)

    async def test_a_refused_report_does_not_harm_the_others_of_its_call(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            stranger = RunReport(id=new_job().id, lease=job.lease or "", lines=(a_line(1),))
            mine = RunReport(id=job.id, lease=job.lease or "", lines=(a_line(1),))
            assert await store.report([stranger, mine]) == {job.id}
            assert await store.logs(stranger.id, limit=10) == []
            assert await store.logs(job.id, limit=10) == [a_line(1)]

    async def test_a_run_that_was_asked_to_cancel_may_still_report(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await act(store, Action.CANCEL, job.id)
            assert await tell(store, job, a_line(1)) == {job.id}

    # progress

    async def test_progress_is_seen_on_the_job(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            progress = a_progress(0.000001, 2.5, total=10.0, note="ü")
            await tell(store, job, progress=progress)
            assert await see(store, job.id) == replace(job, progress=progress)

    async def test_of_progress_the_newest_counts_in_whatever_order_it_is_told(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            for at, done in ((1, 10), (3, 30), (2.5, 25), (3.000001, 31), (3, 30)):
                assert await tell(store, job, progress=a_progress(at, done)) == {job.id}
            assert (await see(store, job.id)).progress == a_progress(3.000001, 31)

    async def test_a_report_without_progress_leaves_it(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await tell(store, job, progress=a_progress(1, 5))
            await tell(store, job, a_line(1))
            assert (await see(store, job.id)).progress == a_progress(1, 5)

    @pytest.mark.parametrize("ended", [Done(), Retry(5), Discard()], ids=kind)
    async def test_progress_is_still_seen_when_the_run_has_ended(self, ended: Any) -> None:
        async with self.opened() as store:
            job = await start(store)
            await tell(store, job, progress=a_progress(1, 5))
            await settle(store, job, ended)
            assert (await see(store, job.id)).progress == a_progress(1, 5)

    async def test_the_next_run_shows_the_progress_of_the_last_until_it_tells_its_own(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await tell(store, job, progress=a_progress(9, 90))
            await settle(store, job, Retry(0), now=NOW)
            again = await run_again(store, job.id)
            assert again.progress == a_progress(9, 90)
            await tell(store, again, progress=a_progress(1, 10, run=2))
            assert (await see(store, job.id)).progress == a_progress(1, 10, run=2)

    async def test_progress_goes_along_with_whatever_happens_to_the_job(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await tell(store, job, progress=a_progress(1, 5))
            await settle(store, job, Discard())
            for action in (Action.RETRY, Action.PAUSE, Action.RESUME):
                await act(store, action, job.id)
                assert (await see(store, job.id)).progress == a_progress(1, 5)

    # waiting

    async def test_waiting_for_a_job_ends_when_its_run_reports(self) -> None:
        async with self.opened() as store, asyncio.timeout(5):
            job = await start(store)
            waiting = asyncio.create_task(store.wait_final([job.id], 50))
            while not waiting.done():
                await tell(store, job, progress=a_progress(1, 5))
                await asyncio.wait([waiting], timeout=0.02)

    # reading

    async def test_lines_are_read_page_by_page_by_run_and_number(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await tell(store, job, *(a_line(n) for n in (3, 1, 10, 2)))
            await settle(store, job, Retry(0), now=NOW)
            await tell(store, await run_again(store, job.id), *(a_line(n, run=2) for n in (2, 1)))
            order = [(1, 1), (1, 2), (1, 3), (1, 10), (2, 1), (2, 2)]
            seen: list[tuple[int, int]] = []
            while page := await store.logs(job.id, limit=2, after=seen[-1] if seen else (0, 0)):
                assert len(page) <= 2
                assert len(seen) < len(order), "it stalls"
                seen += [(line.run, line.n) for line in page]
            assert seen == order

    async def test_a_page_of_lines_goes_on_after_a_place_where_there_is_none(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await tell(store, job, a_line(1), a_line(5))
            assert await store.logs(job.id, limit=9, after=(1, 3)) == [a_line(5)]
            assert await store.logs(job.id, limit=9, after=(0, 99)) == [a_line(1), a_line(5)]
            assert await store.logs(job.id, limit=9, after=(1, 5)) == []

    async def test_an_unknown_job_has_no_lines(self) -> None:
        async with self.opened() as store:
            assert await store.logs(new_job().id, limit=10) == []

    async def test_lines_of_one_job_are_not_mixed_with_anothers(self) -> None:
        async with self.opened() as store:
            first, second = await start(store), await start(store)
            await tell(store, first, a_line(1, "mine"))
            await tell(store, second, a_line(1, "yours"))
            assert await store.logs(first.id, limit=10) == [a_line(1, "mine")]

    # how long lines last

    async def test_lines_outlive_the_run_and_an_operators_retry(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await tell(store, job, a_line(1))
            await settle(store, job, Discard())
            await act(store, Action.RETRY, job.id)
            assert await store.logs(job.id, limit=10) == [a_line(1)]

    async def test_a_deleted_job_takes_its_lines_along_and_nobody_elses(self) -> None:
        async with self.opened() as store:
            job, other = await start(store), await start(store)
            for running in (job, other):
                await tell(store, running, a_line(1))
            await settle(store, job, Done())
            await act(store, Action.DELETE, job.id)
            assert await store.logs(job.id, limit=10) == []
            assert await store.logs(other.id, limit=10) == [a_line(1)]

    async def test_a_job_that_comes_again_under_the_id_of_a_deleted_one_has_no_lines(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await tell(store, job, a_line(1), progress=a_progress(1, 5))
            await settle(store, job, Done())
            await act(store, Action.DELETE, job.id)
            await put(store, new_job(id=job.id))
            assert (await see(store, job.id)).progress is None
            assert await store.logs(job.id, limit=10) == []

    async def test_a_report_wakes_no_job_that_waits(self) -> None:
        async with self.opened() as store:
            job, paused = await start(store), await bring(store, State.PAUSED)
            await tell(store, job, a_line(1))
            assert (await claim(store)).jobs == []
            assert (await see(store, paused.id)) == paused
