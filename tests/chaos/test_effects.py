"""An effect in a task's own transaction happens once, whenever its process is killed or stopped."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import payer
import pytest
from audit import until
from forked import ForkedProcess

from mainspring import Mainspring, State
from servers import Postgres

POINTS = ["run.started", "finish.mid_batch", "transaction.after_commit", "run.returned"]


class Till:
    """The app, its effects and its processes."""

    def __init__(self, url: str, run: Callable[[str], list[Any]], log: Path) -> None:
        self.url, self.run, self._log = url, run, log
        self.app: Mainspring = payer.make(url)
        run("DROP TABLE IF EXISTS effects")
        run("CREATE TABLE effects (job text)")

    @contextmanager
    def worker(self, failpoints: str = "") -> Iterator[ForkedProcess]:
        environ = {"MAINSPRING_FAILPOINTS": failpoints, "MAINSPRING_FAILPOINT_LOG": str(self._log)}
        process = ForkedProcess(payer, [self.url], environ, self._log.with_suffix(".stderr"))
        try:
            yield process
        finally:
            process.kill()
            process.wait(20)

    def enqueue(self, *args: Any, times: int = 1) -> list[str]:
        jobs = [self.app.tasks["pay"].job(*args) for _ in range(times)]
        return [handle.id for handle in self.app.sync.enqueue_many(jobs)]

    def effects(self) -> list[str]:
        return sorted(id for (id,) in self.run("SELECT job FROM effects"))

    def completed(self, ids: list[str]) -> bool:
        return all(self.app.sync.jobs.get(id).state is State.COMPLETED for id in ids)

    def reached(self) -> list[str]:
        return self._log.read_text().split()


@pytest.fixture(params=["sqlite", "postgres"])
def till(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Till]:
    file, log = tmp_path / "till.db", tmp_path / "failpoints"

    def run(sql: str) -> list[Any]:
        db = sqlite3.connect(file, timeout=10)
        try:
            with db:
                return db.execute(sql).fetchall()
        finally:
            db.close()

    if request.param == "sqlite":
        till = Till(f"sqlite:///{file}", run, log)
    else:
        server: Postgres = request.getfixturevalue("postgres")
        till = Till(server.fresh(), server.run, log)
    yield till
    till.app.sync.close()


@pytest.mark.parametrize("point", POINTS)
def test_a_transactional_effect_happens_once_wherever_the_worker_is_killed(till: Till, point: str) -> None:
    ids = till.enqueue(times=20)
    with till.worker(f"{point}=kill:3") as victim:
        assert victim.wait(20) == -signal.SIGKILL
    assert till.reached() == [point]
    with till.worker():
        until(lambda: till.completed(ids))
    assert till.effects() == sorted(ids)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_steps_in_transactions_happen_once_wherever_the_worker_is_killed(till: Till, count: int) -> None:
    made = till.app.sync.enqueue_many([till.app.tasks["pay_in_parts"].job() for _ in range(2)])
    ids = [handle.id for handle in made]
    with till.worker(f"transaction.after_commit=kill:{count}") as victim:
        assert victim.wait(20) == -signal.SIGKILL
    with till.worker():
        until(lambda: till.completed(ids))
    assert till.effects() == sorted(f"{id} {part}" for id in ids for part in payer.PARTS)


def test_a_job_committed_by_its_transaction_before_a_kill_does_not_run_again(till: Till) -> None:
    (id,) = till.enqueue()
    with till.worker("transaction.after_commit=kill:1") as victim:
        victim.wait(20)
    assert (till.completed([id]), till.effects()) == (True, [id])
    with till.worker():
        until(lambda: till.completed(till.enqueue()) or not till.app.sync.stats().pending)
    job = till.app.sync.jobs.get(id)
    assert (job.runs, job.result) == (1, "1")


@pytest.mark.parametrize("till", ["postgres"], indirect=True)
def test_a_worker_frozen_in_its_transaction_applies_no_effect_when_it_continues(till: Till) -> None:
    (id,) = till.enqueue(True)
    with till.worker() as zombie, till.worker():
        until(lambda: till.completed([id]))  # the other worker has rescued its job and run it again
        zombie.send_signal(signal.SIGCONT)
        later = till.enqueue(times=20)
        until(lambda: till.completed(later))
        assert till.effects() == sorted([id, *later])
    assert till.app.sync.jobs.get(id).result == "2"
