"""Pages of jobs in Redis are right by every access path."""

from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import Any, cast

import pytest

from books import audit
from mainspring.clock import micros
from mainspring.ids import new_id
from mainspring.records.job import FINAL, POISON_SUSPECT_CRASHES, Job, State
from mainspring.records.query import SORTS, Cursor, Filter, Sort
from mainspring.records.run import Failure
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.redis import lists, orders
from mainspring.stores.redis.diff import _job_commands, _key_commands
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
# As they are; each set read whole; no set read whole; looked at before it is read whole; all in small steps.
MODES: dict[str, dict[str, int]] = {
    "usual": {},
    "whole": {"DENSE_RATIO": 0},
    "walk": {"MAX_IDS_READ_WHOLE": -1, "MAX_JOBS_READ_WHOLE": -1},
    "look first": {"DENSE_RATIO": 10**9, "MAX_PROBED_JOBS": 10, "MAX_PAGE_JOBS": 7},
    "small": {"MAX_IDS_READ_WHOLE": -1, "MAX_JOBS_READ_WHOLE": -1, "MAX_PAGE_JOBS": 9, "MIN_ORDER_ROWS": 2},
}


def some_jobs() -> Iterator[Job]:
    """Jobs in every state, made within ten minutes; the ids of some encode another time."""
    random = Random(7)
    for n in range(150):
        at = NOW - timedelta(seconds=random.randrange(600))
        id = new_id(NOW - timedelta(seconds=random.randrange(10**6))) if n % 10 == 0 else made_at(at, n)
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
        yield Job(id=f"job {n}" if n % 17 == 0 else id, payload="{}", state=state, created_at=at, **fields)


def made_at(at: Any, n: int) -> str:
    """Not by new_id, which never goes back."""
    ms = f"{micros(at) // 1000:012x}"
    return f"{ms[:8]}-{ms[8:]}-7000-8000-{n:012x}"


async def write(shards: Shards, jobs: list[Job]) -> None:
    for job in jobs:
        commands = [*_job_commands(shards, Snapshot(), job.id, (None, None, None), None, job, micros(NOW))]
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


class TestLists(Contract):
    @pytest.fixture(autouse=True)
    def _server(self, redis: Redis) -> None:
        self.server, self.url = redis, redis.fresh()

    def make_store(self) -> Store:
        return open_store(self.url)

    @pytest.mark.parametrize("mode", MODES)
    async def test_every_filter_lists_the_matching_jobs_in_pages(
        self, monkeypatch: pytest.MonkeyPatch, mode: str
    ) -> None:
        for name, value in MODES[mode].items():
            monkeypatch.setattr(lists if hasattr(lists, name) else orders, name, value)
        async with self.opened() as store:
            jobs = list(some_jobs())
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
