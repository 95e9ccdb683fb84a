"""Pages of jobs in Redis are right by every access path."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any, cast

import pytest
from msgspec.structs import replace

from books import audit
from mainspring.clock import micros
from mainspring.ids import new_id
from mainspring.records.job import FINAL, POISON_SUSPECT_CRASHES, Job, State
from mainspring.records.query import SORTS, Cursor, Filter, Sort
from mainspring.records.run import Failure
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.redis import lists, orders, scan
from mainspring.stores.redis.access_paths import names_in
from mainspring.stores.redis.diff import _key_commands, job_commands
from mainspring.stores.redis.oldest import beginning
from mainspring.stores.redis.records import packed
from mainspring.stores.redis.shard import Shards
from mainspring.stores.redis.snapshot import Snapshot
from mainspring.stores.redis.store import RedisStore
from mainspring.stores.redis.two_phase import Unit, commit_one
from mainspring.stores.rules import matches_filter
from mainspring.testing.contract.build import NOW, Contract, all_jobs, later, new_job, put
from servers import Redis

STATES = (*FINAL, State.PENDING, State.PENDING, State.PENDING, State.RUNNING, State.PAUSED)
SHOWN = ("pending", "scheduled", "retrying", "running", "paused", "completed", "dead", "cancelled", "expired")
FILTERS: list[dict[str, Any]] = [
    {},
    *({"states": (state,)} for state in SHOWN),
    *({"states": (state,), "queues": ("b",)} for state in SHOWN),
    {"states": ("dead", "scheduled")},
    {"states": ()},
    {"states": ("completed",), "tasks": ("two",)},
    {"tasks": ("two",)},
    {"queues": ("a", "b"), "tasks": ("one", "three")},
    {"tags": ("x",)},
    {"tags": ("x", "y")},
    {"tags": ("x",), "states": ("pending",)},
    {"tags": ("nobody's",)},
    {"schedules": ("hourly", "hourly", "daily")},
    {"schedules": ()},
    {"errors": ("OSError: it broke",)},
    {"workers": ("ada",)},
    {"key_prefix": "k"},
    {"key_prefix": "k1"},
    {"key_prefix": ""},
    {"created_after": later(-300), "created_before": later(-100)},
    {"created_after": later(-300), "states": ("pending", "completed")},
    {"created_before": later(-300), "tags": ("x",)},
    {"created_after": later(-100), "created_before": later(-300)},
]
# As they are; each set read whole; no set read whole; looked at before it is read whole; all in small steps; large sets
# scanned, in small steps.
MODES: dict[str, dict[str, int]] = {
    "usual": {},
    "whole": {"DENSE_RATIO": 0},
    "walk": {"MAX_IDS_READ_WHOLE": -1, "MAX_JOBS_READ_WHOLE": -1},
    "look first": {"DENSE_RATIO": 10**9, "MAX_PROBED_JOBS": 10, "MAX_PAGE_JOBS": 7},
    "small": {"MAX_IDS_READ_WHOLE": -1, "MAX_JOBS_READ_WHOLE": -1, "MAX_PAGE_JOBS": 9, "MIN_ORDER_ROWS": 2},
    "scan": {"MAX_JOBS_READ_WHOLE": -1, "MAX_PROBED_JOBS": 0, "SCANNED_IDS": 3, "SCAN_ROWS": 40, "FIRST_ROWS": 2},
}


def some_jobs(*, odd: bool = True) -> Iterator[Job]:
    """Jobs in every state, made within ten minutes; the ids of some encode another time if `odd`."""
    random = Random(7)
    for n in range(150):
        at = NOW - timedelta(seconds=random.randrange(600))
        id = new_id(NOW - timedelta(seconds=random.randrange(10**6))) if odd and n % 10 == 0 else made_at(at, n)
        state, tried = random.choice(STATES), random.random() < 0.3
        fields: dict[str, Any] = {
            "run_at": later(random.choice([-5, -5, 5, 5, 9])), "priority": random.choice([-3, 0, 0, 7]),
            "tags": tuple(tag for tag in "xyz" if random.random() < 0.4), "queue": random.choice("abc"),
            "task": random.choice(["one", "two", "three"]), "attempt": int(tried),
            "schedule": random.choice([None, "hourly", "daily", "yearly"]),
            "failure": Failure("OSError", "it broke") if tried else None,
            "idempotency_key": random.choice([None, f"k{n}", f"other{n}"]),
        }  # fmt: skip
        if state is State.PENDING:
            fields["crashes"] = POISON_SUSPECT_CRASHES if random.random() < 0.1 else 0
            fields["expires_at"] = random.choice([None, None, later(-1), later(20)])
        elif state is State.RUNNING:
            fields |= {"lease": "lease", "worker": random.choice(["ada", "bob"]), "started_at": NOW}
        elif state.final:
            fields["finished_at"] = later(random.choice([-2, -1, -1, -1]))
        yield Job(id=f"job {n}" if odd and n % 17 == 0 else id, payload="{}", state=state, created_at=at, **fields)


def made_at(at: Any, n: int) -> str:
    """Not by new_id, which never goes back."""
    ms = f"{micros(at) // 1000:012x}"
    return f"{ms[:8]}-{ms[8:]}-7000-8000-{n:012x}"


async def write(shards: Shards, jobs: list[Job], now: datetime = NOW) -> None:
    for job in jobs:
        commands = [*job_commands(shards, Snapshot(), job.id, (None, None, None), None, job, micros(now))]
        assert await commit_one(shards, Unit((), [*commands, *_key_commands(shards, [(None, job)])]))


def expected(jobs: list[Job], which: Filter, sort: Sort, newest: bool) -> list[Job]:
    stands = {"created": lambda _: True, "due": lambda job: job.state is State.PENDING,
              "finished": lambda job: job.state.final}[sort]  # fmt: skip
    return sorted(
        (job for job in jobs if stands(job) and matches_filter(job, which, NOW)),
        key=lambda job: at(job, sort),
        reverse=newest,
    )


def at(job: Job, sort: Sort) -> tuple[Any, str]:
    return {"created": 0, "due": job.run_at, "finished": job.finished_at}[sort], job.id


async def pages(store: Store, which: Filter, sort: Sort, newest: bool, limit: int) -> list[Job]:
    seen, after = list[Job](), cast("Cursor | None", None)
    while page := await store.jobs(which, now=NOW, limit=limit, after=after, newest=newest, sort=sort):
        assert len(page) <= limit
        seen += page
        after = Cursor(page[-1].id, None if sort == "created" else at(page[-1], sort)[0])
    return seen


def set_sizes(monkeypatch: pytest.MonkeyPatch, sizes: dict[str, int]) -> None:
    for name, value in sizes.items():
        for module in (lists, orders, scan):
            if name in vars(module):
                monkeypatch.setattr(module, name, value)


def job_at(seconds: float, n: int, **fields: Any) -> Job:
    """A job made then, with an id that tells it; due at once."""
    at = later(seconds)
    given: dict[str, Any] = {"queue": "a", "task": "task", "priority": 0, "payload": "{}", "run_at": at}
    return Job(id=made_at(at, n), created_at=at, **(given | {"state": State.PENDING} | fields))


def ended_at(seconds: float, n: int, after: float = 1) -> Job:
    return job_at(seconds, n, state=State.COMPLETED, finished_at=later(seconds + after))


class TestLists(Contract):
    @pytest.fixture(autouse=True)
    def _server(self, redis: Redis) -> None:
        self.server, self.url = redis, redis.fresh()

    def make_store(self) -> Store:
        return open_store(self.url)

    @pytest.mark.parametrize("odd", [True, False], ids=["odd ids", "ids by time"])
    @pytest.mark.parametrize("mode", MODES)
    async def test_every_filter_lists_the_matching_jobs_in_pages(
        self, monkeypatch: pytest.MonkeyPatch, mode: str, odd: bool
    ) -> None:
        set_sizes(monkeypatch, MODES[mode])
        async with self.opened() as store:
            jobs = list(some_jobs(odd=odd))
            await write(shards := cast(RedisStore, store)._open(), jobs)
            await audit(shards)
            for asked in FILTERS:
                for sort in SORTS:
                    for newest, limit in ((False, 200), (True, 7)):
                        found = await pages(store, Filter(**asked), sort, newest, limit)
                        assert found == expected(jobs, Filter(**asked), sort, newest), (asked, sort, newest)

    async def test_jobs_of_one_instant_are_listed_by_id(self) -> None:
        async with self.opened() as store:
            jobs = [new_job(run_at=later(60), priority=-n % 7) for n in range(300)]
            await put(store, *jobs)
            for newest in (False, True):
                found = await pages(store, Filter(), "due", newest, 50)
                assert [job.id for job in found] == sorted((job.id for job in jobs), reverse=newest)

    async def test_a_job_enqueued_before_the_clock_was_set_back_is_listed_as_scheduled(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(run_at=later(60)), now=later(60))
            found = await store.jobs(Filter(states=("scheduled",)), now=NOW, limit=10)
            assert [job.id for job in found] == [job_id]

    async def test_a_job_whose_id_has_another_time_is_found_by_created_at(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(), now=later(3600))
            assert self.server.run("ZCARD", "{fresh}:odd") == 1
            found = await store.jobs(Filter(created_after=later(3600)), now=NOW, limit=10)
            assert [job.id for job in found] == [job_id]
            assert [job.id for job in await all_jobs(store)] == [job_id]

    async def test_a_scan_finds_a_job_that_finished_before_it_was_made_by_another_clock(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        set_sizes(monkeypatch, MODES["scan"] | {"SCANNED_IDS": 1})
        async with self.opened() as store:
            ahead = ended_at(1800, 1, after=-1800)
            jobs = [job_at(0, 99), *(ended_at(60 * n, n) for n in range(2, 25)), ahead]
            await write(cast(RedisStore, store)._open(), jobs)
            found = await store.jobs(Filter(states=("completed",)), now=NOW, limit=1, newest=True)
            assert [job.id for job in found] == [ahead.id]

    async def test_a_scan_reads_all_jobs_if_an_id_does_not_tell_when_its_job_was_made(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        set_sizes(monkeypatch, MODES["scan"] | {"SCANNED_IDS": 1})
        async with self.opened() as store:
            named = [replace(ended_at(60 * n, n), id=f"job {n:02}") for n in range(20)]
            await write(cast(RedisStore, store)._open(), [job_at(0, 99), *named])
            swapped = [replace(ended_at(-60 * n, n), id=f"k {n:02}") for n in range(20)]
            await write(cast(RedisStore, store)._open(), swapped)
            found = await store.jobs(Filter(states=("completed",)), now=NOW, limit=2)
            newest = await store.jobs(Filter(states=("completed",)), now=NOW, limit=2, newest=True)
            assert [job.id for job in (*found, *newest)] == ["job 00", "job 01", "k 19", "k 18"]

    async def test_unfinished_jobs_begin_where_all_jobs_before_have_finished(self) -> None:
        jobs = [*(ended_at(-7200 + n, n) for n in range(30)), *(job_at(n, n, queue="ab"[n % 2]) for n in range(9))]
        start, earlier = await self.began(jobs, now=9) or (b"", [b""])
        assert (start, earlier) == (packed(made_at(later(-1), 0))[:6], [])

    async def test_jobs_that_finished_lately_do_not_count_as_unfinished(self) -> None:
        jobs = [*(ended_at(-60 + n, n, after=50) for n in range(30)), *(ended_at(n, n) for n in range(5)), job_at(4, 9)]
        assert (await self.began(jobs, now=9) or (b"", [b""]))[1] == []

    async def test_an_earlier_job_that_waits_is_known_before_the_beginning(self) -> None:
        paused = job_at(-7000, 98, state=State.PAUSED)
        delayed = job_at(-7100, 99, run_at=later(3600))
        jobs = [*(ended_at(-7200 + n, n) for n in range(30)), paused, delayed, *(job_at(n, n) for n in range(9))]
        assert (await self.began(jobs) or (b"", []))[1] == [packed(delayed.id), packed(paused.id)]

    async def test_there_is_no_beginning_if_an_unknown_job_waits_longer(self) -> None:
        late = job_at(-7100, 99, run_at=later(60))  # it was delayed, and is behind others that were made later
        assert await self.began([*(ended_at(-7200 + n, n) for n in range(30)), late, job_at(0, 1)], now=60) is None

    async def began(self, jobs: list[Job], now: float = 0) -> tuple[bytes, list[bytes]] | None:
        async with self.opened() as store:
            await write(shards := cast(RedisStore, store)._open(), jobs, now=later(now))
            return await beginning(shards.first, await names_in(shards.first))

    async def test_the_oldest_pending_jobs_are_listed_behind_many_finished_ones(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        set_sizes(monkeypatch, {"MAX_JOBS_READ_WHOLE": 5, "MAX_PROBED_JOBS": 5})
        async with self.opened() as store:
            early = job_at(-7100, 99, run_at=later(-60))
            jobs = [*(ended_at(-7200 + n, n) for n in range(90)), early, *(job_at(-n, n) for n in range(50, 0, -1))]
            await write(cast(RedisStore, store)._open(), jobs)
            found = await pages(store, Filter(states=("pending",)), "created", False, 20)
            assert [job.id for job in found] == [job.id for job in jobs[90:]]

    async def test_a_page_reads_only_orders_again_whose_entries_are_used_up(self) -> None:
        async with self.opened() as store:
            jobs = [job_at(n / 1000, n, task=f"task {n % 40}" if n < 400 else "task") for n in range(800)]
            await write(cast(RedisStore, store)._open(), jobs)
            before = self.range_reads()
            found = await store.jobs(Filter(), now=NOW, limit=200, newest=True, brief=True)
            assert [job.id for job in found] == [job.id for job in jobs[:-201:-1]]
            assert self.range_reads() - before < 41 + 10

    def range_reads(self) -> int:
        return int(self.server.run("INFO", "commandstats").get("cmdstat_zrevrangebylex", {"calls": 0})["calls"])

    async def test_a_brief_list_has_large_jobs_in_their_places(self) -> None:
        async with self.opened() as store:
            texts = ['""', f'"{"x" * 100_000}"', '""', f'"{"y" * 70_000}"']
            ids = await put(store, *(new_job(payload=text) for text in texts))
            found = await store.jobs(Filter(states=("pending",)), now=NOW, limit=10, brief=True)
            assert [(job.id, job.payload) for job in found] == list(zip(ids, ['""', "", '""', ""], strict=True))

    async def test_ids_are_looked_up_in_the_sets_of_tags_schedules_and_errors(self) -> None:
        failure = Failure("OSError", "it broke")
        async with self.opened() as store:
            jobs = [
                job_at(
                    n, n, state=State.DEAD, finished_at=later(n), tags=("x", "y")[: n % 3],
                    schedule=(None, "hourly", "daily")[n % 3], failure=failure if n % 2 else None,
                )
                for n in range(24)
            ]  # fmt: skip
            await write(cast(RedisStore, store)._open(), jobs)
            for asked in ({"tags": ("x", "y")}, {"schedules": ("daily", "hourly")}, {"errors": (failure.kind,)}):
                for sort in SORTS[::2]:
                    which = Filter(states=("dead",), **asked)  # type: ignore[arg-type]
                    for brief in (False, True):
                        found = await store.jobs(which, now=NOW, limit=30, sort=sort, brief=brief)
                        assert [one.id for one in found] == [one.id for one in jobs if matches_filter(one, which, NOW)]
