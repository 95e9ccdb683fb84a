"""Computations for a request are bounded, run outside of the event loop, and have a deadline."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from http_client import Client, browser

from mainspring import BadInput, Mainspring, every
from mainspring.clock import SystemClock
from mainspring.control.computation import DEADLINE_SECONDS, MAX_CONCURRENT, Busy, Computation
from mainspring.testing import VirtualClock

SECONDS = [f"{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}" for n in range(86_400)]


def calendar(times: int) -> dict[str, Any]:
    return {"kind": "calendar", "days": 1, "times": SECONDS[:times], "tz": "Europe/Berlin"}


@pytest.mark.parametrize("times", [1441, 10_000, 86_400])
async def test_a_calendar_with_too_many_times_is_refused(client: Client, times: int) -> None:
    async with client("viewer") as http:
        answer = await http.post("/cron/preview", json={"trigger": calendar(times), "count": 1000})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert f"{times:,} times are too many: at most 1,440" in answer.json()["detail"]


async def test_a_preview_is_computed_in_a_thread_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()
    check = Computation.check

    def look(self: Computation) -> None:
        seen.add(threading.current_thread().name.rpartition("_")[0])
        check(self)

    monkeypatch.setattr(Computation, "check", look)
    spring = Mainspring("memory://")

    @spring.task
    async def send(to: str) -> None: ...

    key = await spring.keys.create("ops", "operator")
    async with browser(spring.asgi(), headers={"Authorization": f"Bearer {key}"}) as http:
        asked = {"trigger": calendar(1440), "count": 1000}
        assert len((await http.post("/cron/preview", json=asked)).json()["next"]) == 1000
        made = {"name": "nightly", "task": "send", "trigger": calendar(2), "kwargs": {"to": "a"}}
        assert (await http.post("/schedules", json=made)).status_code == 201
        assert len((await http.get("/schedules/nightly/preview")).json()) == 10
        span = {"start": "2020-01-01T00:00:00Z", "dry_run": True, "limit": 10_000}
        assert (await http.post("/schedules/nightly/backfill", json=span)).status_code == 200
        assert (await http.get("/scheduler/distribution")).status_code == 200
        assert (await http.post("/scheduler/rebalance", json={"dry_run": True})).status_code == 200
    assert seen == {"mainspring-previews", "mainspring-records"}


async def test_a_preview_computation_is_aborted_after_its_deadline(
    client: Client, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = iter([0.0, 0.0, 0.0, DEADLINE_SECONDS + 1])
    monkeypatch.setattr(type(clock), "monotonic", lambda self: next(later, DEADLINE_SECONDS + 1))
    computation = Computation(clock, "the preview of this rule")
    done: list[int] = []
    with pytest.raises(BadInput, match=r"the preview of this rule took more than 5 s and was given up: ask for less"):
        await computation.run(lambda: done.extend(computation.each(range(1000))))
    assert done == [0]


async def test_a_stored_calendar_with_too_many_times_is_left_out_of_lists_and_can_be_deleted(tmp_path: Path) -> None:
    """The schedule cannot be decoded: lists leave it out, and it can be deleted."""
    spring = Mainspring(f"sqlite:///{tmp_path}/jobs.db")
    for name in ("huge", "small"):
        await spring.schedules.create(name, every().day.at("09:00"), "send")
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as db, db:
        (body,) = db.execute("SELECT body FROM mainspring_schedules WHERE name = 'huge'").fetchone()
        grown = body.replace('"09:00"', ",".join(f'"{one}"' for one in SECONDS[:10_000]))
        assert grown != body
        db.execute("UPDATE mainspring_schedules SET body = ? WHERE name = 'huge'", (grown,))
    key = await spring.keys.create("ops", "operator")
    async with browser(spring.asgi(), headers={"Authorization": f"Bearer {key}"}) as http:
        assert [one["name"] for one in (await http.get("/schedules")).json()["items"]] == ["small"]
        assert (await http.get("/scheduler/outlook")).status_code == 200
        assert (await http.delete("/schedules/huge")).status_code == 204
    await spring.close()


async def test_stuck_previews_delay_only_other_previews() -> None:
    clock, gate = SystemClock(), threading.Event()

    def preview(seconds: float = DEADLINE_SECONDS) -> Computation:
        return Computation(clock, "the preview of this rule", seconds, kind="previews")

    stuck = [asyncio.ensure_future(preview().run(gate.wait)) for _ in range(2 * MAX_CONCURRENT)]
    try:
        late = asyncio.ensure_future(preview(seconds=0.0).run(lambda: 1))
        assert await Computation(clock, "the check of these jobs").run(lambda: 1) == 1
    finally:
        gate.set()
    assert await asyncio.gather(*stuck) == [True] * len(stuck)
    with pytest.raises(Busy, match="waited 0 s for others and was not started: try again"):
        await late


async def test_a_preview_that_did_not_start_is_503(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def busy(self: Computation, calculate: Any) -> Any:
        raise Busy("the preview of this rule waited 5 s for others and was not started: try again")

    monkeypatch.setattr(Computation, "run", busy)
    async with client("viewer") as http:
        answer = await http.post("/cron/preview", json={"trigger": "0 9 * * *"})
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "too_slow", "1")
