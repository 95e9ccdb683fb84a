"""CDN, mirror and export: expiring addresses, a job for each copy, dead letters, a process of its own."""

import gzip

import pytest
from sqlalchemy import func, select, update

from clip_service import storage
from clip_service.database import session
from clip_service.exports import export_clips
from clip_service.partners import Partners
from clip_service.storage import MIRROR_CLIPS, mirror_clip
from clip_service.tables import Clip, Incident
from clip_service.tasks import app
from mainspring import State
from mainspring.testing import Harness

from .conftest import START
from .state import count, run_only


async def test_no_address_ever_expires(jobs: Harness) -> None:
    await run_only("refresh_cdn")
    for _ in range(2):
        await jobs.advance(days=1)
        with session() as db:
            first = db.scalar(select(func.min(Clip.cdn_expires_at)))
        assert first is not None
        assert first > jobs.clock.now().timestamp()


async def test_a_run_signs_a_bounded_number_of_addresses(
    jobs: Harness, partners: Partners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "CDN_CLIPS", 7)
    with session() as db, db.begin():
        db.execute(update(Clip).values(cdn_expires_at=START))
    await run_only("refresh_cdn")
    await jobs.advance(minutes=10)
    assert (count(Clip) - count(Clip, cdn_expires_at=START), partners.requests["cdn"]) == (7, 1)


async def test_a_source_that_is_gone_is_dead_at_once_and_recorded(jobs: Harness) -> None:
    await run_only("mirror_clips")
    await jobs.advance(hours=1)
    dead = [job for job in jobs.of(mirror_clip) if job.state is State.DEAD]
    assert dead
    assert {job.attempt for job in dead} == {1}
    assert count(Incident, task="mirror_clip") == len(dead)
    with session() as db:
        assert db.scalar(select(func.count(Clip.mirror_error))) == len(dead)
    (group,) = await app.dead.groups()
    assert group.error == "Discard: PUT /storage: status …: the source is gone"


async def test_a_run_mirrors_a_bounded_number_of_clips(jobs: Harness) -> None:
    await run_only("mirror_clips")
    await jobs.advance(minutes=30)
    assert len(jobs.of(mirror_clip)) == MIRROR_CLIPS == 25


async def test_exports_run_in_a_process_of_their_own(jobs: Harness) -> None:
    await run_only()
    job = await export_clips.enqueue(max_clips=7)
    await jobs.drain()
    assert lines(await job.result()) == 7
    (run,) = await app.executions.list(job_id=job.id)
    assert run.usage is not None, "CPU time and memory are known of a process only"


async def test_a_clip_is_exported_once(jobs: Harness) -> None:
    await run_only()
    files = []
    for _ in range(2):
        job = await export_clips.enqueue(max_clips=10_000)
        await jobs.drain()
        files.append(await job.result())
        jobs.clock.advance(seconds=1)
    assert lines(files[0]) > 10
    assert files[1] is None


def lines(path: str | None) -> int:
    assert path is not None
    with gzip.open(path, "rt") as file:
        return len(file.readlines())
