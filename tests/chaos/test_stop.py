"""SIGTERM at any time costs no attempt; SIGKILL during the drain loses no job."""

import signal
import time

from audit import until
from crew import Crew
from ground import slow_on_a_server


def test_runs_in_flight_are_recorded_when_a_worker_stops(crew: Crew) -> None:
    worker = crew.up("worker", concurrency=5)
    crew.enqueue("nap", 0.2, times=50)
    until(lambda: len(worker.lines()) >= 8)
    worker.end()
    audit = crew.audit()
    audit.check(crew.acknowledged, final=False)
    begun = {line.id for line in worker.lines()}
    assert {id for id, job in audit.jobs.items() if job.state == "completed"} == begun
    untouched = [job for id, job in audit.jobs.items() if id not in begun]
    assert untouched
    assert {(job.state.value, job.attempt, job.runs) for job in untouched} == {("pending", 0, 0)}


def test_runs_that_outlast_the_grace_are_released_and_cost_no_attempt(crew: Crew) -> None:
    worker = crew.up("worker", concurrency=5, grace=0.3)
    ids = crew.enqueue("held", str(crew.folder / "gate"), times=5)
    until(lambda: len(worker.lines()) == 5)
    worker.end()
    audit = crew.audit()
    audit.check(crew.acknowledged, final=False)
    assert {(job.state.value, job.attempt, job.runs) for job in audit.jobs.values()} == {("pending", 0, 1)}
    assert [audit.endings(id) for id in ids] == [["released"]] * 5


@slow_on_a_server
def test_a_released_job_is_finished_by_the_next_worker_at_once(crew: Crew) -> None:
    worker, gate = crew.up("worker", grace=0.2), crew.folder / "gate"
    crew.enqueue("held", str(gate))
    until(worker.lines)
    worker.end()
    gate.touch()
    crew.up("next", lease=20, beat=5)
    crew.finished()
    audit = crew.audit()
    audit.check(crew.acknowledged)
    assert [audit.endings(id) for id in crew.acknowledged] == [["released", "completed"]]
    assert audit.jobs[crew.acknowledged[0]].attempt == 1


@slow_on_a_server
def test_a_second_signal_stops_a_worker_at_once(crew: Crew) -> None:
    worker = crew.up("worker", grace=60)
    crew.enqueue("held", str(crew.folder / "gate"), times=3)
    until(lambda: len(worker.lines()) == 3)
    worker.send(signal.SIGTERM)
    worker.send(signal.SIGTERM)
    sent = time.monotonic()
    assert worker.died() - sent < 3
    assert worker.process.returncode == 0
    audit = crew.audit()
    audit.check(crew.acknowledged, final=False)
    assert {(job.state.value, job.attempt) for job in audit.jobs.values()} == {("pending", 0)}


@slow_on_a_server
def test_a_kill_during_the_drain_loses_no_job(crew: Crew) -> None:
    gate = crew.folder / "gate"
    worker = crew.up("worker", grace=60, concurrency=3)
    crew.enqueue("held", str(gate), times=6)
    until(lambda: len(worker.lines()) == 3)
    worker.send(signal.SIGTERM)
    worker.kill()
    gate.touch()
    crew.start("next")
    crew.finished()
    audit = crew.audit()
    audit.check(crew.acknowledged)
    assert sorted(audit.endings(id) for id in crew.acknowledged) == [["completed"]] * 3 + [["crashed", "completed"]] * 3


@slow_on_a_server
def test_a_worker_stopped_while_it_starts_exits_cleanly(crew: Crew) -> None:
    crew.enqueue("quick", times=50)
    worker = crew.start("worker")
    until(lambda: worker.dead() or _catches(worker.process.pid))
    worker.end()
    crew.start("next")
    crew.finished()
    crew.audit().check(crew.acknowledged, attempts=1)


def _catches(pid: int) -> bool:
    """Whether the process has its handler for SIGTERM."""
    with open(f"/proc/{pid}/status") as status:
        (mask,) = [int(line.split()[1], 16) for line in status if line.startswith("SigCgt")]
    return bool(mask >> (signal.SIGTERM - 1) & 1)
