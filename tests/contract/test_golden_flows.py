"""Stores that an earlier release left with flows under way: this release ends each flow as its ideal."""

from __future__ import annotations

import gzip
from collections import Counter
from datetime import timedelta
from pathlib import Path

from flow_audit import check_flow, steps_of
from golden import form
from golden.flows import BEGIN, FOLDER, workshop
from mainspring import Mainspring
from mainspring.control.step_jobs import flow_store
from mainspring.records.job import State
from mainspring.testing import VirtualClock
from servers import Postgres, Redis

ENDED = {"completed": 11, "cancelled": 2, "dead": 1}


async def go_on(url: str) -> None:
    """Ends everything, and compares each flow; then puts the dead flow back to work."""
    clock = VirtualClock(BEGIN + timedelta(hours=2))
    app = workshop(url, clock)
    async with app:
        left = [job for job in await app.flows.list(limit=100) if not job.state.final]
        assert {job.state for job in left} == {State.PENDING, State.WAITING}
        async with app.worker():
            await clock.elapse(timedelta(minutes=10))
        assert await compare(app) == ENDED
        (dead,) = await app.flows.list(states=["dead"])
        assert dead.task == "strict"
        await app.flows.retry(dead.id)
        assert (await app.jobs.get(dead.id)).state is State.WAITING
        async with app.worker():
            await clock.elapse(timedelta(minutes=10))
        assert (await app.jobs.get(dead.id)).state is State.DEAD
        assert await compare(app) == ENDED


async def compare(app: Mainspring) -> Counter[str]:
    """The states of all flows. Those that were not cancelled are compared with their ideal, which needs the order of
    events for the others."""
    store, found = await app.connect(), Counter[str]()
    for job in await app.flows.list(limit=100):
        found[job.state.value] += 1
        if job.state is not State.CANCELLED:
            (flow,) = await flow_store(store).flows([job.id])
            check_flow(flow, job, await steps_of(store, job.id))
    return found


async def test_flows_of_an_earlier_release_go_on_in_a_file(tmp_path: Path) -> None:
    await go_on(form.load_sqlite(FOLDER, tmp_path / "jobs.db"))


async def test_flows_of_an_earlier_release_go_on_in_postgres(postgres: Postgres, tmp_path: Path) -> None:
    packed = (FOLDER / f"{form.POSTGRES}.gz").read_bytes()
    (tmp_path / form.POSTGRES).write_bytes(gzip.decompress(packed))
    await go_on(await form.load_postgres(tmp_path, postgres))


async def test_flows_of_an_earlier_release_go_on_in_redis(redis: Redis) -> None:
    url = redis.fresh(form.PREFIX)
    form.load_redis(FOLDER / f"{form.REDIS}.gz", lambda key: redis)
    await go_on(url)
