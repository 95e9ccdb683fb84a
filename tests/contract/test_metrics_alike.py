"""The same work gives the same metrics on every store."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mainspring.metrics import exposition
from mainspring.metrics.snapshot import read_snapshot
from mainspring.metrics.tables import families
from mainspring.records.outcome import Discard, Done, Retry, decide
from mainspring.records.run import Items, RunNotes
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.testing.contract.build import NOW, beat, claim, later, new_job, put
from mainspring.testing.contract.flow import MAP, begin
from servers import Postgres, Redis

Samples = dict[tuple[str, ...], float]


async def figures(store: Store) -> Samples:
    """The metrics after some jobs have completed, failed, and not run."""
    await store.open()
    try:
        await beat(store)
        await put(store, *(new_job(queue="mail", task="send") for _ in range(4)), new_job(queue="slow", task="crunch"))
        jobs = (await claim(store, tasks=["send"], limit=4)).jobs
        items = RunNotes(items=Items(3, 1, 2))
        endings = (Done(), Done(), Retry(60), Discard("useless"))
        await store.finish(
            [decide(job, how, now=later(2), account=items) for job, how in zip(jobs, endings, strict=True)]
        )
        for n in range(3):
            await begin(store, MAP, task="load" if n else "import")
        await store.pause_queue("slow", True)
        await store.acquire_term("reindex", "me", until=later(60), now=NOW)
        body, _ = exposition(families(await read_snapshot(store, later(10))))
    finally:
        await store.close()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "redis"])
async def test_every_store_reports_the_same_metrics(
    kind: str, postgres: Postgres, redis: Redis, tmp_path: Path
) -> None:
    urls = {"sqlite": f"sqlite:///{tmp_path}/jobs.db", "postgres": postgres.fresh(), "redis": redis.fresh()}
    told = await figures(open_store(urls[kind]))
    assert told == await figures(open_store("memory://"))
    assert told["job_execution_total", "send", "completed"] == 2
    assert (told["mainspring_flows_open", "load"], told["mainspring_flows_open", "import"]) == (2, 1)
    assert told["job_items_processed_total", "send", "success"] == 12
    assert told["mainspring_queue_oldest_seconds", "slow"] == 10
