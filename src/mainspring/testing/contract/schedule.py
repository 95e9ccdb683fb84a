"""due, schedules, ticks and drop_schedules: how schedules are stored, listed and dropped."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import fields

from ...records.job import Action, State
from ...records.query import Filter
from ...retry import Backoff
from ...schedule.record import MAX_KEPT_TICKS, Due, Firing, Schedule, Spec, tick_key
from ...store import Store
from ...trigger import Window, at, cron, every
from .build import (
    NOW,
    Contract,
    a_schedule,
    a_tick,
    act,
    all_jobs,
    claim_ids,
    fire,
    later,
    launch,
    new_job,
    next_revision,
    put,
    read_schedule,
    tick_job,
)
from .sentences import proves

NAMES = ("a", "a:1", "a:10", "a:1:2", "b c", "naïve 'quoted'", "日本語", "😀")
TRIGGERS = [
    every(5).minutes, every(0.001).seconds, every().day.at("14:30", tz="Europe/London"),
    every(2).weeks.on("monday", "fri").at("00:00:01"), cron("*/15 * * * * *"), cron("0 9 L * *", tz="Asia/Tokyo"),
    cron("@daily"), at(datetime(2030, 6, 1, 1, 2, 3, 456789, tzinfo=NOW.tzinfo)),
    every(90).seconds.starting(later(0.000001)),
]  # fmt: skip
SPECS: list[dict[str, Any]] = [
    {"payload": '{"a":1}', "fingerprint": "0011223344"},
    {"timeout": None, "max_retries": 0, "backoff": Backoff.linear(2), "expires": 0.5, "priority": -3, "queue": "q"},
    {"timeout": UNSET, "payload": '{"é": [1e400, null]}', "tags": ("x", "é"), "metadata": {"a": [1, {"é": None}]}},
    {"overlap": "cancel", "catch_up": "all", "catch_up_window": 0.0, "grace": 0.25, "jitter": 30.0, "computed": True},
    {"window": Window("22:00", "06:00", "mon-fri", "Europe/London", "move"), "exclude": (date(2030, 12, 25),)},
    {"window": Window("08:00", "24:00")},
    {"start_at": later(-0.000001), "end_at": datetime(2031, 1, 1, 5, tzinfo=timezone(timedelta(hours=5)))},
    {"max_runs": 3, "run_on_start": True, "after": "finish", "pause_after_failures": 2, "depends_on": ("a:1", "ü")},
    {"adapt": 3600.0, "spread": True, "overlap": "queue"},
]
FULL = a_schedule(
    "full", owner="code", revision=1, declared="abc", created_at=later(-9), updated_at=later(-8), anchor_at=later(-7),
    next_run_at=later(0.000001), due_at=later(1), held_at=later(-1), waits_on="ü", active=("x", "y"), unlisted=3,
    paused_at=later(-6), note="böse 'x'", reached_at=later(-5), last_run_at=later(-4), last_fired_at=later(-3),
    last_job_id="y", last_outcome=State.EXPIRED, last_finished_at=later(-2), succeeded_at=later(-1),
    answered={"ü": later(-0.000001)}, fired=1, skipped=2,
    missed=3, completed=4, failed=5, failures=6, ticks=7, stretch=8, digest="d", moved_at=later(-10),
)  # fmt: skip


async def store_all(store: Store, *schedules: Schedule) -> None:
    fired = await store.fire([Firing(schedule=one) for one in schedules], now=NOW)
    assert all(one.stands for one in fired)


async def due(store: Store, **query: Any) -> tuple[list[str], datetime | None]:
    answer: Due = await store.due(**{"now": NOW, "limit": 10, **query})
    return [one.name for one in answer.schedules], answer.next_at


class ScheduleContract(Contract):
    # stored fields

    @proves("V10")
    def test_the_full_schedule_of_the_suite_has_a_value_in_every_field(self) -> None:
        plain = {field.name for field in fields(Schedule) if getattr(FULL, field.name) == field.default}
        assert plain == {"revision"}

    @proves("V10")
    async def test_a_schedule_is_read_as_it_was_written(self) -> None:
        async with self.opened() as store:
            await store_all(store, FULL)
            assert await store.schedules(limit=9) == [FULL]

    @proves("V10")
    @pytest.mark.parametrize("trigger", TRIGGERS, ids=repr)
    async def test_every_trigger_is_read_as_it_was_written(self, trigger: Any) -> None:
        async with self.opened() as store:
            new = a_schedule(spec={"trigger": trigger})
            await store_all(store, new)
            found = await read_schedule(store)
            assert (found, type(found.spec.trigger)) == (new, type(trigger))
            assert found.timetable.next(NOW) == new.timetable.next(NOW)

    @proves("V10")
    @pytest.mark.parametrize("spec", SPECS, ids=lambda spec: "-".join(spec))
    async def test_every_schedule_policy_is_read_as_it_was_written(self, spec: dict[str, Any]) -> None:
        async with self.opened() as store:
            new = a_schedule(spec=spec)
            await store_all(store, new)
            assert await read_schedule(store) == new
            assert (await read_schedule(store)).spec.timeout == new.spec.timeout

    @proves("V10")
    def test_the_suite_covers_every_schedule_policy(self) -> None:
        covered = {name for spec in SPECS for name in spec} | {"trigger", "task"}
        assert covered == {field.name for field in fields(Spec)}

    @proves("TK1", "V10")
    async def test_a_tick_is_read_as_it_was_written(self) -> None:
        async with self.opened() as store:
            full = a_tick(1, what="missed", reason="böse", job_id="x", count=7, last_at=later(0.000001))
            await fire(store, a_schedule(), ticks=(full, a_tick(2)))
            assert await store.ticks("hourly", limit=9) == [a_tick(2), full]

    # lists

    @proves("S1")
    async def test_schedules_are_listed_by_name_with_any_characters(self) -> None:
        async with self.opened() as store:
            await store_all(store, *(a_schedule(name) for name in reversed(NAMES)))
            assert [one.name for one in await store.schedules(limit=99)] == sorted(NAMES)

    @proves("S1")
    async def test_schedules_by_name_leave_out_unknown_names(self) -> None:
        async with self.opened() as store:
            await store_all(store, *map(a_schedule, NAMES))
            query = ["日本語", "a:1", "unknown", "a:1"]
            assert [one.name for one in await store.schedules(query, limit=9)] == ["a:1", "日本語"]
            assert await store.schedules([], limit=9) == []

    @proves("S1")
    async def test_pages_of_schedules_continue_after_the_last_name(self) -> None:
        async with self.opened() as store:
            await store_all(store, *map(a_schedule, NAMES))
            seen, after = [], None
            while page := await store.schedules(limit=3, after=after):
                seen += [one.name for one in page]
                after = seen[-1]
            assert seen == sorted(NAMES)
            assert [one.name for one in await store.schedules(NAMES[:3], limit=9, after="a:1")] == ["a:10"]

    @proves("TK1")
    async def test_ticks_are_paged_newest_first_by_number(self) -> None:
        async with self.opened() as store:
            await fire(store, a_schedule(), ticks=tuple(a_tick(n) for n in range(1, 6)))
            assert [tick.n for tick in await store.ticks("hourly", limit=2)] == [5, 4]
            assert [tick.n for tick in await store.ticks("hourly", limit=2, before=4)] == [3, 2]
            assert await store.ticks("hourly", limit=2, before=1) == []
            assert await store.ticks("unknown", limit=9) == []

    @proves("TK1")
    async def test_the_ticks_of_a_schedule_are_not_those_of_one_with_a_similar_name(self) -> None:
        async with self.opened() as store:
            for n, name in enumerate(NAMES, 1):
                await fire(store, a_schedule(name), ticks=(a_tick(n),))
            for n, name in enumerate(NAMES, 1):
                assert [tick.n for tick in await store.ticks(name, limit=9)] == [n]

    @proves("T5")
    async def test_the_newest_ticks_are_kept(self) -> None:
        async with self.opened() as store:
            await fire(store, a_schedule("other"), ticks=(a_tick(1),))
            new, most = a_schedule(), MAX_KEPT_TICKS
            await fire(store, new, ticks=tuple(a_tick(n) for n in range(1, most + 1)))
            assert len(await store.ticks("hourly", limit=most + 9)) == most
            await fire(store, next_revision(new), ticks=(a_tick(most + 1), a_tick(most + 2)))
            numbers = [tick.n for tick in await store.ticks("hourly", limit=most + 9)]
            assert numbers == list(range(most + 2, 2, -1))
            assert len(await store.ticks("other", limit=9)) == 1

    # due

    @proves("D2", "D4")
    async def test_a_schedule_is_due_at_its_due_at(self) -> None:
        async with self.opened() as store:
            await store_all(store, a_schedule(due_at=later(5)))
            assert await due(store, now=later(4.999999)) == ([], later(5))
            assert await due(store, now=later(5)) == (["hourly"], None)

    @proves("D1")
    async def test_due_schedules_are_listed_by_due_at_and_name(self) -> None:
        async with self.opened() as store:
            times = {"c": 0, "b": -1, "ä": -1, "a": 0, "z": -2, "later": 1, "last": 9}
            await store_all(store, *(a_schedule(name, due_at=later(seconds)) for name, seconds in times.items()))
            assert await due(store) == (["z", "b", "ä", "a", "c"], later(1))

    @proves("D4")
    async def test_a_schedule_without_due_at_is_never_due(self) -> None:
        async with self.opened() as store:
            await store_all(store, a_schedule(due_at=None))
            assert await due(store, now=later(10**6)) == ([], None)

    @proves("D2")
    async def test_due_next_at_is_now_if_more_schedules_may_be_due(self) -> None:
        async with self.opened() as store:
            await store_all(store, *map(a_schedule, "abc"), a_schedule("d", due_at=later(5)))
            assert await due(store, limit=2) == (["a", "b"], NOW)
            assert await due(store, limit=3) == (["a", "b", "c"], NOW)
            assert await due(store, limit=4) == (["a", "b", "c"], later(5))

    @proves("D3")
    async def test_computed_schedules_are_due_only_if_named(self) -> None:
        async with self.opened() as store:
            await store_all(
                store,
                a_schedule("mine", spec={"computed": True}, due_at=later(-1)),
                a_schedule("plain"),
                a_schedule("theirs", spec={"computed": True}, due_at=later(-2)),
                a_schedule("theirs later", spec={"computed": True}, due_at=later(5)),
                a_schedule("plain later", due_at=later(7)),
            )
            assert await due(store) == (["plain"], later(7))
            assert await due(store, computed=["mine", "unknown"]) == (["mine", "plain"], later(7))
            assert await due(store, computed=["theirs", "theirs later"]) == (["theirs", "plain"], later(5))

    @proves("D4")
    async def test_the_last_revision_decides_when_a_schedule_is_due(self) -> None:
        async with self.opened() as store:
            new = a_schedule()
            await store_all(store, new)
            await fire(store, later_on := next_revision(new, due_at=later(5)))
            assert await due(store) == ([], later(5))
            await fire(store, never := next_revision(later_on, due_at=None))
            assert await due(store, now=later(9)) == ([], None)
            await fire(store, next_revision(never, due_at=NOW))
            assert await due(store) == (["hourly"], None)
            assert await due(store) == (["hourly"], None)

    # dropping

    @proves("DS1")
    async def test_dropped_schedules_are_removed_with_their_ticks(self) -> None:
        async with self.opened() as store:
            for name in NAMES:
                await fire(store, a_schedule(name), ticks=(a_tick(1),))
            assert await store.drop_schedules(["a:10", "unknown", "a", "a"]) == ["a", "a:10"]
            assert [one.name for one in await store.schedules(limit=99)] == sorted(set(NAMES) - {"a", "a:10"})
            assert await store.ticks("a", limit=9) == await store.ticks("a:10", limit=9) == []
            assert len(await store.ticks("a:1", limit=9)) == 1
            assert "a" not in (await due(store))[0]
            assert await store.drop_schedules(["a"]) == []

    @proves("DS1")
    async def test_the_jobs_of_a_dropped_schedule_are_left_alone(self) -> None:
        async with self.opened() as store:
            _, (job_id,) = await launch(store)
            jobs = await all_jobs(store)
            await store.drop_schedules(["hourly"])
            assert await all_jobs(store) == jobs
            assert await claim_ids(store) == [job_id]

    @proves("DS1", "T2")
    async def test_the_name_of_a_dropped_schedule_is_free_for_a_first_revision(self) -> None:
        async with self.opened() as store:
            await fire(store, a_schedule(), ticks=(a_tick(1), a_tick(2)))
            await store.drop_schedules(["hourly"])
            assert (await fire(store, next_revision(a_schedule()))).stands is False
            assert (await fire(store, a_schedule(), ticks=(a_tick(1),))).stands
            assert await store.ticks("hourly", limit=9) == [a_tick(1)]

    @proves("T7")
    async def test_a_job_of_a_dropped_schedule_does_not_change_its_successor(self) -> None:
        async with self.opened() as store:
            _, (job_id,) = await launch(store)
            await store.drop_schedules(["hourly"])
            await fire(store, a_schedule())
            await act(store, Action.CANCEL, job_id)
            assert await read_schedule(store) == a_schedule()

    # jobs of a schedule

    @proves("J2")
    @pytest.mark.parametrize("name", NAMES)
    async def test_jobs_are_found_by_the_schedule_that_made_them(self, name: str) -> None:
        async with self.opened() as store:
            made = {one: [tick_job(a_schedule(one), later(n)) for n in range(2)] for one in NAMES}
            for one, jobs in made.items():
                await fire(store, a_schedule(one), jobs=tuple(jobs))
            found = await store.jobs(Filter(schedules=(name,)), now=NOW, limit=99)
            assert [job.id for job in found] == [job.id for job in made[name]]
            assert {job.schedule for job in found} == {name}
            assert [job.scheduled_at for job in found] == [NOW, later(1)]

    @proves("J2")
    async def test_a_job_with_only_the_key_of_a_tick_belongs_to_no_schedule(self) -> None:
        async with self.opened() as store:
            await put(store, new_job(idempotency_key=tick_key("hourly", NOW)), new_job(unique_key="schedule:hourly:5"))
            assert await store.jobs(Filter(schedules=("hourly",)), now=NOW, limit=9) == []

    @proves("J2")
    async def test_jobs_of_several_schedules_are_found_in_any_state(self) -> None:
        async with self.opened() as store:
            _, ids = await launch(store, "a:1", jobs=2)
            _, more = await launch(store, "a", jobs=1)
            await act(store, Action.CANCEL, ids[0])
            both = Filter(schedules=("a", "a:1"))
            assert [job.id for job in await store.jobs(both, now=NOW, limit=9)] == sorted([*ids, *more])
            gone = Filter(schedules=("a", "a:1"), states=("cancelled",))
            assert [job.id for job in await store.jobs(gone, now=NOW, limit=9)] == [ids[0]]
            assert await store.jobs(Filter(schedules=()), now=NOW, limit=9) == []
