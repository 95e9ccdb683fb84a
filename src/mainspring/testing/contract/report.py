"""report, logs and output: log lines, output and progress of a run, accepted only under its lease."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from ...records.job import Action, Job, State
from ...records.outcome import Crashed, Discard, Done, Released, Retry, Snooze
from ...records.run import OutputChunk, Progress, RunReport
from .build import (
    NOW,
    Contract,
    a_chunk,
    a_line,
    act,
    all_jobs,
    beat,
    claim,
    claim_job,
    finish_run,
    job_in_state,
    later,
    new_job,
    put,
    read_job,
    send_output,
    send_report,
    start,
)
from .sentences import proves


def ending_name(ended: Any) -> str:
    return type(ended).__name__


def a_progress(at: float, done: float, **fields: Any) -> Progress:
    return Progress(**{"run": 1, "at": later(at), "done": done, **fields})


class ReportContract(Contract):
    # log lines

    @proves("LG1", "V10")
    async def test_log_lines_are_returned_as_they_were_reported(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            lines = [
                replace(a_line(n, text), at=later(0.000001 * n), level=10 * n)
                for n, text in enumerate(["", "é 🕰", "two\nlines", 'it\'s "quoted" %s'], 1)
            ]
            assert await send_report(store, job, *lines) == {job.id}
            assert await store.logs(job.id, limit=10) == lines

    @proves("R4")
    async def test_log_lines_are_visible_during_the_run_and_change_nothing_else(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await send_report(store, job, a_line(1))
            assert await read_job(store, job.id) == job
            assert (await beat(store)).holds == {job.id: job.lease}

    @proves("R2")
    async def test_a_repeated_log_line_is_kept_as_first_reported(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await send_report(store, job, a_line(1, "first"), a_line(1, "second"))
            assert await send_report(store, job, a_line(1, "third"), a_line(2)) == {job.id}
            assert await store.logs(job.id, limit=10) == [a_line(1, "first"), a_line(2)]

    @proves("LG1", "R2")
    async def test_log_lines_are_numbered_per_run(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await send_report(store, job, a_line(1, "one"))
            await finish_run(store, job, Retry(0), now=NOW)
            await send_report(store, await claim_job(store, job.id), a_line(1, "two", run=2))
            assert [line.text for line in await store.logs(job.id, limit=10)] == ["one", "two"]

    @proves("R1")
    async def test_several_runs_report_in_one_call(self) -> None:
        async with self.opened() as store:
            first, second = await start(store), await start(store)
            reports = [
                RunReport(id=job.id, lease=job.lease or "", lines=(a_line(1, job.id),)) for job in (first, second)
            ]
            assert await store.report(reports) == {first.id, second.id}
            assert await store.logs(second.id, limit=10) == [a_line(1, second.id)]

    @proves("V11")
    async def test_report_of_nothing_is_no_error(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await store.report([]) == set()
            assert await send_report(store, job) == {job.id}

    # the fence

    async def _refused(self, store: Any, job: Job) -> None:
        """Checks that neither its log line nor its progress was stored."""
        before, lines = await all_jobs(store), await store.logs(job.id, limit=10)
        assert await send_report(store, job, a_line(9), progress=a_progress(1, 5)) == set()
        assert (await all_jobs(store), await store.logs(job.id, limit=10)) == (before, lines)

    @proves("R1")
    async def test_a_report_under_another_lease_is_refused(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await self._refused(store, replace(job, lease="another"))

    @proves("R1")
    async def test_a_lease_reports_only_for_the_jobs_of_its_own_claim(self) -> None:
        async with self.opened() as store:
            first, second = await start(store), await start(store)
            await self._refused(store, replace(second, lease=first.lease))

    @proves("R1")
    @pytest.mark.parametrize("ended", [Done(), Retry(5), Snooze(5), Released(), Discard()], ids=ending_name)
    async def test_a_report_of_a_run_that_has_ended_is_refused(self, ended: Any) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, ended, now=NOW)
            await self._refused(store, job)

    @proves("R1")
    async def test_a_report_of_a_lost_lease_is_refused_though_the_job_runs_again(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=NOW)
            await finish_run(store, job, Crashed("ada", 3), now=NOW)
            await claim_job(store, job.id, worker="bob")
            await self._refused(store, job)

    @proves("R1")
    async def test_a_refused_report_does_not_affect_the_others_of_its_call(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            stranger = RunReport(id=new_job().id, lease=job.lease or "", lines=(a_line(1),))
            mine = RunReport(id=job.id, lease=job.lease or "", lines=(a_line(1),))
            assert await store.report([stranger, mine]) == {job.id}
            assert await store.logs(stranger.id, limit=10) == []
            assert await store.logs(job.id, limit=10) == [a_line(1)]

    @proves("R1")
    async def test_a_run_that_was_asked_to_cancel_may_still_report(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await act(store, Action.CANCEL, job.id)
            assert await send_report(store, job, a_line(1)) == {job.id}

    # progress

    @proves("R4", "V10")
    async def test_progress_is_shown_on_the_job(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            progress = a_progress(0.000001, 2.5, total=10.0, note="ü")
            await send_report(store, job, progress=progress)
            assert await read_job(store, job.id) == replace(job, progress=progress)

    @proves("R3")
    async def test_the_newest_progress_is_kept_in_any_order_of_reports(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            for at, done in ((1, 10), (3, 30), (2.5, 25), (3.000001, 31), (3, 30)):
                assert await send_report(store, job, progress=a_progress(at, done)) == {job.id}
            assert (await read_job(store, job.id)).progress == a_progress(3.000001, 31)

    @proves("R3")
    async def test_a_report_without_progress_keeps_the_last_progress(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await send_report(store, job, progress=a_progress(1, 5))
            await send_report(store, job, a_line(1))
            assert (await read_job(store, job.id)).progress == a_progress(1, 5)

    @proves("R4")
    @pytest.mark.parametrize("ended", [Done(), Retry(5), Discard()], ids=ending_name)
    async def test_progress_is_still_shown_after_the_run(self, ended: Any) -> None:
        async with self.opened() as store:
            job = await start(store)
            await send_report(store, job, progress=a_progress(1, 5))
            await finish_run(store, job, ended)
            assert (await read_job(store, job.id)).progress == a_progress(1, 5)

    @proves("R3", "R4")
    async def test_the_next_run_shows_the_last_progress_until_it_reports_its_own(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await send_report(store, job, progress=a_progress(9, 90))
            await finish_run(store, job, Retry(0), now=NOW)
            again = await claim_job(store, job.id)
            assert again.progress == a_progress(9, 90)
            await send_report(store, again, progress=a_progress(1, 10, run=2))
            assert (await read_job(store, job.id)).progress == a_progress(1, 10, run=2)

    @proves("R4")
    async def test_progress_survives_changes_of_the_job(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await send_report(store, job, progress=a_progress(1, 5))
            await finish_run(store, job, Discard())
            for action in (Action.RETRY, Action.PAUSE, Action.RESUME):
                await act(store, action, job.id)
                assert (await read_job(store, job.id)).progress == a_progress(1, 5)

    # waiting

    @proves("W3")
    async def test_wait_ends_when_a_run_reports(self) -> None:
        async with self.opened() as store, asyncio.timeout(5):
            job = await start(store)
            waiting = asyncio.create_task(store.wait("final", 50))
            while not waiting.done():
                await send_report(store, job, progress=a_progress(1, 5))
                await asyncio.wait([waiting], timeout=0.02)

    # reading

    @proves("LG1")
    async def test_log_lines_are_paged_by_run_and_number(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await send_report(store, job, *(a_line(n) for n in (3, 1, 10, 2)))
            await finish_run(store, job, Retry(0), now=NOW)
            await send_report(store, await claim_job(store, job.id), *(a_line(n, run=2) for n in (2, 1)))
            order = [(1, 1), (1, 2), (1, 3), (1, 10), (2, 1), (2, 2)]
            seen: list[tuple[int, int]] = []
            while page := await store.logs(job.id, limit=2, after=seen[-1] if seen else (0, 0)):
                assert len(page) <= 2
                assert len(seen) < len(order), "it stalls"
                seen += [(line.run, line.n) for line in page]
            assert seen == order

    @proves("LG1")
    async def test_a_page_of_log_lines_continues_after_a_missing_line(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await send_report(store, job, a_line(1), a_line(5))
            assert await store.logs(job.id, limit=9, after=(1, 3)) == [a_line(5)]
            assert await store.logs(job.id, limit=9, after=(0, 99)) == [a_line(1), a_line(5)]
            assert await store.logs(job.id, limit=9, after=(1, 5)) == []

    @proves("V11")
    async def test_an_unknown_job_has_no_log_lines(self) -> None:
        async with self.opened() as store:
            assert await store.logs(new_job().id, limit=10) == []

    @proves("LG1")
    async def test_log_lines_of_one_job_are_not_mixed_with_anothers(self) -> None:
        async with self.opened() as store:
            first, second = await start(store), await start(store)
            await send_report(store, first, a_line(1, "mine"))
            await send_report(store, second, a_line(1, "yours"))
            assert await store.logs(first.id, limit=10) == [a_line(1, "mine")]

    # output

    @proves("OC1", "V10")
    async def test_output_is_returned_as_it_was_reported(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            texts = enumerate(['"é 🕰"', "[1,null]", '"two\\nlines"', "", '"it\'s \\"quoted\\" %s"'], 1)
            chunks = [OutputChunk(n, 1, later(0.000001 * n), text, resumed=n > 3) for n, text in texts]
            assert await send_output(store, job, *chunks[:2]) == {job.id}
            assert await send_output(store, job, *chunks[2:]) == {job.id}
            assert await store.output(job.id, limit=10) == chunks
            assert await store.logs(job.id, limit=10, after=(-9, 0)) == []

    @proves("R2")
    async def test_a_repeated_chunk_is_kept_as_first_reported(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await send_output(store, job, a_chunk(1, "first"), a_chunk(1, "second"))
            assert await send_output(store, job, a_chunk(1, "third"), a_chunk(2)) == {job.id}
            assert await store.output(job.id, limit=10) == [a_chunk(1, "first"), a_chunk(2)]

    @proves("OC1")
    async def test_output_is_paged_from_either_end(self) -> None:
        async with self.opened() as store:
            job, other = await start(store), await start(store)
            await send_output(store, other, a_chunk(1, "another's"))
            await send_output(store, job, *map(a_chunk, range(1, 13)))
            for limit, after, newest, numbers in (
                (3, 0, False, [1, 2, 3]),
                (3, 9, False, [10, 11, 12]),
                (9, 10, False, [11, 12]),
                (9, 12, False, []),
                (9, 99, False, []),
                (3, 0, True, [10, 11, 12]),
                (9, 10, True, [11, 12]),
                (1, 12, True, []),
                (99, 0, True, [*range(1, 13)]),
            ):
                found = await store.output(job.id, limit=limit, after=after, newest=newest)
                assert [chunk.n for chunk in found] == numbers
            assert await store.output(new_job().id, limit=10) == []

    @proves("R1")
    async def test_output_of_a_lost_lease_is_refused(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await send_output(store, job, a_chunk(1))
            await finish_run(store, job, Retry(0), now=NOW)
            again = await claim_job(store, job.id)
            assert await send_output(store, job, a_chunk(2, "late")) == set()
            assert await send_output(store, again, a_chunk(2, run=2)) == {job.id}
            assert await store.output(job.id, limit=10) == [a_chunk(1), a_chunk(2, run=2)]

    @proves("R4", "A7")
    async def test_output_stays_with_its_job_until_that_is_deleted(self) -> None:
        async with self.opened() as store:
            job, other = await start(store), await start(store)
            for running in (job, other):
                await send_output(store, running, a_chunk(1))
            await finish_run(store, job, Discard())
            await act(store, Action.RETRY, job.id)
            assert await store.output(job.id, limit=10) == [a_chunk(1)]
            await act(store, Action.DELETE, job.id)
            assert await store.output(job.id, limit=10) == []
            await put(store, new_job(id=job.id))
            assert await store.output(job.id, limit=10) == []
            assert await store.output(other.id, limit=10) == [a_chunk(1)]

    # retention of log lines

    @proves("R4")
    async def test_log_lines_survive_the_run_and_a_retry_by_an_operator(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await send_report(store, job, a_line(1))
            await finish_run(store, job, Discard())
            await act(store, Action.RETRY, job.id)
            assert await store.logs(job.id, limit=10) == [a_line(1)]

    @proves("A7")
    async def test_deleting_a_job_deletes_only_its_own_log_lines(self) -> None:
        async with self.opened() as store:
            job, other = await start(store), await start(store)
            for running in (job, other):
                await send_report(store, running, a_line(1))
            await finish_run(store, job, Done())
            await act(store, Action.DELETE, job.id)
            assert await store.logs(job.id, limit=10) == []
            assert await store.logs(other.id, limit=10) == [a_line(1)]

    @proves("A7")
    async def test_a_job_with_the_id_of_a_deleted_one_has_no_log_lines(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await send_report(store, job, a_line(1), progress=a_progress(1, 5))
            await finish_run(store, job, Done())
            await act(store, Action.DELETE, job.id)
            await put(store, new_job(id=job.id))
            assert (await read_job(store, job.id)).progress is None
            assert await store.logs(job.id, limit=10) == []

    @proves("R4")
    async def test_a_report_does_not_resume_a_paused_job(self) -> None:
        async with self.opened() as store:
            job, paused = await start(store), await job_in_state(store, State.PAUSED)
            await send_report(store, job, a_line(1))
            assert (await claim(store)).jobs == []
            assert (await read_job(store, paused.id)) == paused
