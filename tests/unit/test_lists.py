"""Lists: pages through ties in every order, sorts from a closed list, and filters that treat any text literally."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from mainspring import BadInput, Filter, Job, Mainspring, State
from mainspring.records.job import Action
from mainspring.records.query import SORTS, Sort
from mainspring.store import Store
from mainspring.testing.clock import VirtualClock
from mainspring.testing.contract.build import NOW, act, job_in_state, later, new_job, put

HOSTILE = [
    "' OR 1=1 --", '" OR ""="', "'; DROP TABLE mainspring_jobs; --", "%", "_", "*", "\\", "{}", "[]", ":now", "$1", "?",
    "\u202e", "ключ 🔑", "a\nb", "\x00", "",
]  # fmt: skip
STORABLE = HOSTILE[:-2]


async def pages(app: Mainspring, limit: int, **asked: Any) -> list[str]:
    seen: list[str] = []
    after = None
    while True:
        page = await app.jobs.list(limit=limit, after=after, **asked)
        seen += [job.id for job in page]
        after = page.next
        if after is None:
            return seen


async def crowd(store: Store) -> None:
    """Jobs in many states; many share their due and finish times."""
    for n in range(12):
        await put(store, new_job(run_at=later(n // 4), queue=f"q{n % 3}", task=f"t{n % 2}", priority=n % 3))
    for state in (State.COMPLETED, State.DEAD, State.CANCELLED, State.PAUSED):
        for n in range(5):
            await job_in_state(store, state, task="task", queue=f"q{n % 2}")


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize("limit", [1, 7, 1000])
@pytest.mark.parametrize("sort", SORTS)
async def test_pages_with_equal_sort_times_have_no_gap_or_repeat(
    app: Mainspring, store: Store, sort: Sort, limit: int, newest: bool
) -> None:
    def place(job: Job) -> Any:
        at = {"created": NOW, "due": job.run_at, "finished": job.finished_at}[sort]
        return at, job.id

    async with app:
        await crowd(store)
        every = await app.jobs.list(limit=1000)
        standing = {
            "created": every,
            "due": [job for job in every if job.state is State.PENDING],
            "finished": [job for job in every if job.state.final],
        }[sort]
        expected = [job.id for job in sorted(standing, key=place, reverse=newest)]
        assert await pages(app, limit, sort=sort, newest=newest) == expected
    assert len(expected) == {"created": 32, "due": 12, "finished": 15}[sort]


@pytest.mark.parametrize("sort", SORTS)
async def test_a_page_continues_after_its_cursor_job_was_deleted(app: Mainspring, store: Store, sort: Sort) -> None:
    async with app:
        await crowd(store)
        first = await app.jobs.list(limit=4, sort=sort, newest=False)
        await act(store, Action.DELETE, first[-1].id, first[0].id)
        rest = await app.jobs.list(limit=1000, sort=sort, newest=False, after=first.next)
        everything = await app.jobs.list(limit=1000, sort=sort, newest=False)
    assert [job.id for job in everything] == [job.id for job in first[1:3]] + [job.id for job in rest]


async def test_default_sort_depends_on_the_states_of_the_filter(app: Mainspring, store: Store) -> None:
    async with app:
        early = await job_in_state(store, State.DEAD)
        late = await job_in_state(store, State.CANCELLED)
        await act(store, Action.RETRY, early.id)
        await act(store, Action.CANCEL, early.id, now=later(60))
        finished = await app.jobs.list(Filter(states=("cancelled", "dead")))
        created = await app.jobs.list(Filter(states=("cancelled", "pending")))
        timed = await app.jobs.list(Filter(states=("cancelled", "dead"), created_before=later(60)))
    assert [job.id for job in finished] == [early.id, late.id]
    assert [job.id for job in created] == [job.id for job in timed] == [late.id, early.id]


@pytest.mark.parametrize("sort", ["priority", "id; DROP TABLE mainspring_jobs", "", "FINISHED", 5, ["due"]])
async def test_an_unknown_sort_is_refused(app: Mainspring, sort: Any) -> None:
    async with app:
        with pytest.raises(BadInput, match=r"unknown sort .* \(known: created, due, finished\)"):
            await app.jobs.list(sort=sort)


CURSORS: list[Any] = [
    "garbage", "\ud800", "\x00", "é", "WyJkdWUiXQ", 5, b"x", "bnVsbA", "A" * 5000, "WyJkdWUiLCIyMDMwLTAxLTAxIiwiIl0",
]  # fmt: skip


@pytest.mark.parametrize("sort", ["due", "finished"])
async def test_a_malformed_cursor_is_refused(app: Mainspring, sort: Sort) -> None:
    async with app:
        for after in CURSORS:
            with pytest.raises(BadInput, match="does not come from a page sorted by"):
                await app.jobs.list(sort=sort, after=after)


async def test_sort_created_accepts_any_text_as_a_cursor(app: Mainspring, store: Store) -> None:
    async with app:
        await crowd(store)
        for after in CURSORS:
            if not isinstance(after, str) or after == "\ud800":
                with pytest.raises(BadInput, match="does not come from a page sorted by 'created'"):
                    await app.jobs.list(after=after)
            else:
                assert len(await app.jobs.list(after=after)) in (0, 32)


async def test_a_cursor_of_a_naive_instant_is_refused(app: Mainspring, store: Store) -> None:
    token = urlsafe_b64encode(b'["due","2030-01-01T00:00:00","x"]').decode()
    async with app:
        with pytest.raises(BadInput, match="does not come from a page sorted by 'due'"):
            await app.jobs.list(sort="due", after=token)


async def test_a_cursor_of_another_sort_is_refused(app: Mainspring, store: Store) -> None:
    async with app:
        await crowd(store)
        due = await app.jobs.list(limit=2, sort="due")
        with pytest.raises(BadInput, match="sorted by 'due', this one is sorted by 'finished'"):
            await app.jobs.list(limit=2, sort="finished", after=due.next)


# filters

PARTS = ["ids", "queues", "tasks", "tags", "workers", "errors"]


@pytest.mark.parametrize("part", PARTS)
async def test_hostile_text_in_a_filter_matches_nothing_and_breaks_nothing(
    app: Mainspring, store: Store, part: str
) -> None:
    async with app:
        await crowd(store)
        for text in HOSTILE:
            assert await app.jobs.list(Filter(**{part: (text,)})) == []
            assert (await app.jobs.cancel(Filter(**{part: (text,)}))).done == []
        assert len(await app.jobs.list(limit=1000)) == 32


async def test_hostile_text_in_a_key_prefix_matches_literally(app: Mainspring, store: Store) -> None:
    async with app:
        await put(store, new_job(unique_key="plain"), new_job(idempotency_key="plain too"))
        for text in STORABLE:
            (mine,) = await put(store, new_job(unique_key=f"{text} and more"))
            assert [job.id for job in await app.jobs.list(Filter(key_prefix=text))] == [mine]
        assert await app.jobs.list(Filter(key_prefix="\x00")) == []


async def test_hostile_queue_task_and_tag_names_are_matched_literally(app: Mainspring, store: Store) -> None:
    async with app:
        await put(store, new_job())
        for text in STORABLE:
            (mine,) = await put(store, new_job(queue=text, task=text, tags=(text,)))
            for part in ("queues", "tasks", "tags"):
                assert [job.id for job in await app.jobs.list(Filter(**{part: (text,)}))] == [mine]


@pytest.mark.parametrize("part", [*PARTS, "states"])
async def test_a_filter_part_that_is_not_a_tuple_of_texts_is_refused(app: Mainspring, part: str) -> None:
    bad: Any
    async with app:
        for bad in ("dead", 5, (5,), [None], ("\ud800",), {"dead"}):
            with pytest.raises(BadInput, match=rf"Filter\({part}=…\) takes a tuple of texts, got"):
                await app.jobs.list(Filter(**{part: bad}))


@pytest.mark.parametrize("bad", [5, ("a",), b"a", "\ud800"], ids=ascii)
async def test_a_key_prefix_that_is_not_a_text_is_refused(app: Mainspring, bad: Any) -> None:
    async with app:
        with pytest.raises(BadInput, match=r"Filter\(key_prefix=…\) takes a text, got"):
            await app.jobs.list(Filter(key_prefix=bad))


async def test_filters_are_conjunctive(app: Mainspring, store: Store, clock: VirtualClock) -> None:
    async with app:
        await put(store, new_job(queue="a", tags=("x", "y")), new_job(queue="a", tags=("x",)), new_job(queue="b"))
        clock.advance(seconds=10)
        both = await app.jobs.list(Filter(queues=("a",), tags=("x", "y"), created_before=clock.now()))
        none = await app.jobs.list(Filter(queues=("a",), created_after=NOW + timedelta(seconds=1)))
    assert (len(both), len(none)) == (1, 0)


async def test_a_cursor_with_an_invalid_instant_or_id_is_refused(app: Mainspring) -> None:
    beyond = datetime(9999, 12, 31, 23, 59, tzinfo=timezone(-timedelta(hours=23)))
    for at, id in ((beyond, "a"), (datetime(2030, 1, 1, tzinfo=UTC), "a\x00")):
        token = urlsafe_b64encode(msgspec.json.encode(("finished", at, id))).decode()
        with pytest.raises(BadInput, match="does not come from a page"):
            await app.jobs.list(after=token, sort="finished")


async def test_an_instant_beyond_the_calendar_in_utc_is_refused(app: Mainspring) -> None:
    beyond = datetime(9999, 12, 31, 23, 59, tzinfo=timezone(-timedelta(hours=23)))
    with pytest.raises(BadInput, match="created_before takes a datetime"):
        await app.jobs.list(Filter(created_before=beyond))
    for option in ("run_at", "expires"):
        with pytest.raises(BadInput, match=f"option {option} of task 'far': needs a datetime with a time zone"):
            app.job("far", {}, **{option: beyond})  # type: ignore[arg-type]
