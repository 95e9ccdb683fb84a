"""Batches in Redis: bounded round trips, progress against a permanent rival, all or nothing."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, cast

import pytest

from books import audit
from clusters import RedisCluster
from mainspring.errors import StoreUnavailable
from mainspring.ids import JobId
from mainspring.records.job import Action, Job, NewJob, State
from mainspring.records.outcome import Done, Outcome, decide
from mainspring.records.query import Filter, Update
from mainspring.records.run import Progress, RunReport
from mainspring.schedule.record import Firing
from mainspring.stores import open_store
from mainspring.stores.redis import attempts, enqueue, plain, transact, two_phase
from mainspring.stores.redis import count as counting
from mainspring.stores.redis.claim import MAX_EXPIRED
from mainspring.stores.redis.store import RedisStore
from mainspring.testing.contract.build import (
    NOW,
    Contract,
    a_schedule,
    act,
    beat,
    claim,
    fire,
    later,
    launch,
    new_job,
    next_revision,
    put,
    read_job,
    read_schedule,
    tick_job,
)
from mainspring.testing.contract.checkpoint import a_checkpoint, checkpoints, keep
from servers import Redis

Act = Callable[[RedisStore], Awaitable[object]]
SMALL_BATCH, LARGE_BATCH = 10, 500
# Seconds in which a call ends on a busy machine, far from the ten after which it would give up.
SOON = 8.0


class OnServers(Contract):
    """On one server, and in a cluster."""

    @pytest.fixture(autouse=True, params=["server", "cluster"])
    def _server(self, request: pytest.FixtureRequest) -> None:
        name = "redis" if request.param == "server" else "redis_cluster"
        server: Redis | RedisCluster = request.getfixturevalue(name)
        self.url = server.fresh()

    def make_store(self) -> RedisStore:
        return cast(RedisStore, open_store(self.url))

    async def wipe(self, store: RedisStore) -> None:
        for shard in store._open().all:
            if keys := await shard.call("KEYS", f"{shard.base}*"):
                await shard.multi([("DEL", key) for key in keys])


# Operations on a store: each prepares `count` records, and returns the call.


def named(n: int) -> str:
    return f"every {n:05}"


async def ready_to_fire(store: RedisStore, count: int) -> Act:
    new = [a_schedule(named(n)) for n in range(count)]
    await store.fire([Firing(schedule=one) for one in new], now=NOW)
    firings = []
    for one in new:
        job = tick_job(one, queue="queue")
        firings.append(Firing(schedule=next_revision(one, active=(job.id,), fired=1), jobs=(job,)))

    async def call(store: RedisStore) -> None:
        assert all(fired.stands for fired in await store.fire(firings, now=NOW))

    return call


async def running(store: RedisStore, count: int, queue: str = "queue") -> list[Job]:
    """Jobs of as many schedules."""
    await (await ready_to_fire(store, count))(store)
    await beat(store)
    return (await claim(store, limit=count, queues=[queue])).jobs


def outcomes_of(jobs: Sequence[Job]) -> list[Outcome]:
    return [decide(job, Done(), now=later(1)) for job in jobs]


async def ready_to_finish(store: RedisStore, count: int) -> Act:
    outcomes = outcomes_of(await running(store, count))
    assert len(outcomes) == count

    async def call(store: RedisStore) -> None:
        assert await store.finish(outcomes) == {outcome.id for outcome in outcomes}

    return call


async def ready_to_finish_mixed(store: RedisStore, count: int) -> Act:
    """Half of them plain, and half that hold a key."""
    await put(store, *(new_job(unique_key=f"key {n}" if n % 2 else None) for n in range(count)))
    await beat(store)
    outcomes = outcomes_of((await claim(store, limit=count)).jobs)

    async def call(store: RedisStore) -> None:
        assert await store.finish(outcomes) == {outcome.id for outcome in outcomes}

    return call


async def ready_to_retry(store: RedisStore, count: int) -> Act:
    ids = await put(store, *(new_job(unique_key=f"key {n}") for n in range(count)))
    await store.change(Action.CANCEL, Filter(ids=tuple(ids)), now=NOW, limit=count)

    async def call(store: RedisStore) -> None:
        changed = await store.change(Action.RETRY, Filter(ids=tuple(ids)), now=NOW, limit=count)
        assert len(changed.done) == count

    return call


async def ready_to_look(store: RedisStore, count: int) -> Act:
    await store.fire([Firing(schedule=a_schedule(named(n))) for n in range(count)], now=NOW)

    async def call(store: RedisStore) -> None:
        due = await store.due(now=NOW, limit=LARGE_BATCH)
        assert len(due.schedules) == count

    return call


async def ready_to_enqueue(store: RedisStore, count: int) -> Act:
    jobs = [new_job(unique_key=f"key {n}", idempotency_key=f"ever {n}") for n in range(count)]

    async def call(store: RedisStore) -> None:
        assert len(await put(store, *jobs)) == count

    return call


class Counter:
    """Round trips of a store from now on."""

    def __init__(self, store: RedisStore) -> None:
        self.trips = 0
        for shard in store._open().all:
            for name in ("call", "multi", "script"):
                setattr(shard, name, self._counted(getattr(shard, name)))

    def _counted(self, ask: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        def counted(*args: Any) -> Awaitable[Any]:
            self.trips += 1
            return ask(*args)

        return counted


class TestRoundTrips(OnServers):
    @pytest.mark.parametrize(
        ("ready", "bound"),
        [
            (ready_to_fire, 3),
            (ready_to_finish, 3),
            (ready_to_finish_mixed, 6),
            (ready_to_retry, 5),
            (ready_to_look, 1),
            (ready_to_enqueue, 3),
        ],
    )
    async def test_a_batch_of_500_takes_as_many_round_trips_as_one_of_10(
        self, ready: Callable[..., Awaitable[Act]], bound: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """How much of a batch one script may take is another matter: those go one after the other on one way."""
        monkeypatch.setattr(two_phase, "MAX_SCRIPT_ARGS", 10**9)
        monkeypatch.setattr(plain, "MAX_PLAIN", 10**9)
        trips = []
        for count in (SMALL_BATCH, LARGE_BATCH):
            async with self.opened() as store:
                for shard in store._open().all:
                    if keys := await shard.call("KEYS", f"{shard.base}*"):
                        await shard.multi([("DEL", key) for key in keys])
                call = await ready(store, count)
                counter = Counter(store)
                await call(store)
                trips.append(counter.trips)
                await audit(store._open())
        shards = len(store.url.bases)
        # In a cluster each stage asks every shard, and keys are in all of them once there are enough.
        assert trips[1] <= bound * shards + (0 if shards == 1 else 4 * shards)
        assert trips[0] == trips[1] or shards > 1


# A rival that is always faster: before every commit of a call it changes what the call has read.


class Rival:
    """Acts before each script that writes what a store has decided; one that has to wait for a lock comes too late."""

    def __init__(
        self,
        store: RedisStore,
        act: Callable[[], Awaitable[object]],
        scripts: Sequence[str] = ("write", "commit", "prepare", "finish"),
    ) -> None:
        self._act, self._scripts, self.commits, self.won = act, scripts, 0, 0
        for shard in store._open().all:
            shard.script = self._bound(shard.script)  # type: ignore[method-assign]

    def _bound(self, script: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def bound(name: str, words: Sequence[Any]) -> Any:
            if name in self._scripts:
                self.commits += 1
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._act(), 0.1)
                    self.won += 1
            return await script(name, words)

        return bound


class TestRival(OnServers):
    """A call against a rival that never rests ends, and the others of its batch are written."""

    async def rivalled(
        self,
        store: RedisStore,
        call: Callable[[], Awaitable[object]],
        act: Callable[[RedisStore], Awaitable[object]],
    ) -> None:
        async with self.opened() as other:
            rival = Rival(store, lambda: act(other))
            async with asyncio.timeout(SOON):
                await call()
            assert rival.won >= transact.MAX_RACES
            assert rival.commits <= (transact.MAX_RACES + 4) * 4 * len(store.url.bases)
            await asyncio.sleep(0)
            await audit(other._open())

    async def test_finish_ends_while_another_writer_keeps_changing_a_schedule(self) -> None:
        async with self.opened() as store:
            jobs = await running(store, 20)

            async def edit(other: RedisStore) -> None:
                now = await read_schedule(other, named(3))
                await fire(other, next_revision(now, note="edited"))

            outcomes = outcomes_of(jobs)
            await self.rivalled(store, lambda: store.finish(outcomes), edit)
            for n in range(20):
                found = await read_schedule(store, named(n))
                assert (found.completed, found.active) == (1, ())

    async def test_change_ends_while_another_writer_keeps_changing_a_job(self) -> None:
        async with self.opened() as store:
            ids = await put(store, *(new_job(tags=("tag",)) for _ in range(20)))

            async def edit(other: RedisStore) -> None:
                job = await read_job(other, ids[3])
                await act(other, Action.UPDATE, ids[3], update=Update(priority=job.priority + 1))

            await self.rivalled(store, lambda: act(store, Action.CANCEL, *ids), edit)
            assert {(await read_job(store, id)).state for id in ids} == {State.CANCELLED}

    async def test_fire_ends_while_another_writer_keeps_changing_a_job_it_cancels(self) -> None:
        async with self.opened() as store:
            jobs = {job.schedule: job for job in await running(store, 20)}
            rows = [await read_schedule(store, named(n)) for n in range(20)]
            firings = [Firing(schedule=next_revision(one, note="next"), cancel=one.active) for one in rows]
            mine, at = jobs[named(3)], 0

            async def report(other: RedisStore) -> None:
                nonlocal at
                at += 1
                progress = Progress(run=1, at=later(at), done=at)
                told = RunReport(id=mine.id, lease=mine.lease or "", lines=(), progress=progress)
                assert await other.report([told])

            await self.rivalled(store, lambda: store.fire(firings, now=NOW), report)
            assert all([(await read_schedule(store, one.name)).note == "next" for one in rows])
            assert (await read_job(store, mine.id)).cancel_reason is not None

    async def test_fire_is_refused_once_another_writer_has_changed_its_schedule(self) -> None:
        async with self.opened() as store, self.opened() as other:
            await launch(store)
            seen = await read_schedule(store)

            async def edit() -> None:
                await fire(other, next_revision(await read_schedule(other), note="edited"))

            Rival(store, edit)
            async with asyncio.timeout(SOON):
                assert not (await fire(store, next_revision(seen, note="mine"))).stands
            assert (await read_schedule(store)).note == "edited"

    async def test_enqueue_ends_while_another_writer_keeps_changing_the_holder_of_its_key(self) -> None:
        async with self.opened() as store:
            (held,) = await put(store, new_job(unique_key="key", run_at=later(100)))

            def asked(n: int) -> NewJob:
                return new_job(unique_key="key", on_conflict="debounce", run_at=later(100 + n))

            times = 0

            async def debounce(other: RedisStore) -> None:
                nonlocal times
                times += 1
                await put(other, asked(times))

            await self.rivalled(store, lambda: put(store, asked(1000), new_job(unique_key="another")), debounce)
            assert (await read_job(store, held)).run_at == later(1100)


class TestBounds(OnServers):
    """Every loop has an end, and an owner that dies holds up the others for seconds."""

    async def test_a_call_gives_up_against_a_rival_that_ignores_locks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The rival ignores every lock, as no release does."""
        monkeypatch.setattr(attempts, "GIVE_UP_SECONDS", 0.3)
        async with self.opened() as store, self.opened() as other:
            jobs = await running(store, 20)
            shard, times = other._open().first, 0

            async def scribble() -> None:
                nonlocal times
                times += 1
                text = await shard.call("HGET", f"{shard.base}:schedule", named(3))
                await shard.call("HSET", f"{shard.base}:schedule", named(3), text.rstrip() + b" " * (times % 7 + 1))

            Rival(store, scribble)
            with pytest.raises(StoreUnavailable, match=r"is contended: finish lost \d+ races to other writers"):
                async with asyncio.timeout(SOON):
                    await store.finish(outcomes_of(jobs))
            finished = [n for n in range(20) if (await read_schedule(other, named(n))).completed]
            assert finished == [n for n in range(20) if n != 3]
            await audit(other._open())

    @pytest.mark.parametrize("met", ["finish", "report", "claim", "change", "beat"])
    async def test_the_lock_of_a_dead_owner_is_ended_by_the_next_writer(
        self, met: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with self.opened() as store:
            await beat(store)
            (job_id,) = await put(store, new_job(tags=("tag",)))
            if met in ("finish", "report"):
                (job,) = (await claim(store)).jobs
            (found,) = [
                shard for shard in store._open().all if await shard.call("HEXISTS", f"{shard.base}:job", _short(job_id))
            ]
            unit = [1, f"{found.base}:job", _short(job_id), "-", ""]
            assert await found.script("lock", [f"{found.base} dead", *unit]) == 1
            monkeypatch.setattr(two_phase, "UNDECIDED_TIMEOUT_SECONDS", -1)
            match met:
                case "finish":
                    assert await store.finish(outcomes_of([job])) == {job_id}
                case "report":
                    assert await keep(store, job, a_checkpoint(1))
                    assert await checkpoints(store, job_id) == [a_checkpoint(1)]
                case "claim":
                    assert [job.id for job in (await claim(store)).jobs] == [job_id]
                case "change":
                    assert (await act(store, Action.CANCEL, job_id)).done == [job_id]
                case _:
                    await beat(store)
            await audit(store._open())

    async def test_an_enqueue_ends_the_lock_of_a_dead_owner_on_its_key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async with self.opened() as store:
            shard = store._open().of_key("ukey")
            unit = [1, f"{shard.base}:key", "ukey", "-", ""]
            assert await shard.script("lock", [f"{shard.base} dead", *unit]) == 1
            monkeypatch.setattr(two_phase, "UNDECIDED_TIMEOUT_SECONDS", -1)
            await put(store, new_job(unique_key="key"))
            assert await shard.call("HLEN", f"{shard.base}:lock") == 0
            await audit(store._open())


class Cutter:
    """A proxy that passes on a number of bytes of requests or of replies, and then cuts the connection."""

    def __init__(self, port: int) -> None:
        self._port, self._writers = port, list[asyncio.StreamWriter]()
        self.left: dict[str, int | None] = {"asked": None, "answered": None}

    async def __aenter__(self) -> "Cutter":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, onward = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += (writer, onward)
        await asyncio.gather(self._pass(reader, onward, "asked"), self._pass(there, writer, "answered"))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 14):
                left = self.left[way]
                if left is not None:
                    data, self.left[way] = data[:left], max(0, left - len(data))
                writer.write(data)
                await writer.drain()
                if left is not None and not self.left[way]:
                    self.left = dict.fromkeys(self.left)
                    for one in self._writers:
                        one.transport.close()
                    self._writers.clear()


