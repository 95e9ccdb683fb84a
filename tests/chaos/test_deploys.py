"""A rolling deploy of an app whose tasks have other parameters: processes of two releases on one store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from audit import until
from ground import Ground

from mainspring import Mainspring
from mainspring.insight.why import Reason
from mainspring.records.job import Job, State
from mainspring.records.run import Ending

OLD, NEW = "old", "new"
# For each change of a task's parameters: as the release of before has them, and as the next one has them.
PARAMETERS = {
    "added": {OLD: "order: str", NEW: "order: str, floor: int"},
    "removed": {OLD: "order: str, coupon: str", NEW: "order: str"},
    "retyped": {OLD: "order: str", NEW: "order: int"},
    "renamed": {OLD: "order: str", NEW: "number: str"},
}
ARGUMENTS: dict[str, dict[str, dict[str, Any]]] = {
    "added": {OLD: {"order": "a"}, NEW: {"order": "a", "floor": 3}},
    "removed": {OLD: {"order": "a", "coupon": "c"}, NEW: {"order": "a"}},
    "retyped": {OLD: {"order": "a"}, NEW: {"order": 17}},
    "renamed": {OLD: {"order": "a"}, NEW: {"number": "a"}},
}
# Where each of them runs.
KINDS = {"added": "async def", "removed": "def", "retyped": "def", "renamed": "async def"}
OPTIONS = {"retyped": "executor='process'"}
HEAD = """
import asyncio, json, os, sys
from mainspring import Mainspring, every

app = Mainspring(os.environ["STORE"], beat=0.5, lease=3, poll_interval=0.2)
EFFECTS = os.environ["EFFECTS"]

def effect(*what):
    with open(EFFECTS, "a") as file:
        file.write(json.dumps(what) + "\\n")
"""
TAIL = """
async def enqueue(calls):
    async with app:
        jobs = [app.job(task, arguments) for task, arguments in calls.items()]
        print(json.dumps({job.task: job.id for job in jobs}))
        await app.enqueue_many(jobs)

if __name__ == "__main__":
    asyncio.run(enqueue(json.loads(sys.argv[1])))
"""


def source(release: str) -> str:
    """The module of the app, as this release has it."""
    tasks = [
        f"@app.task({OPTIONS.get(task, '')})\n{KINDS[task]} {task}({parameters[release]}):\n"
        f"    effect({release!r}, {task!r})\n"
        for task, parameters in PARAMETERS.items()
    ]
    return "\n".join([HEAD, *tasks, TAIL])


class Site:
    """Two releases of one app, in a folder each, and a store."""

    def __init__(self, folder: Path, ground: Ground, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._effects = folder / "effects"
        self._effects.touch()
        self._environ = {**os.environ, "STORE": ground.url, "EFFECTS": str(self._effects)}
        self.client = Mainspring(ground.url)
        for release in (OLD, NEW):
            (folder / release).mkdir()
            (folder / release / "shop.py").write_text(source(release))

    def enqueue(self, release: str) -> dict[str, str]:
        """One job for each task, made by a process of that release; their ids by task."""
        calls = json.dumps({task: arguments[release] for task, arguments in ARGUMENTS.items()})
        command = [sys.executable, "shop.py", calls]
        made = subprocess.run(
            command, cwd=self._folder / release, env=self._environ, check=True, capture_output=True, timeout=60
        )
        ids: dict[str, str] = json.loads(made.stdout)
        return ids

    def work(self, release: str) -> None:
        """A worker of that release, until the test is over."""
        log = self._stack.enter_context((self._folder / f"{release}.log").open("wb"))
        command = [sys.executable, "-m", "mainspring.cli", "worker", "shop:app"]
        worker = subprocess.Popen(
            command, cwd=self._folder / release, env=self._environ, stdout=log, stderr=subprocess.STDOUT
        )
        self._stack.callback(worker.wait, 60)
        self._stack.callback(worker.terminate)

    def log(self, release: str) -> str:
        return (self._folder / f"{release}.log").read_text()

    def jobs(self, ids: dict[str, str]) -> dict[str, Job]:
        return {task: self.client.sync.jobs.get(id) for task, id in ids.items()}

    def skew(self, id: str) -> Reason | None:
        """Why the job waits for another version of its task, while it waits."""
        return next((one for one in self.client.sync.jobs.why(id) if one.code == "version_skew"), None)

    def effects(self) -> list[tuple[str, str]]:
        return sorted((release, task) for release, task in map(json.loads, self._effects.read_text().splitlines()))

    def close(self) -> None:
        self.client.sync.close()


@pytest.fixture
def site(tmp_path: Path, ground: Ground) -> Iterator[Site]:
    with ExitStack() as stack:
        site = Site(tmp_path, ground, stack)
        stack.callback(site.close)
        yield site


# The stores do not know which version of a task is the newer one: a file has both orders.
@pytest.mark.parametrize(
    ("ground", "first"), [("file", OLD), ("file", NEW), ("server", OLD), ("keys", NEW)], indirect=["ground"]
)
def test_a_deploy_that_changes_parameters_kills_no_job(site: Site, first: str) -> None:
    """Both releases enqueue while only one of them works; then the other one works beside it."""
    second = NEW if first == OLD else OLD
    theirs, others = site.enqueue(first), site.enqueue(second)
    site.work(first)

    until(lambda: all(job.state is State.COMPLETED for job in site.jobs(theirs).values()), 60)
    until(lambda: all(job.failure is not None for job in site.jobs(others).values()), 60)
    for task, job in site.jobs(others).items():
        assert job.state in (State.PENDING, State.RUNNING), job
        assert job.failure is not None
        assert job.failure.type == "VersionSkew"
        assert PARAMETERS[task][first] in job.failure.message
        if job.state is State.PENDING:
            assert job.attempt == 0
            reason = until(lambda: site.skew(job.id))  # noqa: B023  # it may be looked at by the worker just now
            assert f"No live worker has version {job.fingerprint} of task {task!r}" in reason.text
    assert site.effects() == sorted((first, task) for task in PARAMETERS)

    site.work(second)
    until(lambda: all(job.state is State.COMPLETED for job in site.jobs(others).values()), 60)
    assert site.effects() == sorted((release, task) for task in PARAMETERS for release in (first, second))
    for job in site.jobs(others).values():
        *released, last = site.client.sync.executions.list(job_id=job.id)
        assert (job.attempt, last.ending) == (1, Ending.COMPLETED)
        assert {run.ending for run in released} == {Ending.RELEASED}
        assert len(released) < 40  # the delays grow, however slow the machine is
        assert site.log(first).count(f"postponed {job.task} {job.id}") == 1
