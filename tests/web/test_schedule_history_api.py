"""Ticks, runs, statistics and bulk changes of schedules in the API."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from http_client import Client

from mainspring import AuditFilter, Mainspring, every
from mainspring.control.computation import Computation
from mainspring.schedule.record import Tick
from mainspring.testing import VirtualClock


async def ran(spring: Mainspring, clock: VirtualClock, ticks: int = 3) -> None:
    """A schedule whose ticks have fired, and another whose jobs fail."""
    await spring.schedules.create("mail", every(minutes=1), "send", kwargs={"to": "a"})
    await spring.schedules.create("bad", every(minutes=1), "fail", kwargs={"why": "password=hunter2 is wrong"})
    for _ in range(ticks):
        clock.advance(minutes=1)
        await spring.drain()


async def test_executions_of_a_schedule_are_runs_and_ticks_have_their_own_route(
    spring: Mainspring, client: Client, clock: VirtualClock
) -> None:
    await ran(spring, clock)
    async with client() as http:
        runs = (await http.get("/schedules/mail/executions")).json()
        ticks = (await http.get("/schedules/mail/ticks")).json()
        first = (await http.get("/schedules/mail/executions?limit=2")).json()
        rest = (await http.get(f"/schedules/mail/executions?limit=2&before={first[-1]['n']}")).json()
        end = (await http.get(f"/schedules/mail/executions?before={rest[-1]['n']}")).json()
        failed = (await http.get("/schedules/bad/executions?limit=1")).json()
        missing = await http.get("/schedules/none/executions")
    assert [run["outcome"] for run in runs] == ["completed"] * 3
    assert [run["n"] for run in runs] == [tick["n"] for tick in ticks] == [3, 2, 1]
    assert [run["job_id"] for run in runs] == [tick["job_id"] for tick in ticks]
    assert {"id", "seconds", "started_at", "worker", "attempt", "at"} <= set(runs[0])
    assert (first + rest, end) == (runs, [])
    assert failed[0]["failure"]["message"] == "password=*** is wrong"
    assert missing.status_code == 404


async def test_long_errors_of_a_schedules_runs_are_masked_outside_of_the_event_loop(
    spring: Mainspring, client: Client, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await spring.schedules.create("long", every(minutes=1), "fail", kwargs={"why": "password=hunter2 " + "x " * 9_000})
    clock.advance(minutes=1)
    for _ in range(12):
        clock.advance(minutes=1)
        await spring.drain()
    computed = list[Computation]()
    plain = Computation.run

    async def run(self: Computation, calculate: Any) -> Any:
        computed.append(self)
        return await plain(self, calculate)

    monkeypatch.setattr(Computation, "run", run)
    async with client() as http:
        runs = (await http.get("/schedules/long/executions")).json()
    assert len(runs) >= 12
    assert all(run["failure"]["message"].startswith("password=***") for run in runs)
    assert len(computed) == 1


async def test_an_older_client_reads_executions_as_fired_ticks(
    spring: Mainspring, client: Client, clock: VirtualClock
) -> None:
    await ran(spring, clock)
    async with client() as http:
        body = (await http.get("/schedules/mail/executions")).content
    ticks = msgspec.json.decode(body, type=list[Tick])
    assert [(tick.n, tick.what) for tick in ticks] == [(3, "fired"), (2, "fired"), (1, "fired")]


async def test_statistics_of_a_schedule_have_times_a_series_and_errors(
    spring: Mainspring, client: Client, clock: VirtualClock
) -> None:
    await ran(spring, clock)
    async with client() as http:
        mail = (await http.get("/schedules/mail/stats?window=1h")).json()
        bad = (await http.get("/schedules/bad/stats")).json()
        refused = [(await http.get(f"/schedules/mail/stats?window={text}")).status_code for text in ("x", "400d", "0")]
    assert (mail["fired"], mail["completed"], mail["success"]) == (3, 3, 1.0)
    assert (mail["runs"]["runs"], mail["runs"]["success_rate"], mail["window"]) == (3, 1.0, "PT3600S")
    assert all(mail["runs"][name] is not None for name in ("average", "p50", "p95", "p99", "wait_p95"))
    assert mail["late_p95"] is not None
    assert sum(point["completed"] for point in mail["series"]) == 3
    assert (len(mail["series"]), mail["sample"]["complete"]) == (61, True)
    assert [(one["error"], one["count"]) for one in bad["errors"]] == [("ValueError: password=*** is wrong", 3)]
    assert refused == [400, 400, 400]


async def test_the_figures_of_all_schedules_have_a_success_rate_and_job_counts(
    spring: Mainspring, client: Client, clock: VirtualClock
) -> None:
    await ran(spring, clock)
    await spring.schedules.trigger("mail")
    async with client() as http:
        found = (await http.get("/scheduler/metrics")).json()
    assert (found["completed"], found["failed"], found["success_rate"]) == (3, 3, 0.5)
    assert (found["under_way"], found["jobs"]["pending"], found["jobs"]["completed"]) == (1, 1, 3)


# many


async def bulk(http: Any, **body: Any) -> Any:
    return await http.post("/scheduler/bulk", json=body)


async def test_schedule_bulk_actions_are_paged_and_have_one_audit_entry_per_request(
    spring: Mainspring, client: Client
) -> None:
    for n in range(5):
        await spring.schedules.create(
            f"s{n}", every(minutes=5), "send" if n else "fail", kwargs={"to": "a"} if n else {}
        )
    async with client("operator") as http:
        tried = (await bulk(http, action="pause", filter={"task": "send"}, dry_run=True)).json()
        assert (tried["done"], tried["dry_run"]) == (["s1", "s2", "s3", "s4"], True)
        first = (await bulk(http, action="pause", filter={"task": "send"}, note="deploy", limit=3)).json()
        rest = (
            await bulk(http, action="pause", filter={"task": "send"}, note="deploy", limit=3, after=first["next"])
        ).json()
        assert first["done"] + rest["done"] == ["s1", "s2", "s3", "s4"]
        made = (await bulk(http, action="trigger", names=["s1", "none"])).json()
        assert (list(made["jobs"]), list(made["refused"])) == (["s1"], ["none"])
        resumed = (await bulk(http, action="resume", filter={"status": "paused"})).json()
        gone = (await bulk(http, action="delete", all=True)).json()
    assert (resumed["done"], gone["done"]) == (["s1", "s2", "s3", "s4"], [f"s{n}" for n in range(5)])
    acts = [one.action for one in await spring.audit.list(AuditFilter(action="schedules"))]
    assert acts == [f"schedules.{name}" for name in ("delete", "resume", "trigger", "pause", "pause")]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"action": "pause"}, 422),
        ({"action": "pause", "filter": {}}, 422),
        ({"action": "pause", "names": ["a"], "all": True}, 422),
        ({"action": "pause", "names": []}, 422),
        ({"action": "pause", "names": ["a"] * 1001}, 422),
        ({"action": "pause", "filter": {"tsak": "x"}}, 422),
        ({"action": "explode", "all": True}, 422),
        ({"action": "delete", "all": True, "note": "n"}, 422),
        ({"action": "pause", "all": True, "catch_up": True}, 422),
        ({"action": "pause", "all": True, "limit": 1001}, 422),
    ],
)
async def test_an_ambiguous_schedule_bulk_action_is_refused(client: Client, body: dict[str, Any], code: int) -> None:
    async with client("operator") as http:
        assert (await bulk(http, **body)).status_code == code


async def test_a_schedule_bulk_action_needs_the_operator_role_and_the_scope_schedules_write(client: Client) -> None:
    async with client("viewer") as http:
        assert (await bulk(http, action="pause", all=True)).status_code == 403
    async with client("operator", ["scheduler:write"]) as http:
        assert (await bulk(http, action="pause", all=True)).status_code == 403
    async with client("operator", ["schedules:write"]) as http:
        assert (await bulk(http, action="pause", all=True)).status_code == 200


async def test_statistics_of_a_schedule_cost_one_read_of_ticks_and_one_of_runs(
    spring: Mainspring, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ran(spring, clock)
    store, reads = await spring.connect(), list[str]()
    for verb in ("ticks", "executions", "jobs", "schedules"):
        real = getattr(store, verb)

        async def counted(*args: Any, verb: str = verb, real: Any = real, **kwargs: Any) -> Any:
            reads.append(verb)
            return await real(*args, **kwargs)

        monkeypatch.setattr(store, verb, counted)
    await spring.schedules.stats("mail", timedelta(hours=1))
    assert sorted(reads) == ["executions", "schedules", "ticks"]
