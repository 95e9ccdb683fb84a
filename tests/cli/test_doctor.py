"""mainspring doctor: findings and remedies."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring import Breaker, Mainspring, Retention
from mainspring.cli.doctor import examine
from mainspring.records.finding import Finding
from mainspring.stores import open_store
from mainspring.stores.memory.store import MemoryStore
from mainspring.testing import VirtualClock
from mainspring.testing.contract.build import a_worker
from mainspring.testing.faults import Faults, FaultStore

MINUTE = timedelta(minutes=1)


@pytest.fixture
def app(here: Path, clock: VirtualClock) -> Mainspring:
    app = Mainspring("sqlite:///jobs.db", clock=clock)

    @app.task(queue="mail")
    async def add(a: int) -> int:
        return a + 1

    @app.task(max_retries=0, breaker=Breaker(failures=2, cooldown=60))
    async def fail() -> None:
        raise ValueError("no")

    @app.task(retention=Retention(keep=0, age=timedelta(days=1)))
    async def soon_forgotten() -> None: ...

    return app


async def alive(app: Mainspring, name: str = "ada", **about: Any) -> None:
    """Stores a worker that has just sent a beat and knows every task of the app."""
    now, store = app.clock.now(), await app.connect()
    given = {"tasks": tuple(app.tasks), "lease": 20.0, **about}
    await store.beat(a_worker(name, **given), until=now + timedelta(seconds=20), now=now)


async def look(app: Mainspring) -> dict[str, Finding]:
    found = await examine(app)
    assert len({finding.about for finding in found}) == len(found)
    assert [finding for finding in found if finding.verdict != "ok" and not finding.remedy] == []
    return {finding.about: finding for finding in found}


async def test_doctor_has_a_finding_for_every_check_of_a_healthy_store(app):
    async with app:
        await alive(app)
        found = await look(app)
    assert {about for about, finding in found.items() if finding.verdict != "ok"} <= {"SQLite", "disk"}
    assert list(found) == [
        "store", "SQLite", "journal mode", "synchronous", "file", "log", "disk", "records", "documents", "schema",
        "clock", "workers", "slots", "leases", "backlog", "tasks", "queues", "schedules", "breakers", "dead",
        "retention", "limits",
    ]  # fmt: skip
    assert found["workers"].text == "1 alive with 10 slots"
    assert found["schema"].text.endswith(", the newest")


async def test_workers_without_wake_ups_are_a_warning(app):
    async with app:
        await alive(app)
        await alive(app, "bob", deaf=True)
        found = (await look(app))["workers"]
    text = "2 alive with 20 slots; without notifications, so that they poll: bob"
    assert (found.verdict, found.text) == ("warn", text)


async def test_no_worker_while_jobs_are_due_is_bad(app):
    async with app:
        await app.enqueue_many(app.tasks["add"].job(n) for n in range(3))
        found = await look(app)
        assert (found["workers"].verdict, found["workers"].text) == ("bad", "none is alive, and 3 jobs are due")
        assert "mainspring worker" in found["workers"].remedy
        await alive(app)
        assert (await look(app))["workers"].verdict == "ok"


async def test_no_worker_while_jobs_will_be_due_is_a_warning(app):
    async with app:
        await app.tasks["add"].using(delay=60).enqueue(1)
        found = await look(app)
        assert (found["workers"].verdict, found["workers"].text) == ("warn", "none is alive, and 1 job will be due")


async def test_jobs_that_wait_long_are_a_backlog(app, clock):
    async with app:
        await app.enqueue_many(app.tasks["add"].job(n) for n in range(2))
        clock.advance(minutes=4)
        assert (await look(app))["backlog"] == Finding("backlog", "ok", "2 jobs are due, the oldest for 4m")
        clock.advance(minutes=2)
        backlog = (await look(app))["backlog"]
        assert (backlog.verdict, backlog.text) == ("warn", "2 jobs are due, the oldest for 6m")


async def test_scheduled_jobs_do_not_count_as_backlog(app, clock):
    async with app:
        await app.enqueue_many(app.tasks["add"].using(delay=3600).job(n) for n in range(300))
        await app.tasks["add"].enqueue(1)
        clock.advance(minutes=1)
        assert (await look(app))["backlog"].text == "1 job is due, the oldest for 1m"


async def test_a_due_retry_counts_as_backlog(app, clock):
    @app.task(max_retries=3)
    async def flaky() -> None:
        raise ValueError("again")

    async with app:
        await flaky.enqueue()
        await app.worker().drain()
        clock.advance(minutes=10)
        assert (await look(app))["backlog"].text == "1 job is due, the oldest for 9m"


async def test_running_jobs_of_a_silent_worker_are_a_finding(app, clock):
    async with app:
        store = await app.connect()
        await app.tasks["add"].enqueue(1)
        await alive(app)
        await store.claim(None, worker="ada", tasks=["add"], limit=1, now=clock.now())
        clock.advance(seconds=5)
        assert (await look(app))["leases"].text.startswith("1 job running, the longest for 5s (add ")
        clock.advance(seconds=15)
        lost = (await look(app))["leases"]
        assert (lost.verdict, lost.text) == ("bad", "1 running job of silent workers: ada")
        assert "mainspring worker" in lost.remedy
        await alive(app, "bob")
        assert (await look(app))["leases"].verdict == "warn"


async def test_due_jobs_whose_task_no_live_worker_knows_are_bad(app):
    async with app:
        await app.tasks["add"].enqueue(1)
        await alive(app, tasks=("fail",))
        found = (await look(app))["tasks"]
        assert (found.verdict, found.text) == ("bad", "no live worker knows add (1 job is due)")
        await alive(app, "bob")
        assert (await look(app))["tasks"].verdict == "ok"


async def test_a_queue_that_no_live_worker_serves_is_bad(app):
    async with app:
        await app.tasks["add"].enqueue(1)
        await alive(app, queues=("default",))
        found = (await look(app))["tasks"]
        assert (found.verdict, found.text) == ("bad", "no live worker serves queue mail for add (1 job is due)")
        assert "--queues mail" in found.remedy


async def test_drained_workers_are_a_warning(app):
    async with app:
        await app.tasks["add"].enqueue(1)
        await alive(app)
        await app.workers.drain(None)
        found = (await look(app))["tasks"]
        assert (found.verdict, found.text) == ("warn", "every worker for add is drained (1 job is due)")


async def test_stopping_workers_count_as_drained(app):
    async with app:
        await app.tasks["add"].enqueue(1)
        await alive(app, grace=30.0)
        await app.workers.stop(None)
        found = (await look(app))["tasks"]
        assert (found.verdict, found.text) == ("warn", "every worker for add is drained (1 job is due)")
        assert found.remedy.endswith("; or start another")


async def test_a_paused_queue_is_a_warning_if_jobs_wait_in_it(app):
    async with app:
        await app.queues.pause("mail")
        assert (await look(app))["queues"].text == "paused: mail (0 jobs waiting)"
        await app.tasks["add"].enqueue(1)
        found = await look(app)
        assert found["queues"].verdict == "warn"
        assert found["queues"].remedy == "mainspring queues resume mail"
        assert found["backlog"].text == "nothing is due"


async def test_dead_jobs_and_open_breakers_are_warnings(app):
    async with app:
        await app.enqueue_many(app.tasks["fail"].job() for _ in range(2))
        await app.drain()
        found = await look(app)
        assert (found["dead"].verdict, found["dead"].text) == ("warn", "2 jobs")
        assert "mainspring dead redrive" in found["dead"].remedy
        assert (found["breakers"].verdict, found["breakers"].text) == ("warn", "open: fail (2 failures in a row)")


@pytest.mark.parametrize(("leaked", "verdict"), [(0, "ok"), (3, "warn"), (10, "bad")])
async def test_leaked_slots_are_a_finding(app, leaked, verdict):
    async with app:
        await alive(app, leaked=leaked)
        found = (await look(app))["slots"]
        assert found.verdict == verdict
        assert found.text == (f"ada: {leaked} of 10 leaked" if leaked else "none leaked")


async def test_jobs_kept_beyond_their_retention_are_a_warning(app, clock):
    async with app:
        await app.tasks["soon_forgotten"].enqueue()
        await app.tasks["add"].enqueue(1)
        await app.drain()
        clock.advance(hours=24)
        found = (await look(app))["retention"]
        assert found == Finding("retention", "ok", "2 finished jobs, the oldest from 1d ago")
        clock.advance(hours=2)
        found = (await look(app))["retention"]
        assert (found.verdict, found.text) == ("warn", "kept for longer than they should be: completed soon_forgotten")
        pruning = asyncio.create_task(app.prune())
        await clock.elapse(seconds=1)
        assert await pruning == 1
        assert (await look(app))["retention"].verdict == "ok"


async def test_retention_is_not_checked_without_an_app(app, clock):
    async with app:
        await app.tasks["soon_forgotten"].enqueue()
        await app.drain()
    clock.advance(days=3)
    async with Mainspring("sqlite:///jobs.db", clock=clock) as bare:
        found = (await look(bare))["retention"]
    assert (found.verdict, found.text) == (
        "ok", "1 finished job, the oldest from 3d ago; --app checks them against its rules",
    )  # fmt: skip


@pytest.mark.parametrize(("ahead", "side"), [(2 * MINUTE, "behind"), (-2 * MINUTE, "ahead of")])
async def test_clock_difference_to_the_store_is_a_warning(ahead, side):
    class Elsewhere(MemoryStore):
        async def time(self) -> datetime:
            return (await super().time()) + ahead

    async with Mainspring(Elsewhere()) as app:
        found = (await look(app))["clock"]
    assert found.verdict == "warn"
    assert f"2m {side} the store" in found.text or f"1m {side} the store" in found.text


async def test_a_store_error_during_the_checks_is_one_bad_finding(app):
    faults = Faults()
    troubled = Mainspring(FaultStore(open_store("sqlite:///jobs.db"), faults))  # type: ignore[arg-type]
    faults.fail("overview")
    async with troubled:
        (finding,) = await examine(troubled)
        assert (finding.about, finding.verdict) == ("store", "bad")
        assert "injected into overview" in finding.text
        assert len(await examine(troubled)) > 10


async def test_doctor_masks_the_password_in_the_store_url(monkeypatch):
    monkeypatch.setenv("MAINSPRING_STORE", "postgresql://me:s3cret@host/db")
    async with Mainspring(MemoryStore()) as app:
        found = await look(app)
    assert found["store"].text.startswith("postgresql://me:***@host/db answers in ")
    assert "s3cret" not in str(found)


def test_doctor_prints_findings_with_verdict_and_remedy(cli, shop, enqueued):
    enqueued("add", "a=1")
    done = cli("doctor", "--app", shop)
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[0].startswith("✓ ok    store         sqlite:///jobs.db answers in ")
    (at,) = [n for n, line in enumerate(lines) if line.startswith("✗ bad   workers ")]
    assert lines[at].split("workers")[1].strip() == "none is alive, and 1 job is due"
    assert lines[at + 1].strip() == "→ mainspring worker MODULE:ATTR"
    assert lines[-1].startswith("1 bad")


def test_warnings_keep_the_exit_code_0(cli, shop, enqueued, work):
    enqueued("fail", "why=no")
    work()
    done = cli("doctor", "--app", shop)
    assert done.exit_code == 0
    assert "! warn  dead" in done.stdout
    assert "bad" not in done.stdout.splitlines()[-1]


def test_doctor_json_has_the_verdict_and_the_findings(cli, shop, enqueued):
    enqueued("add", "a=1")
    done = cli("doctor", "--app", shop, "--json")
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    assert (document["store"], document["verdict"]) == ("sqlite:///jobs.db", "bad")
    (workers,) = [one for one in document["findings"] if one["about"] == "workers"]
    assert workers == {
        "about": "workers", "verdict": "bad", "text": "none is alive, and 1 job is due",
        "remedy": "mainspring worker MODULE:ATTR",
    }  # fmt: skip


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_store_that_cannot_be_opened_is_a_finding(cli, more):
    done = cli("doctor", "--store", "sqlite:///nowhere/jobs.db", *more)
    assert done.exit_code == 1
    assert done.stderr == ""
    assert "there is no directory" in " ".join(done.stdout.split())


def test_finding_of_an_unreachable_store_has_its_url_once(cli):
    (found,) = json.loads(cli("doctor", "--store", "redis://:secret@127.0.0.1:1/0", "--json").stdout)["findings"]
    assert found["text"].startswith("the store does not answer: cannot reach redis://:***@127.0.0.1:1/0: ")
    assert found["text"].count("127.0.0.1:1/0") == 1


def test_a_schema_newer_than_this_release_is_a_finding(cli, store, here):
    import sqlite3

    assert cli("doctor", "--store", store).exit_code == 0
    with sqlite3.connect(here / "jobs.db") as db:
        db.execute("UPDATE mainspring_schema SET version = 99, oldest = 99")
    db.close()
    done = cli("doctor", "--store", store, "--json")
    assert done.exit_code == 1
    assert "schema 99" in json.loads(done.stdout)["findings"][0]["text"]


def test_doctor_counts_a_live_worker(cli, shop, process):
    worker = process("worker", shop)
    worker.line("worker ")
    found = json.loads(cli("doctor", "--app", shop, "--json").stdout)["findings"]
    (workers,) = [one for one in found if one["about"] == "workers"]
    assert workers["text"] == "1 alive with 100 slots"


async def test_finding_about_many_workers_names_some_and_counts_the_others(app):
    async with app:
        for n in range(5):
            await alive(app, f"worker-{n}", leaked=1)
        text = (await look(app))["slots"].text
    assert text.startswith("worker-0: 1 of 10 leaked, ")
    assert text.endswith(" and 2 more")


async def test_retention_finding_of_an_unknown_task_suggests_the_prune_command(app, clock):
    former = Mainspring(app.settings.store, clock=clock)

    @former.task
    async def gone() -> None: ...

    async with app, former:
        for _ in range(101):
            await gone.enqueue()
        await former.drain()
        clock.advance(days=40)
        found = (await look(app))["retention"]
    assert found.verdict == "warn"
    assert "completed gone" in found.text
    assert "mainspring prune --task gone" in found.remedy
