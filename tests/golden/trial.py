"""The trial of a golden store: it is decoded, run, edited and read by the code as it is now."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from golden import form
from golden.decoded import decoded
from golden.fill import HOOK_SECRET, NEXT_HOOK_SECRET, ORIGIN, POSTED_ID, message
from golden.shop import BREAKER, shop
from mainspring import Filter, Mainspring, act_as, every
from mainspring.api.openapi import openapi_document
from mainspring.api.service import litestar_app
from mainspring.cli import main
from mainspring.testing import VirtualClock
from mainspring.webhook.signature import is_signed
from receiver import receiving

HERE = Path(__file__).parent
RELEASES = sorted(path.parent for path in HERE.glob(f"*/{form.EXPECTED}"))
# Longer than the leases of all workers of a golden store.
LONG = timedelta(hours=2)


def differences(expected: Any, found: Any, path: str = "") -> Iterator[str]:
    """Where something that was expected is not there; a newer release may tell more of a record."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for name, value in expected.items():
            if name not in found:
                yield f"{path}.{name} is gone"
            else:
                yield from differences(value, found[name], f"{path}.{name}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for n, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from differences(one, other, f"{path}[{n}]")
    elif expected != found:
        yield f"{path} is {found!r:.200}, and was {expected!r:.200}"


@pytest.mark.parametrize("folder", RELEASES, ids=lambda folder: folder.name)
class GoldenStores:
    """A class for each store says how a golden store of it is loaded."""

    async def load(self, folder: Path) -> str:
        """Loads the dump into an empty place; returns its URL."""
        raise NotImplementedError

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncIterator[tuple[Mainspring, VirtualClock, dict[str, str]]]:
        values: dict[str, str] = json.loads((folder / form.VALUES).read_text(encoding="utf-8"))
        clock = VirtualClock(datetime.fromisoformat(values["now"]))
        app = shop(await self.load(folder), clock)
        async with app:
            yield app, clock, values

    # decoded

    async def test_records_are_decoded_as_they_were_written(self, folder: Path) -> None:
        expected = json.loads((folder / form.EXPECTED).read_text(encoding="utf-8"))
        async with self.opened(folder) as (app, clock, _):
            found = json.loads(await decoded(app, clock.now()))
        assert list(differences(expected, found)) == []

    async def test_declared_schedules_and_tasks_are_known_again(self, folder: Path) -> None:
        """The code says the same as then, so nothing is taken for changed."""
        async with self.opened(folder) as (app, clock, _):
            before = {row.name: row for row in await app.schedules.list(owner="code")}
            worker = (await app.workers.get("host-1")).info
            assert worker.fingerprints == tuple(app.tasks[name].arguments.fingerprint for name in worker.tasks)
            clock.advance(1)
            await app.drain(queues=["nothing"])
            after = {row.name: row for row in await app.schedules.list(owner="code")}
            for name in ("nightly", "computed"):
                assert (after[name].declared, after[name].updated_at) == (
                    before[name].declared,
                    before[name].updated_at,
                )

    # run

    async def test_due_jobs_run_and_schedules_tick(self, folder: Path) -> None:
        async with self.opened(folder) as (app, clock, values), receiving() as receiver:
            before = {row.name: row for row in await app.schedules.list()}
            await app.webhooks.update("ops", url=receiver.url)
            clock.advance(1200)
            assert await app.drain() > 5
            orders = await app.jobs.list(Filter(queues=("orders",), tasks=("ship",)), limit=1000)
            assert {job.shown(clock.now()) for job in orders} == {"completed"}
            assert (await app.jobs.get(values["payment"])).result == '{"shipped":77}'
            (letter,) = await app.jobs.list(Filter(tasks=("bury",)), limit=9)
            assert letter.result == '"bad input"'
            after = {row.name: row for row in await app.schedules.list()}
            for name in ("interval", "computed", "adaptive", "anchored"):
                assert after[name].fired > before[name].fired, name
            await self._ticks_are_fired_once(app)
            assert {m.headers["webhook-id"] for m in receiver.messages}
            for one in receiver.messages:
                signed = [one.headers[f"webhook-{name}"] for name in ("id", "timestamp", "signature")]
                assert is_signed([HOOK_SECRET], *signed, one.body)
                assert is_signed([NEXT_HOOK_SECRET], *signed, one.body)
            assert (await app.webhooks.standing("ops")).failures == 0

    async def _ticks_are_fired_once(self, app: Mainspring) -> None:
        for row in await app.schedules.list():
            ticks = await app.schedules.ticks(row.name, limit=1000)
            assert [tick.n for tick in ticks] == list(range(row.ticks, row.ticks - len(ticks), -1)), row.name
            own = [tick.at for tick in ticks if tick.what == "fired" and not tick.reason]
            assert len(own) == len(set(own)), row.name

    async def test_runs_of_workers_that_are_gone_are_run_again(self, folder: Path) -> None:
        async with self.opened(folder) as (app, clock, _):
            running = await app.jobs.list(Filter(states=("running",)), limit=1000)
            assert len(running) == 3
            store = await app.connect()
            await store.pause_queue("webhooks", True)
            clock.advance(LONG)
            assert {job.id for job in await store.orphaned(now=clock.now(), limit=100)} == {job.id for job in running}
            await app.queues.resume("mail")
            await app.drain()
            clock.advance(BREAKER.cooldown + 1)  # the probe of a circuit was among them
            await app.drain()
            ends = {(await app.jobs.get(job.id)).state.value for job in running}
            assert ends == {"completed", "cancelled"}
            assert await app.workers.list() == []
            suspects = await app.jobs.list(Filter(queues=("suspects",)), limit=1000)
            assert sorted(job.state.value for job in suspects) == ["completed", "completed", "dead"]
            assert [circuit.task for circuit in (await store.overview(now=app.clock.now())).circuits] == ["frail"]

    # edit

    async def test_jobs_are_edited(self, folder: Path) -> None:
        async with self.opened(folder) as (app, clock, _):
            jobs, (ship, send) = app.jobs, (app.tasks["ship"], app.tasks["send"])
            dead = await jobs.list(Filter(states=("dead",)), limit=1000)
            redriven = await app.dead.redrive(Filter())
            assert sorted([*redriven.done, *redriven.refused]) == sorted(job.id for job in dead)
            assert [why.key for why in redriven.refused.values()] == ["dead-13"]  # it was run again, as another job
            posted = POSTED_ID
            assert (await jobs.pause(posted)).done == [posted]
            assert (await jobs.resume(posted)).done == [posted]
            await jobs.update(posted, queue="elsewhere", arguments={"to": "edited"})
            assert ((await jobs.get(posted)).queue, (await jobs.get(posted)).payload) == (
                "elsewhere",
                '{"to":"edited"}',
            )
            (retried,) = await jobs.list(Filter(queues=("retried",)), limit=9)
            runs = await app.executions.list(job_id=retried.id)
            await jobs.update(retried.id, queue="elsewhere")
            assert await app.executions.list(job_id=retried.id) == runs != []
            assert (await jobs.cancel(posted, "edited")).done == [posted]
            assert (await jobs.delete(posted)).done == [posted]
            assert (await ship.using(unique_key="order-1").enqueue(9)).status == "duplicate"
            assert (await ship.using(idempotency_key="done").enqueue(9)).status == "duplicate"
            debounced = send.using(unique_key="digest", on_conflict="debounce", debounce_limit=600, delay=60)
            assert (await debounced.enqueue("third")).status in ("debounced", "duplicate")
            broken = [job for job in await jobs.list(Filter(), limit=1000) if job.unreadable]
            assert len(broken) == 2
            assert (await jobs.delete(Filter(ids=tuple(job.id for job in broken)))).refused == {}
            (held,) = await jobs.list(Filter(states=("paused",)), limit=9)
            assert (await jobs.retry(Filter(states=("cancelled", "expired")))).done
            assert (await jobs.resume(held.id)).done == [held.id]
            clock.advance(timedelta(days=60))
            assert await app.prune() > 0

    async def test_schedules_are_edited(self, folder: Path) -> None:
        async with self.opened(folder) as (app, clock, _):
            schedules, names = app.schedules, [row.name for row in await app.schedules.list()]
            assert len(names) > 15
            for name in names:
                await schedules.update(name, tags=["edited"])
                await schedules.pause(name, "edited")
                row = await schedules.resume(name)
                assert (row.status, row.spec.tags, row.note) == ("active", ("edited",), "")
                await schedules.reschedule(name, clock.now() + timedelta(hours=3))
                await schedules.trigger(name)
                assert (await schedules.ticks(name, limit=1))[0].reason == "by_hand"
            assert (await schedules.backfill("anchored", clock.now() - timedelta(hours=2))).made
            await schedules.create("spoiled", every(hours=1), "send", kwargs={"to": "again"})
            for name in (*names, "spoiled"):
                await schedules.delete(name)
            assert await (await app.connect()).schedules(limit=9) == []

    async def test_hooks_are_edited(self, folder: Path) -> None:
        async with self.opened(folder) as (app, clock, values):
            await app.jobs.delete(values["payment"])  # the message is known beyond its job
            again = await app.triggers.receive("payments", message("evt-1", b'{"data":{"id":77}}', clock.now()))
            assert (again.id, again.duplicate) == (values["payment"], True)
            new = await app.triggers.receive("payments", message("evt-2", b'{"data":{"id":78}}', clock.now()))
            assert (await app.jobs.get(new.id)).payload == '{"order":78,"note":"paid"}'
            for hooks, name in ((app.triggers, "anything"), (app.webhooks, "old")):
                assert (await hooks.update(name, disabled=False)).disabled_at is None
                assert (await hooks.rotate(name)).secret.startswith("whsec_")
                await hooks.delete(name)
                await hooks.delete("broken")
            assert len(await app.webhooks.deliveries("ops")) > 1
            assert (await app.webhooks.test("ops")).status == "new"

    async def test_queues_workers_and_leaders_are_edited(self, folder: Path) -> None:
        async with self.opened(folder) as (app, clock, _):
            await app.queues.resume("mail")
            (pause,) = await app.queues.pauses("mail")
            assert (pause.who, pause.note, pause.until) == ("ada", "the provider is down", clock.now())
            assert await app.workers.resume("host-2") == ["host-2"]
            assert (await app.workers.get("host-2")).state == "resuming"
            assert (await app.workers.get("host-3")).state == "stopping"
            store, now = await app.connect(), clock.now()
            assert (await store.acquire_term("reindex", "eve", until=now + LONG, now=now)).holder == "host-1"
            clock.advance(LONG)
            later = clock.now()
            assert (await store.acquire_term("reindex", "eve", until=later + LONG, now=later)).term == 2
            assert (await store.acquire_term("ended", "eve", until=later + LONG, now=later)).term == 2

    async def test_keys_and_sessions_open_the_api(self, folder: Path) -> None:
        async with self.opened(folder) as (app, _, values), client(app) as http:
            cookie = {"Cookie": f"{values['cookie']}={values['session']}"}
            assert (await http.get("/session", headers=cookie)).json()["name"] == "key:ada"
            bot = {"Authorization": f"Bearer {values['bot']}"}
            assert (await http.get("/session", headers=bot)).json()["scopes"] == ["jobs:write", "queues:read"]
            body = {"task": "send", "arguments": {"to": "posted"}, "id": POSTED_ID}
            repeated = await http.post("/jobs", headers={**bot, "Idempotency-Key": "golden"}, json=body)
            assert (repeated.status_code, repeated.headers["idempotent-replayed"]) == (201, "true")
            assert (await http.post("/session", json={"key": values["admin"]})).status_code == 200
            with act_as("ada"):
                await app.keys.revoke("bot")
                await app.keys.revoke("broken")
            assert (await http.get("/session", headers=bot)).status_code == 401

    # read

    async def test_every_get_route_answers(self, folder: Path) -> None:
        async with self.opened(folder) as (app, clock, values), client(app) as http:
            jobs = await app.jobs.list(Filter(), limit=1000)
            shown = {job.shown(clock.now()) if not job.unreadable else "unreadable": job.id for job in jobs}
            names = {
                "jobs": [*shown.values(), POSTED_ID],
                "executions": [f"{run.job_id}.{run.number}" for run in await app.executions.list(job_id=_ran(jobs))],
                "schedules": ["computed", "crafted", "fortnight", "interval", "once", "policies"],
                "queues": ["mail"], "workers": ["host-1"], "webhooks": ["ops"], "triggers": ["payments"],
                "keys": ["ada"], "tasks": ["ship"],
                "flows": [], "shapes": [], "batches": [],  # newer than this store: tests/golden/flows.py
            }  # fmt: skip
            headers = {"Authorization": f"Bearer {values['admin']}"}
            routes = list(get_routes(names))
            assert len(routes) > 80
            answers = {path: await http.get(f"{ORIGIN}{path}", headers=headers) for path in routes}
            assert {path: one.text for path, one in answers.items() if one.status_code != 200} == {}

    def test_every_reading_command_answers(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        values: dict[str, str] = json.loads((folder / form.VALUES).read_text(encoding="utf-8"))
        app = shop(asyncio.run(self.load(folder)), VirtualClock(datetime.fromisoformat(values["now"])))
        monkeypatch.setitem(sys.modules, "golden_app", SimpleNamespace(app=app))  # type: ignore[misc]
        run = CliRunner()
        for command in READING:
            words = command.format(job=POSTED_ID, run=values["payment"]).split()
            result = run.invoke(main, [*words, "--app", "golden_app:app"])
            assert result.exit_code == (1 if words[0] == "doctor" else 0), f"{command}: {result.output}"
            assert result.output.strip(), command


@asynccontextmanager
async def client(app: Mainspring) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app.asgi(), client=("127.0.0.1", 4711))
    async with httpx.AsyncClient(transport=transport, base_url=f"{ORIGIN}/api/v1") as http:
        yield http


def _ran(jobs: Any) -> str:
    return next(job.id for job in jobs if job.runs > 1)


# Streams of events do not end.
ENDLESS = ("/events",)


@cache
def get_paths() -> tuple[str, ...]:
    paths = openapi_document(litestar_app())["paths"]
    return tuple(path for path, methods in paths.items() if "get" in methods and not path.endswith(ENDLESS))


def get_routes(names: dict[str, list[str]]) -> Iterator[str]:
    """Every path of the API that is read, with each of these names in its place."""
    for path in get_paths():
        if "{" not in path:
            yield path
            continue
        head, _, rest = path.partition("{")
        for name in names[head.strip("/").rpartition("/")[2]]:
            yield f"{head}{name}{rest.partition('}')[2]}"


READING = (
    "audit", "dead list", "doctor", "jobs list", "jobs show {job}", "jobs logs {run}", "keys list", "migrate status",
    "queues list", "queues history", "schedules list", "schedules show interval", "schedules executions interval",
    "schedules stats interval", "schedules preview fortnight", "schedules spread", "settings", "stats", "tasks",
    "top --once", "triggers list", "triggers show payments", "webhooks list", "webhooks show ops",
    "webhooks deliveries ops", "why {job}", "workers list", "workers show host-1",
)  # fmt: skip
