"""The poison table: whatever a job does to its process, thread or coroutine, ten innocents beside it complete."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import poison
import pytest
from msgspec import Struct

from mainspring import Backoff, Job, Mainspring, NewJob, State
from mainspring.events import JobEnded, JobFailed, JobStarted
from mainspring.executor import threads
from mainspring.testing import Recorder
from mainspring.worker import slots


class Poison(Struct):
    """What a job does, and what is recorded of it in the end."""

    fn: Any
    ending: str
    failure: str
    text: str
    executor: str = "process"
    options: dict[str, Any] = {}


PROCESS = "its process ended: "
TABLE = {
    "memory_limit": Poison(
        poison.allocate_beyond_the_limit, "failed", "MemoryLimitExceeded", "more than its memory_limit of 64 MB",
        options={"memory_limit": "64MB"},
    ),
    "OOM killer": Poison(
        poison.killed_for_memory, "crashed", "PoisonPill", PROCESS + "killed by SIGKILL (out of memory?); crash 3 of 3"
    ),
    "segfault": Poison(poison.segfault, "crashed", "PoisonPill", PROCESS + "killed by SIGSEGV; crash 3 of 3"),
    "os._exit": Poison(poison.leave_at_once, "crashed", "PoisonPill", PROCESS + "exited with status 3; crash 3 of 3"),
    "recursion": Poison(poison.recurse, "failed", "RecursionError", "maximum recursion depth exceeded"),
    "recursion in a thread": Poison(
        poison.recurse, "failed", "RecursionError", "maximum recursion depth exceeded", executor="thread"
    ),
    "stack overflow": Poison(
        poison.overflow_the_stack, "crashed", "PoisonPill", PROCESS + "killed by SIGSEGV; crash 3 of 3"
    ),
}  # fmt: skip
SWALLOWERS = {
    "async": Poison(poison.swallow_as_a_coroutine, "timeout", "JobTimeout", "ran on after its timeout", "async"),
    "thread": Poison(poison.swallow, "timeout", "JobTimeout", "took longer than its timeout of 0.3 s", "thread"),
    "process": Poison(poison.swallow, "timeout", "JobTimeout", "took longer than its timeout of 0.3 s", "process"),
}


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mainspring]:
    """A worker's runs that ignore their end are given up soon; and end with the test."""
    monkeypatch.setattr(slots, "INTERRUPT_GRACE_SECONDS", 0.5)
    monkeypatch.setattr(threads, "INTERRUPT_GRACE_SECONDS", 0.3)
    poison.released.clear()
    poison.open_gate.clear()
    yield Mainspring(f"sqlite:///{tmp_path}/jobs.db", beat=0.2, lease=5, poll_interval=0.2)
    poison.released.set()
    poison.open_gate.set()


async def beside_innocents(
    app: Mainspring, one: Poison, folder: Path, cancel: str | None = None, **wishes: Any
) -> tuple[Job, list[str]]:
    """Returns the final job of the poison, and the endings of its runs.

    Ten innocents are under way when it strikes for the first time. They complete, with one attempt each.
    """
    options = {"max_retries": 2, "backoff": Backoff.constant(0.01), **one.options, **wishes}
    task = app.task(name="poison", executor=one.executor, **options)(one.fn)  # type: ignore[call-overload]
    gate = folder / "gate"
    recorder, ten = Recorder(app), ten_innocents(app, gate)
    async with app:
        with gate.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            async with app.worker(concurrency=20):
                innocents = await app.enqueue_many(ten)
                await recorder.wait(JobStarted, 10)
                handle = await task.enqueue()
                await recorder.wait(JobStarted, job=handle.id)
                if cancel is not None:
                    await app.jobs.cancel(handle.id, cancel)
                await recorder.wait(JobFailed if cancel is None else JobEnded, job=handle.id)
                fcntl.flock(lock, fcntl.LOCK_UN)
                poison.open_gate.set()
                assert [await innocent.result(30) for innocent in innocents] == ["done"] * 10
                while not (job := await handle.job()).state.final:
                    await recorder.wait(JobEnded, len(recorder.of(JobEnded, handle.id)) + 1, job=handle.id)
                poison.released.set()
        unharmed = [await innocent.job() for innocent in innocents]
        assert {(one.attempt, one.runs, one.crashes) for one in unharmed} == {(1, 1, 0)}
        return job, [str(run.ending) for run in await app.executions.list(job_id=job.id)]


def ten_innocents(app: Mainspring, gate: Path) -> list[NewJob]:
    in_process = app.task(executor="process")(poison.innocent_process)
    in_thread, in_loop = app.task(poison.innocent_thread), app.task(poison.innocent_coroutine)
    return [
        *(in_process.job(str(gate)) for _ in range(2)),
        *(task.job() for task in (in_thread, in_loop) for _ in range(4)),
    ]


@pytest.mark.parametrize("name", TABLE)
async def test_a_poison_job_is_dead_after_three_runs_and_its_neighbours_complete(
    app: Mainspring, tmp_path: Path, name: str
) -> None:
    one = TABLE[name]
    job, runs = await beside_innocents(app, one, tmp_path)
    assert runs == [one.ending] * 3
    assert (job.state, job.crashes) == (State.DEAD, 3 if one.ending == "crashed" else 0)
    assert job.failure is not None
    assert job.failure.type == one.failure
    assert one.text in job.failure.message


@pytest.mark.parametrize("name", SWALLOWERS)
async def test_a_job_that_swallows_its_timeout_is_recorded_as_timed_out(
    app: Mainspring, tmp_path: Path, name: str
) -> None:
    one = SWALLOWERS[name]
    job, runs = await beside_innocents(app, one, tmp_path, timeout=0.3, max_retries=1)
    assert runs == ["timeout", "timeout"]
    assert job.state is State.DEAD
    assert job.failure is not None
    assert job.failure.type == one.failure
    assert one.text in job.failure.message


@pytest.mark.parametrize("name", SWALLOWERS)
async def test_a_job_that_swallows_its_cancellation_is_cancelled(app: Mainspring, tmp_path: Path, name: str) -> None:
    job, runs = await beside_innocents(app, SWALLOWERS[name], tmp_path, cancel="enough")
    assert runs == ["cancelled"]
    assert (job.state, job.cancel_reason) == (State.CANCELLED, "enough")
