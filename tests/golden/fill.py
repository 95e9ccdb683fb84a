"""Fills an empty store with everything that a store can hold, the same on every store and every time."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import date, datetime, timedelta
from typing import Any

import httpx
from msgspec.structs import replace

from golden.shop import BREAKER, NOW, QUEUES, later
from mainspring import Backoff, Filter, Job, Mainspring, Window, act_as, at, cron, every
from mainspring.errors import JobTimeout
from mainspring.feed.event import FeedEvent, LeaderChange, Summary, encode
from mainspring.ids import new_id
from mainspring.insight.queue_depth import sample_once
from mainspring.records.audit import AuditEntry
from mainspring.records.document import Document
from mainspring.records.job import NewJob
from mainspring.records.outcome import Cancel, Crashed, Discard, Done, Policy, ProcessDied, Released, Snooze, decide
from mainspring.records.run import Failure, Items, LogLine, Progress, RunNotes, RunReport, Usage
from mainspring.records.skew import UndecodablePayload
from mainspring.records.worker import WorkerInfo
from mainspring.schedule.record import Firing, Schedule, Spec, Tick
from mainspring.store import Store
from mainspring.testing import VirtualClock
from mainspring.trigger import Calendar, Every
from mainspring.webhook.inbound import Call
from mainspring.webhook.record import STANDINGS, Standing
from mainspring.webhook.signature import signature_headers

BEGIN = later(-7200)
ORIGIN = "http://127.0.0.1:8765"
HOOK_SECRET, NEXT_HOOK_SECRET, TRIGGER_SECRET = (
    "whsec_" + b64encode(f"golden store, secret {n} of {name}".encode()).decode()
    for n, name in enumerate(("a webhook", "a webhook", "a trigger"), 1)
)
POSTED_ID = "01af4b6f-9000-7000-8000-00000000abcd"
CURVE = Backoff(initial=2.0, multiplier=3.0, max=60.0, jitter=0.1, curve="linear")
FAILURE = Failure("PaymentError", "card 4711 declined by 'bank'", "Traceback (most recent call last):\n  shop.py\n")
NO_RETRY = Policy(max_retries=0)
# Spoils a stored record. Arguments: "schedule", "job:QUEUE" or "index:QUEUE"; the name, id or task.
Spoil = Callable[[str, str], Awaitable[None]]


def message(id: str, body: bytes, now: datetime, secret: str = TRIGGER_SECRET) -> Call:
    """A signed call of a trigger."""
    signed = signature_headers([secret], id, now, body)
    return Call(id=id, timestamp=signed["webhook-timestamp"], signature=signed["webhook-signature"], body=body)


class Filler:
    def __init__(self, app: Mainspring, clock: VirtualClock, store: Store, spoil: Spoil) -> None:
        self.app, self.clock, self.store, self.spoil = app, clock, store, spoil
        self._beats = Counter[str]()
        self.values: dict[str, str] = {}
        """What the tests need and cannot read from the store: secrets, and the id of a job."""

    async def fill(self) -> dict[str, str]:
        with act_as("ada"):
            await self.access()
            await self.hooks()
            await self.schedules()
            await self.past_runs()
            await self.jobs()
            await self.runs()
            await self.circuits()
            await self.moved_jobs()
            await self.queues()
            await self.crafted_schedule()
        await self.feed()
        await self.workers()
        await self.unreadable()
        await self.minute_under_way()
        return self.values

    # access

    async def access(self) -> None:
        """A token of the first start, keys, a session, the answer to a repeated request, the secret of ETags."""
        service = self.app.asgi()
        transport = httpx.ASGITransport(service, client=("127.0.0.1", 4711))
        async with httpx.AsyncClient(transport=transport, base_url=f"{ORIGIN}/api/v1") as http:
            assert (await http.get("/session")).status_code == 401
            keys = self.app.keys
            self.values["admin"] = await keys.create("ada", "admin")
            self.values["bot"] = await keys.create("bot", "operator", ["jobs:write", "queues:read"], "90d")
            await keys.create("gone", "viewer")
            await keys.revoke("gone")
            signed_in = await http.post("/session", json={"key": self.values["admin"]})
            assert signed_in.status_code == 200, signed_in.text
            ((self.values["cookie"], self.values["session"]),) = http.cookies.items()
            http.cookies.clear()
            bearer = {"Authorization": f"Bearer {self.values['bot']}"}
            posted = await http.post(
                "/jobs",
                headers={**bearer, "Idempotency-Key": "golden"},
                json={"task": "send", "arguments": {"to": "posted"}, "id": POSTED_ID},
            )
            assert posted.status_code == 201, posted.text
            admin = {"Authorization": f"Bearer {self.values['admin']}"}
            assert (await http.get(f"/jobs/{POSTED_ID}", headers=admin)).status_code == 200

    # webhooks and triggers

    async def hooks(self) -> None:
        app, store, now = self.app, self.store, self.clock.now()
        await app.webhooks.create(
            "ops", "http://127.0.0.1:9/in?token=golden", ["job.completed", "job.dead", "schedule.missed"],
            secret=HOOK_SECRET, queues=["orders", "runs"], tasks=["ship", "send"], tags=["vip"],
            include=["arguments", "metadata", "result"], note="the pager",
        )  # fmt: skip
        await app.webhooks.rotate("ops", overlap="90d", secret=NEXT_HOOK_SECRET)
        await app.webhooks.create("old", "http://127.0.0.1:9/old", ["worker.stopped"], secret=HOOK_SECRET)
        await app.webhooks.update("old", disabled=True)
        await STANDINGS.add(store, Standing(name="ops", delivered_at=later(-9000)), now)
        error = "webhook 'ops': it answered 500"
        await STANDINGS.change(store, "ops", now, lambda old: replace(old, failures=3, failed_at=now, error=error))
        await app.triggers.create(
            "payments", secret=TRIGGER_SECRET, task="ship", queue="orders", priority=4, kwargs={"note": "paid"},
            arguments={"order": "body.data.id"}, note="from the bank",
        )  # fmt: skip
        await app.triggers.create("anything", secret=TRIGGER_SECRET, task="send", arguments="body")
        await app.triggers.update("anything", disabled=True)
        await app.triggers.rotate("anything", secret=TRIGGER_SECRET)
        await app.triggers.create("run-nightly", secret=TRIGGER_SECRET, schedule="nightly")
        handle = await app.triggers.receive("payments", message("evt-1", b'{"data":{"id":77}}', now))
        self.values["payment"] = handle.id

    # schedules

    async def schedules(self) -> None:
        app, ship = self.app, self.app.tasks["ship"]
        create = app.schedules.create
        await create("interval", every(minutes=15), "ship", kwargs={"order": 1}, overlap="queue", run_on_start=True)
        fortnight = Calendar(
            weeks=2, weekdays=(0, 4), times=("09:00", "17:30"), tz="Europe/Berlin", anchor=date(2029, 12, 31)
        )
        await create("fortnight", fortnight, "report", kwargs={"kind": "fortnightly"}, exclude=[date(2030, 1, 4)])
        await create("daily", Calendar(days=2, times=("06:00",)), "report")
        await create("once", at("2030-02-01T09:00", tz="Europe/Berlin"), "send", kwargs={"to": "ada"})
        await create(
            "policies", cron("H/20 * 1-31 * mon-fri", day_match="and"), "report", queue="reports", priority=3,
            timeout=30, max_retries=1, expires=600, tags=["eu"], metadata={"team": "ops"}, catch_up="all",
            catch_up_window="2h", grace=120, jitter=30,
            window=Window("08:00", "18:00", days="mon-fri", tz="UTC", outside="move"),
            start_at=later(-7200), end_at=later(30 * 86_400), max_runs=500, pause_after_failures=3,
        )  # fmt: skip
        await create("adaptive", every(minutes=5), "report", adapt="1h")
        await create("spread", Every(seconds=3600, anchor=None, tz="Asia/Tokyo"), "report", spread=True)
        await create("anchored", Every(seconds=1800, anchor=later(-600)), "report")
        await create("chained", every(minutes=20), "ship", kwargs={"order": 2}, after="finish")
        await create("patient", every(hours=6), ship.using(backoff=CURVE), kwargs={"order": 3})
        await create("dependent", every(minutes=30), "report", depends_on=["once", "interval"])
        await create("parallel", every(minutes=10), "send", kwargs={"to": "all"}, overlap="allow")
        await create("skipping", every(minutes=10), "send", kwargs={"to": "few"}, overlap="skip", catch_up="skip")
        await create("cancelling", every(minutes=30), "send", kwargs={"to": "new"}, overlap="cancel")
        await create("paused", every(hours=1), "report")
        await app.schedules.pause("paused", "until the audit is over")
        await create("edited", every(hours=1), "report")
        await app.schedules.update("edited", trigger=every(hours=2), kwargs={"kind": "edited"})
        await create("deleted", every(hours=1), "report")
        await app.schedules.delete("deleted")
        await create("spoiled", every(minutes=10), "send", kwargs={"to": "nobody"})

    async def past_runs(self) -> None:
        """Two hours of ticks and of runs, an outage in between, and a dead letter that waits."""
        await self.app.tasks["doom"].using(tags=["vip"], metadata={"n": 1}).enqueue("bad input")
        for at_seconds in (-6600, -6000, -3000, -1200):
            self.clock.set(later(at_seconds))
            await self.app.drain(queues=QUEUES)
        await self.app.schedules.reschedule("patient", later(7200))
        await self.app.schedules.trigger("interval", kwargs={"order": 4})
        await self.app.schedules.backfill("anchored", later(-3 * 86_400), later(-3 * 86_400 + 3600))
        self.clock.set(NOW)

    async def crafted_schedule(self) -> None:
        """Every field that a schedule can have, also those that take a hundred runs to come about."""
        spec = Spec(
            trigger=Every(seconds=600), task="report", payload='{"kind":"crafted"}', queue="reports", adapt=3600.0,
            fingerprint="0123456789",
        )  # fmt: skip
        row = Schedule(
            name="crafted", spec=spec, owner="code", created_at=later(-9000), updated_at=NOW, declared="0" * 16,
            anchor_at=later(-9000), next_run_at=later(600), held_at=later(-60), waits_on="once",
            active=("01af4b6f-9000-7000-8000-00000000dead",), unlisted=2, paused_at=NOW, note="crafted",
            reached_at=later(-60), last_run_at=later(-600), last_fired_at=later(-590),
            last_job_id="01af4b6f-9000-7000-8000-00000000dead", last_finished_at=later(-500),
            succeeded_at=later(-500), answered={"once": later(-700)}, fired=9, skipped=8, missed=7, completed=6,
            failed=5, failures=4, ticks=2, stretch=3, digest="ab" * 8, moved_at=later(-9000),
        )  # fmt: skip
        ticks = (
            Tick(n=1, at=later(-1200), seen_at=later(-600), what="missed", reason="late", count=3, last_at=later(-700)),
            Tick(n=2, at=later(-600), seen_at=later(-590), what="fired", job_id=row.last_job_id),
        )
        (fired,) = await self.store.fire([Firing(schedule=row, ticks=ticks)], now=NOW)
        assert fired.stands

    # jobs

    async def jobs(self) -> None:
        """Jobs that have not run, with every option."""
        app, tasks = self.app, self.app.tasks
        ship, send = tasks["ship"], tasks["send"]
        await ship.using(
            priority=5, tags=["vip", "eu"], metadata={"source": "web", "n": 1}, unique_key="order-1", expires="1h",
            timeout=30, max_retries=7, backoff=CURVE,
        ).enqueue(1)  # fmt: skip
        await send.using(delay="2h", idempotency_key="late", timeout=None).enqueue("late")
        debounced = send.using(unique_key="digest", on_conflict="debounce", debounce_limit=600, delay=60)
        await debounced.enqueue("first")
        await debounced.enqueue("second")
        await app.enqueue_by_hand([send.job("by hand")])
        held = await send.enqueue("held back")
        await app.jobs.pause(held.id)
        cancelled = await send.using(unique_key="cancelled", tags=["eu"]).enqueue("cancelled")
        await app.jobs.cancel(cancelled.id, "no longer wanted")
        await send.using(expires=1).enqueue("expired")
        self.clock.set(later(2))
        deleted = await send.enqueue("deleted")
        await app.jobs.delete(deleted.id)
        # Its id tells another time than that of its creation.
        odd = NewJob(id=new_id(later(-40 * 86_400)), task="send", queue="mail", payload='{"to":"odd"}')
        await self.store.enqueue([odd], now=self.clock.now())

    async def start(self, task: str, *arguments: Any, queue: str = "runs", **options: Any) -> Job:
        job = self.app.tasks[task].using(queue=queue, **options).job(*arguments)
        await self.app.enqueue_many([job])
        return await self.again(job.id, task, queue)

    async def again(self, id: str, task: str, queue: str = "runs", worker: str = "host-1") -> Job:
        now = self.clock.now()
        # Only of a worker that is gone: a live one would keep a later release from stepping the schema.
        await self.beat(worker, schema=self.store.capabilities.newest_schema if worker == "doomed" else 0)
        claim = await self.store.claim([queue], worker=worker, tasks=[task], limit=1, now=now)
        assert [job.id for job in claim.jobs] == [id], claim
        return claim.jobs[0]

    async def end(self, job: Job, ended: Any, policy: Policy = NO_RETRY, **fields: Any) -> None:
        """The run ends three seconds later."""
        self.clock.advance(3)
        outcome = decide(job, ended, now=self.clock.now(), policy=policy, account=fields.pop("account", None))
        assert await self.store.finish([replace(outcome, **fields)]) == {job.id}

    async def runs(self) -> None:
        """Runs with every ending, and runs that have not ended."""
        start, end, boom = self.start, self.end, RuntimeError("boom")
        account = RunNotes(items=Items(5, 1, 2), usage=Usage(1.5, 70_000_000), metadata={"source": "list"})
        done = await start("ship", 10, tags=["vip"], idempotency_key="done")
        await self.store.report([self.report(done, 1)])
        await end(done, Done('{"shipped":10}'))
        await self.spoil("index:runs", "sync")
        await end(await start("sync", 2), Done("2").partly(Items(5, 1, 2)), account=account)
        await end(await start("ship", 11), Done(None, Failure("ResultLost", "the result could not be kept: …")))
        await end(
            await start("send", "retry", queue="retried"), boom, Policy(max_retries=3), failure=FAILURE, account=account
        )
        for order in (12, 13):
            dead = await start("ship", order, tags=["vip"], unique_key=f"dead-{order}", metadata={"n": order})
            await end(dead, boom, failure=FAILURE)
        await end(await start("send", "late"), JobTimeout("it took longer than 30 seconds"))
        await end(await start("send", "discard"), Discard("not worth it"))
        await end(await start("send", "cancel"), Cancel("found out by itself"))
        await end(await start("send", "snooze"), Snooze(3600, "not yet"))
        released = await start("send", "released", queue="released")
        await end(released, Released())
        skewed = UndecodablePayload(
            Failure("BadPayload", "the payload does not fit"), "ffffffffff", "(to: int)", skew=3600.0
        )
        await end(await start("send", "skewed"), skewed)
        await end(await start("send", "process", queue="suspects"), ProcessDied("killed by SIGKILL", 3), Policy())
        await self.crashes()
        running = await start("ship", 20, tags=["vip"], queue="running")
        await self.store.report([self.report(running, 1), self.report(running, 2)])
        stopping = await start("send", "stopping", queue="running", unique_key="stopping")
        await self.app.jobs.cancel(stopping.id, "stop it")
        await self.app.dead.redrive(Filter(tasks=("send",), errors=("Discard: not worth it",)))

    def report(self, job: Job, n: int) -> RunReport:
        at_, text = self.clock.now(), f"line {n}: naïve 'x'"
        line = LogLine(run=job.runs, n=n, at=at_, level=20 + 10 * (n % 2), text=text)
        progress = Progress(run=job.runs, at=at_, done=n, total=4.0, note="rows")
        return RunReport(id=job.id, lease=job.lease or "", lines=(line,), progress=progress)

    async def crashes(self) -> None:
        """A suspect, which has crashed twice and waits; and a poison pill."""
        for times, to in ((3, "poison"), (2, "suspect")):
            job = self.app.tasks["send"].using(queue="suspects", priority=times).job(to)
            await self.app.enqueue_many([job])
            for _ in range(times):
                run = await self.again(job.id, "send", "suspects", worker="doomed")
                self.clock.advance(60)
                await self.end(run, Crashed("doomed", 3))

    async def circuits(self) -> None:
        """One that is open, and one that is half open while its probe runs."""
        policy = Policy(max_retries=0, breaker=BREAKER)
        for task in ("fragile", "frail"):
            for _ in range(BREAKER.failures):
                await self.end(await self.start(task, queue=task), RuntimeError("down"), policy)
            if task == "fragile":
                self.clock.advance(BREAKER.cooldown + 1)
        await self.start("fragile", queue="fragile")

    async def moved_jobs(self) -> None:
        """A job that was changed after it was enqueued, and is in another queue now."""
        moved = await self.app.tasks["send"].enqueue("moved")
        await self.app.jobs.update(
            moved.id, queue="elsewhere", priority=-2, tags=["moved"], metadata={"by": "ada"}, arguments={"to": "there"}
        )
        dead = await self.app.jobs.list(Filter(states=("dead",), tasks=("ship",)), limit=1)
        await self.app.jobs.run_again(dead[0].id)

    # what surrounds the jobs

    async def queues(self) -> None:
        await self.app.queues.pause("mail", "the provider is down")
        await self.app.queues.pause("sync", "first pause")
        self.clock.advance(5)
        await self.app.queues.resume("sync")

    def info(self, worker: str, **fields: Any) -> WorkerInfo:
        given: dict[str, Any] = {
            "id": worker, "host": "host", "pid": 101, "queues": None, "tasks": tuple(sorted(self.app.tasks)),
            "concurrency": 10, "started_at": later(-3600), "lease": 20.0, "grace": 30.0, "beats": self.beats(worker),
        }  # fmt: skip
        return WorkerInfo(**{**given, **fields})

    def beats(self, worker: str) -> int:
        self._beats[worker] += 1
        return self._beats[worker]

    async def beat(self, worker: str, span: float = 30, **fields: Any) -> None:
        now = self.clock.now()
        await self.store.beat(self.info(worker, **fields), until=now + timedelta(seconds=span), now=now)

    async def workers(self) -> None:
        """Workers that live for an hour, with orders; terms of leaders, one of which has ended."""
        tasks = tuple(sorted(self.app.tasks))
        marks = tuple(self.app.tasks[name].arguments.fingerprint for name in tasks)
        await self.beat(
            "host-1", 3600, queues=("mail", "sync"), running=3, limits={"sync": 2}, queue_limits={"mail": 5},
            finished=7, leaked=1, memory=50_000_000, deaf=True, fingerprints=marks,
        )  # fmt: skip
        await self.beat("host-2", 3600, drained=True)
        await self.beat("host-3", 3600, stopping=True)
        await self.app.workers.resize("host-1", 4)
        await self.app.workers.drain("host-2")
        await self.app.workers.stop("host-3")
        now = self.clock.now()
        hour = now + timedelta(hours=1)
        await self.store.acquire_term("reindex", "host-1", until=hour, now=now)
        await self.store.acquire_term("mainspring.fire", "host-2", until=hour, now=now)
        await self.store.acquire_term("ended", "host-3", until=hour, now=now)
        await self.store.acquire_term("ended", "host-3", until=now, now=now)

    async def feed(self) -> None:
        """The live feed and its reader, a sample of how deep queues are, an entry whose process died."""
        store, now = self.store, self.clock.now()
        await store.news(after=0, limit=0, until=now + timedelta(hours=1))
        job = Summary(
            id=POSTED_ID, task="send", queue="mail", state="retrying", attempt=1, run_at=now, worker="host-1",
            schedule="once",
        )  # fmt: skip
        whole = FeedEvent(
            type="job.retrying", at=now, job=job, status="new", ending="failed", outcome="partial", duration=1.5,
            error=FAILURE, progress=Progress(1, now, 1, 2, "rows"), line=LogLine(1, 1, now, 20, "line"), left_out=2,
            action="cancel", ids=(POSTED_ID,), schedule="once", schedules=("once",), queue="mail", worker="host-1",
            tick=Tick(n=1, at=now, seen_at=now, what="fired"), workers=("host-1",), running=1, grace=30.0,
            leader=LeaderChange("reindex", "host-1", 1, True), count=3, reason="because",
        )  # fmt: skip
        await store.publish([encode(whole), encode(FeedEvent(type="queue.paused", at=now, queue="mail"))], now=now)
        await sample_once(store, now)
        dead = AuditEntry(
            id=new_id(now), at=now, who="eve", action="jobs.cancel", target=POSTED_ID, asked='{"reason":""}'
        )
        await store.record([dead])

    async def unreadable(self) -> None:
        """Records that no release can decode: set aside, and not met yet."""
        store, now = self.store, self.clock.now()
        aside = self.app.tasks["send"].using(queue="broken").job("set aside")
        unmet = self.app.tasks["send"].job("not met yet")
        await self.app.enqueue_many([aside, unmet])
        for job in (aside, unmet):
            await self.spoil(f"job:{job.queue}", job.id)
        claim = await store.claim(["broken"], worker="host-1", tasks=["send"], limit=1, now=now)
        assert [one.name for one in claim.unreadable] == [aside.id], claim
        await self.spoil("schedule", "spoiled")
        due = await store.due(now=now + timedelta(days=1), limit=100)
        assert [one.name for one in due.unreadable] == ["spoiled"], due
        kinds = ("key", "webhook", "webhook.standing", "trigger", "session", "queue_pauses", "answer", "depth")
        await store.put_documents([Document(kind=kind, name="broken", text='{"broken":1}') for kind in kinds], now=now)

    async def minute_under_way(self) -> None:
        """A run that is counted, and not summed up yet."""
        await self.store.beat(self.info("host-4"), until=self.clock.now() + timedelta(hours=1), now=self.clock.now())
        job = self.app.tasks["ship"].using(queue="last").job(30)
        await self.app.enqueue_many([job])
        claim = await self.store.claim(["last"], worker="host-4", tasks=["ship"], limit=1, now=self.clock.now())
        await self.end(claim.jobs[0], Done('{"shipped":30}'))


async def fill(app: Mainspring, clock: VirtualClock, spoil: Spoil) -> dict[str, str]:
    """Fills the store of an app whose clock is at BEGIN; returns the values that the tests need."""
    async with app:
        values = await Filler(app, clock, await app.connect(), spoil).fill()
    return {**values, "now": clock.now().isoformat()}
