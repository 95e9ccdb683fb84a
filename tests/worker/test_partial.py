"""Partial runs: completed runs with failed items, in jobs, events, statistics and metrics."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from mainspring import BadInput, Context, Filter, Mainspring, State
from mainspring.events import JobEnded, JobFailed, JobPartial
from mainspring.feed.from_events import CONVERTERS
from mainspring.metrics import exposition
from mainspring.metrics.cluster import ClusterMetrics
from mainspring.middleware.metrics import Metrics
from mainspring.records.run import Ending
from mainspring.webhook.message import job_data


@pytest.fixture
def counting(app: Mainspring) -> Any:
    @app.task(max_retries=0, failed_ratio=0.2)
    async def counting(ctx: Context, failed: int) -> str:
        ctx.items(success=10 - failed, failed=failed)
        return "done"

    return counting


@pytest.mark.parametrize(
    ("failed", "state", "outcome"),
    [(0, State.COMPLETED, "completed"), (1, State.COMPLETED, "partial"), (2, State.COMPLETED, "partial"),
     (3, State.DEAD, "failed")],
)  # fmt: skip
async def test_failed_ratio_of_a_task_decides_whether_a_run_is_partial_or_failed(
    app: Mainspring, counting: Any, failed: int, state: State, outcome: str
) -> None:
    handle = await counting.enqueue(failed)
    await app.drain()
    job = await handle.job()
    (run,) = await app.executions.list(job_id=handle.id)
    assert (job.state, run.outcome, job.partial) == (state, outcome, outcome == "partial")


async def test_a_partial_run_keeps_its_result_and_counts_its_failed_items(app: Mainspring, counting: Any) -> None:
    handle = await counting.enqueue(1)
    await app.drain()
    (run,) = await app.executions.list(job_id=handle.id)
    assert await handle.result() == "done"
    assert run.ending is Ending.COMPLETED
    assert run.failure is not None
    assert run.failure.message == "1 of 10 items failed"


async def test_a_run_whose_result_could_not_be_kept_is_not_partial(app: Mainspring) -> None:
    @app.task
    async def lost() -> object:
        return object()

    handle = await lost.enqueue()
    await app.drain()
    (run,) = await app.executions.list(job_id=handle.id)
    stats = await app.stats()
    assert (run.outcome, run.failure and run.failure.type) == ("completed", "ResultLost")
    assert (stats.total.completed, stats.total.partial) == (1, 0)


async def test_partial_runs_are_counted_separately_and_are_no_errors(app: Mainspring, counting: Any) -> None:
    handles = [await counting.enqueue(failed) for failed in (0, 1, 1, 5)]
    await app.drain()
    stats = await app.stats()
    total = stats.total
    assert (total.runs, total.completed, total.partial, total.failed, total.success_rate) == (4, 1, 2, 1, 0.75)
    assert [error.error for error in stats.errors] == ["ItemsFailed: … of … items failed; up to …% may"]
    assert sum(point.partial for point in stats.series) == 2
    assert stats.completed == 3
    one = await app.executions.stats(handles[1].id)
    assert (one.runs, one.completed, one.partial, one.success_rate) == (1, 0, 1, 1.0)


async def test_partial_runs_have_a_status_in_metrics(app: Mainspring, counting: Any) -> None:
    for failed in (0, 1, 5):
        await counting.enqueue(failed)
    await app.drain()
    body = exposition(await ClusterMetrics(app).families())[0].decode()
    for status in ("completed", "partial", "failed"):
        assert f'job_execution_total{{job="counting",status="{status}"}} 1.0' in body


async def test_metrics_middleware_counts_partial_and_failed_runs_by_their_items(clock: Any) -> None:
    registry = CollectorRegistry()
    app = Mainspring("memory://", clock=clock, middleware=[Metrics(registry, clock=clock)])

    @app.task(max_retries=0)
    async def work(ctx: Context, failed: int) -> None:
        ctx.items(success=10 - failed, failed=failed)

    for failed in (0, 1, 9):
        await work.enqueue(failed)
    await app.drain()
    for status in ("completed", "partial", "failed"):
        assert registry.get_sample_value("job_execution_total", {"job": "work", "status": status}) == 1


async def test_a_partial_job_is_found_by_its_outcome(app: Mainspring, counting: Any) -> None:
    handles = [await counting.enqueue(failed) for failed in (0, 1, 5)]
    await app.drain()
    part = handles[1].id
    assert [job.id for job in await app.jobs.list(Filter(outcome="partial"))] == [part]
    assert [job.id for job in await app.jobs.list(Filter(outcome="partial", states=("completed",)))] == [part]
    assert await app.jobs.list(Filter(outcome="partial", states=("dead",))) == []
    assert await app.jobs.list(Filter(outcome="partial", errors=("OSError: no",))) == []
    with pytest.raises(BadInput, match="unknown outcome 'failed'"):
        await app.jobs.list(Filter(outcome="failed"))  # type: ignore[arg-type]
    assert (await app.jobs.delete(Filter(outcome="partial"))).done == [part]
    assert len(await app.jobs.list()) == 2


async def test_a_partial_run_is_an_event_of_its_own_and_no_failure(
    app: Mainspring, counting: Any, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Any] = []
    app.events.subscribe(JobEnded, seen.append)
    with caplog.at_level(logging.INFO, "mainspring"):
        for failed in (0, 1):
            await counting.enqueue(failed)
        await app.drain()
    whole, part = seen
    assert type(whole) is JobEnded
    assert isinstance(part, JobPartial)
    assert not isinstance(part, JobFailed)
    assert [(one.levelname, "1 of 10 items failed" in one.getMessage()) for one in caplog.records] == [("INFO", True)]
    (notice,) = CONVERTERS[JobEnded](part)
    assert (notice.type, notice.ending, notice.outcome) == ("job.completed", "completed", "partial")
    body = job_data(part.job, part.outcome, "job.completed")
    assert (body["outcome"], body["items"]) == ("partial", {"success": 9, "failed": 1, "skipped": 0})
