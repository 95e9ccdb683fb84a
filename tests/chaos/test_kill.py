"""kill -9 at every dangerous moment: no job is lost, and each gets one accepted outcome."""

import random
import signal
import time

from audit import Audit, until
from crew import Crew
from ground import each, everywhere, slow_on_a_server
from victim import LEASE, SWEEP

from mainspring.failpoint import POINTS

# The failpoints of firing are in test_ticks.py, those of transactions in test_effects.py, of steps in
# test_killed_steps.py.
RUNNING = [point for point in POINTS if not point.startswith(("fire.", "transaction.", "step."))]
# Failpoints inside of store calls, or right after them.
STORED = ["claim.after_commit", "finish.mid_batch", "finish.after_commit"]
# What a loaded machine may add to the bound: starting a process, waiting for a turn on the CPU.
MARGIN = 10.0


def rescued(audit: Audit, died: float) -> float:
    """Seconds from the death of the worker to the new start of the last of its jobs."""
    again = [line.at for line in audit.lines if line.event == "start" and len(audit.runs[line.id]) > 1]
    return max(again, default=died) - died


@each("case", [(point, count) for count in (1, 3, 7) for point in RUNNING], [(point, 3) for point in STORED])
def test_jobs_of_a_worker_killed_at_a_failpoint_run_again_in_time(crew: Crew, case: tuple[str, int]) -> None:
    point, count = case
    crew.enqueue("nap", 0.005, times=60)
    victim = crew.start("victim", failpoints=f"{point}=kill:{count}", concurrency=3)
    died = victim.died()
    assert (victim.process.returncode, crew.reached()) == (-signal.SIGKILL, [point])
    crew.start("rescuer")
    crew.finished()
    audit = crew.audit()
    audit.check(crew.acknowledged)
    assert {job.state for job in audit.jobs.values()} == {"completed"}
    assert rescued(audit, died) <= LEASE + SWEEP + MARGIN


@each("point", RUNNING)
def test_another_worker_rescues_the_jobs_of_a_killed_worker(crew: Crew, point: str) -> None:
    rescuer = crew.up("rescuer", concurrency=2)
    victim = crew.start("victim", failpoints=f"{point}=kill:2", concurrency=3)

    def died_while_jobs_kept_coming() -> bool:
        crew.enqueue("nap", 0.01, times=4)
        return victim.dead()

    until(died_while_jobs_kept_coming)
    died = time.monotonic()
    crew.finished()
    assert crew.reached() == [point]
    assert not rescuer.dead()
    audit = crew.audit()
    audit.check(crew.acknowledged)
    assert {job.state for job in audit.jobs.values()} == {"completed"}
    assert rescued(audit, died) <= LEASE + SWEEP + MARGIN


@slow_on_a_server
def test_jobs_finished_before_a_kill_stay_finished(crew: Crew) -> None:
    crew.enqueue("effect", times=30)
    crew.start("victim", failpoints="finish.after_commit=kill:4", concurrency=2).died()
    done = {job.id: job for job in crew.jobs(crew.acknowledged) if job.state == "completed"}
    crew.start("rescuer")
    crew.finished()
    audit = crew.audit()
    audit.check(crew.acknowledged)
    assert len(done) >= 4
    assert {id: audit.jobs[id] for id in done} == done
    assert {audit.count("effect")[id] for id in done} == {1}


@everywhere
def test_kills_at_random_moments_lose_no_job(crew: Crew) -> None:
    seeded = random.Random(20300101)
    for round in range(5):
        crew.enqueue("nap", 0.02, times=40)
        # One job may crash in every round; another test checks that such a job dies as a poison pill.
        victim = crew.start(f"victim{round}", concurrency=4, max_crashes=10)
        wanted = seeded.randint(1, 60)
        until(lambda: victim.dead() or len(victim.lines()) >= wanted or crew.all_final())  # noqa: B023
        kill_at = time.monotonic() + seeded.random() * 0.05
        until(lambda: time.monotonic() >= kill_at)  # noqa: B023
        assert not victim.dead(), victim.said()
        victim.kill()
    crew.start("rescuer", max_crashes=10)
    crew.finished()
    audit = crew.audit()
    audit.check(crew.acknowledged, attempts=6)
    assert {job.state for job in audit.jobs.values()} == {"completed"}