class TestAllOrNone(Contract):
    """An enqueue of very many jobs that is cut off has stored all of them or none; repeated, it stores each once."""

    @pytest.fixture(autouse=True)
    def _server(self, redis: Redis) -> None:
        self.server, self.url = redis, redis.fresh()

    def make_store(self) -> RedisStore:
        return cast(RedisStore, open_store(self.url))

    async def stored(self) -> int:
        async with self.opened() as other:
            await beat(other)  # which ends abandoned transactions
            await audit(other._open())
            return int(await other._open().first.call("HLEN", "{fresh}:job"))

    @pytest.mark.parametrize("most", [20_000, 2_000], ids=["transaction", "two_phase"])
    @pytest.mark.parametrize(("way", "left"), [("asked", 1), ("asked", 200_000), ("answered", 1)])
    async def test_an_enqueue_of_2500_that_is_cut_off_stores_all_or_none(
        self, way: str, left: int, most: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(enqueue, "MAX_TRANSACTION", most)
        monkeypatch.setattr(two_phase, "UNDECIDED_TIMEOUT_SECONDS", -1)
        jobs = [new_job() for _ in range(2_500)]
        async with Cutter(self.server.port) as cutter:
            store = cast(RedisStore, open_store(self.url.replace(f":{self.server.port}", f":{cutter.port}")))
            await store.open()
            await store.time()
            cutter.left[way] = left
            with pytest.raises(StoreUnavailable):
                await store.enqueue(jobs, now=NOW)
            assert await self.stored() in (0, 2_500)
            assert len(await store.enqueue(jobs, now=NOW)) == 2_500
            assert await self.stored() == 2_500
            await store.close()

    @pytest.mark.parametrize("fields", [{}, {"tags": ("tag",)}], ids=["plain", "tagged"])
    async def test_an_enqueue_whose_owner_dies_at_any_script_stores_all_or_none(
        self, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(enqueue, "MAX_TRANSACTION", 2)
        monkeypatch.setattr(two_phase, "MAX_UNIT_ARGS", 1)
        monkeypatch.setattr(two_phase, "MAX_SCRIPT_ARGS", 16)
        monkeypatch.setattr(two_phase, "UNDECIDED_TIMEOUT_SECONDS", -1)
        jobs, left, found = [new_job(**fields) for _ in range(5)], 0, list[int]()
        while not found or found[-1] < 5 or left < 10:
            self.url = self.server.fresh()
            async with self.opened() as store:
                die_at(store, left)
                with suppress(Died):
                    await store.enqueue(jobs, now=NOW)
            found.append(await self.stored())
            async with self.opened() as store:
                await store.enqueue(jobs, now=NOW)
            assert await self.stored() == 5
            left += 1
        assert set(found) == {0, 5}

    async def test_a_dropped_piece_prevents_the_whole_write(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(enqueue, "MAX_TRANSACTION", 2)
        monkeypatch.setattr(two_phase, "MAX_UNIT_ARGS", 1)
        monkeypatch.setattr(two_phase, "MAX_SCRIPT_ARGS", 16)
        jobs, given_up = [new_job() for _ in range(5)], list[str]()
        async with self.opened() as store, self.opened() as other:
            shard = store._open().first
            script = shard.script

            async def late(name: str, words: Sequence[Any]) -> Any:
                if name == "resolve" and words[0] == "begin all" and not given_up:
                    given_up.append(words[-2])
                    await two_phase.resolve(other._open(), other._open().first, words[-2], timeout=-1)
                    answer = await script(name, words)
                    assert await shard.call("HLEN", "{fresh}:job") == 0
                    return answer
                return await script(name, words)

            shard.script = late  # type: ignore[method-assign]
            await store.enqueue(jobs, now=NOW)
            assert len(given_up) == 1
        assert await self.stored() == 5

    async def test_an_enqueue_of_30000_is_stored_whole(self) -> None:
        jobs = [new_job() for _ in range(30_000)]
        async with self.opened() as store:
            assert len(await store.enqueue(jobs, now=NOW)) == 30_000
            assert await store._open().first.call("HLEN", "{fresh}:job") == 30_000
            assert len(await store.enqueue(jobs, now=NOW)) == 30_000
            assert await store._open().first.call("ZCARD", "{fresh}:ready:default\0task") == 30_000


class TestFloods(Contract):
    """On one server."""

    @pytest.fixture(autouse=True)
    def _server(self, redis: Redis) -> None:
        self.url = redis.fresh()

    def make_store(self) -> RedisStore:
        return cast(RedisStore, open_store(self.url))

    async def test_a_claim_ends_a_bounded_number_of_expired_jobs(self) -> None:
        async with self.opened() as store:
            await put(store, *(new_job(expires_at=later(-1)) for _ in range(3 * MAX_EXPIRED)), now=later(-9))
            await beat(store)
            found = await claim(store)
            assert (found.jobs, len(found.expired) <= MAX_EXPIRED + 1, found.next_at) == ([], True, NOW)

    async def test_very_many_expired_jobs_are_counted_by_a_sample(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(counting, "MAX_LATE_JOBS", 300)
        monkeypatch.setattr(counting, "LATE_SAMPLE_JOBS", 50)
        monkeypatch.setattr(counting, "read_shard", read := Counted(counting.read_shard))
        async with self.opened() as store:
            jobs = [new_job(queue=f"q{n % 4}", expires_at=later(-1)) for n in range(1000)]
            await put(store, *jobs, *(new_job(queue="q0") for _ in range(7)), now=later(-9))
            found = (await store.overview(now=NOW)).states
            queues = {queue.name: queue for queue in (await store.overview(now=NOW)).queues}
        assert 900 <= found["expired"] <= 1100
        assert abs(found.get("pending", 0) - 7) <= 100
        assert queues["q0"].pending <= 60
        assert read.ids <= 2 * 100


class Counted:
    """Wraps a function of a shard and ids, and counts the ids."""

    def __init__(self, read: Callable[..., Awaitable[Any]]) -> None:
        self._read = read
        self.ids = 0

    async def __call__(self, shard: Any, ids: Sequence[JobId]) -> Any:
        self.ids += len(ids)
        return await self._read(shard, ids)


class Died(BaseException):
    """The process is dead: not even its error handling runs."""


def die_at(store: RedisStore, left: int) -> None:
    """After this number of scripts nothing reaches the server any more."""

    def bound(script: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def counted(*args: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Died
            return await script(*args)

        return counted

    for shard in store._open().all:
        shard.script = bound(shard.script)  # type: ignore[method-assign]


def _short(id: JobId) -> bytes:
    return bytes.fromhex(id.replace("-", ""))
