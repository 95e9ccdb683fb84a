"""A job whose record cannot be decoded, in the API."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from http_client import Client

from mainspring import Mainspring
from mainspring.testing import VirtualClock


@pytest.fixture
def spring(clock: VirtualClock, tmp_path: Path) -> Mainspring:
    app = Mainspring(f"sqlite:///{tmp_path}/jobs.db", clock=clock)

    @app.task
    async def greet(name: str) -> None: ...

    return app


async def test_an_unreadable_job_is_listed_shown_and_deleted(
    spring: Mainspring, client: Client, tmp_path: Path
) -> None:
    broken = await spring.tasks["greet"].enqueue(name="ada")
    other = await spring.tasks["greet"].enqueue(name="bob")
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as db, db:
        db.execute("UPDATE mainspring_jobs SET options = '{' WHERE id = ?", (broken.id,))
    await spring.worker().drain()
    async with client("admin") as http:
        listed = (await http.get("/jobs")).json()["items"]
        assert {job["id"]: job["state"] for job in listed} == {broken.id: "paused", other.id: "completed"}
        shown = await http.get(f"/jobs/{broken.id}")
        assert shown.status_code == 200
        assert "cannot be decoded" in shown.text
        for path in ("/jobs?state=paused", "/stats", "/queues", f"/jobs/{broken.id}/why", "/dead"):
            assert (await http.get(path)).status_code == 200, path
        refused = await http.post(f"/jobs/{broken.id}/resume")
        assert refused.status_code == 422
        assert "repair the record, or delete the job" in refused.text
        assert (await http.delete(f"/jobs/{broken.id}")).status_code in (200, 204)
        assert (await http.get(f"/jobs/{broken.id}")).status_code == 404
