"""Jobs with large metadata, as an earlier release accepted them: a new worker runs all of them in little memory."""

from __future__ import annotations

from pathlib import Path

from audit import until
from crew import Crew
from ground import File, Ground, everywhere
from msgspec.structs import replace

from mainspring import Mainspring
from mainspring.ids import JobId
from mainspring.records.job import NewJob
from mainspring.sync import run

pytestmark = everywhere
MIB = 1 << 20
# More jobs than slots.
JOBS, JOB_BYTES = 20, 4 * MIB
# Most of what a worker needs are its programs and, with a file, the caches of SQLite: it may hold a few jobs at a time.
# A claim without a limit of bytes needs 308 MiB with a file and 170 MiB with a server.
PEAK_BYTES, PEAK_BYTES_OF_A_FILE = 140 * MIB, 260 * MIB


def peak(pid: int) -> int:
    """The most memory that the process has had, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def large(crew: Crew, task: str) -> NewJob:
    return replace(crew.job(task), metadata={"old": "x" * JOB_BYTES})


async def stored(app: Mainspring, job: NewJob) -> JobId:
    """Stores jobs beyond the bounds of this release."""
    await (await app.connect()).enqueue([job], now=app.clock.now())
    return job.id


def test_a_worker_drains_old_jobs_with_megabytes_of_metadata(tmp_path: Path, ground: Ground) -> None:
    crew = Crew(tmp_path, ground)
    try:
        for _ in range(JOBS):
            crew.acknowledged.append(run(stored(crew.client, large(crew, "quick"))))
        worker = crew.up("worker", concurrency=16, beat=1, lease=20)
        until(lambda: worker.dead() or crew.all_final(), 180)
        used = peak(worker.process.pid)
        worker.end()
        stats = crew.client.sync.stats()
        limit = PEAK_BYTES_OF_A_FILE if isinstance(ground, File) else PEAK_BYTES
        assert (stats.completed, used < limit) == (JOBS, True), used / MIB
    finally:
        crew.close()
