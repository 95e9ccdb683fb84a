"""Bulk changes of jobs: events per step, jobs created meanwhile are left alone, bad options are named."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from msgspec.structs import replace

from mainspring import BadInput, Filter, Mainspring, StoreUnavailable
from mainspring.control.argument_edits import MAX_EDITED_CHARACTERS, in_batches
from mainspring.control.bulk_steps import BulkSteps
from mainspring.events import JobsChanged
from mainspring.records.job import NewJob
from mainspring.records.query import Changed, Update
from mainspring.records.worker import WorkerInfo
from mainspring.store import Store
from mainspring.testing.clock import VirtualClock
from mainspring.testing.contract.build import NOW


async def work(a: int = 0) -> int:
    return a


async def fill(app: Mainspring, count: int) -> list[str]:
    task = app.task(work)
    return [handle.id for handle in await app.enqueue_many(task.job(n) for n in range(count))]


def heard(app: Mainspring) -> list[int]:
    """Returns a list that gets the number of jobs of each JobsChanged event."""
    counts: list[int] = []
    app.events.subscribe(JobsChanged, lambda event: counts.append(len(event.ids)))
    return counts


async def test_each_step_of_a_bulk_change_emits_an_event(app: Mainspring) -> None:
    await fill(app, 1200)
    told = heard(app)
    changed = await app.jobs.pause(Filter())
    assert (len(changed.done), told) == (1200, [50, 100, 200, 400, 450])


def test_bulk_steps_shrink_when_slow_and_grow_when_fast() -> None:
    clock = VirtualClock()
    steps, sizes = BulkSteps(clock, 1000), list[int]()
    for seconds in (0.2, 0.2, 0.2, 0.04, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0):
        sizes.append(steps.begin(10_000))
        clock.advance(seconds=seconds)
        steps.end()
    assert sizes == [50, 25, 12, 10, 10, 20, 40, 80, 160, 320, 640]
    assert (steps.begin(10_000), steps.begin(7)) == (1000, 7)


async def test_a_bulk_change_that_fails_emits_events_for_the_jobs_changed_before(
    app: Mainspring, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(app, 1200)
    told, change = heard(app), store.change

    async def once(*args: object, after: str | None = None, **more: object) -> Changed:
        if after is not None:
            raise StoreUnavailable("locked")
        return await change(*args, after=after, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "change", once)
    with pytest.raises(StoreUnavailable):
        await app.jobs.pause(Filter())
    assert told == [50]


async def test_a_job_created_in_the_future_is_changed_by_id_but_not_by_filter(app: Mainspring, store: Store) -> None:
    await app.connect()
    ahead = NOW + timedelta(seconds=5)
    await store.enqueue([NewJob(id="early", task="work", payload="{}", run_at=NOW)], now=ahead)
    assert (await app.jobs.pause(Filter())).done == []
    assert (await app.jobs.pause(Filter(ids=("early",)))).done == ["early"]
    assert (await app.jobs.update(Filter(ids=("early",)), arguments={"a": 1})).done == ["early"]


async def test_a_bulk_edit_refuses_only_jobs_whose_task_does_not_accept_the_arguments(app: Mainspring) -> None:
    first, second = await fill(app, 2)
    await app.jobs.update(first, arguments={"a": 7})
    other = await app.task(name="other")(lambda b=0: b).enqueue()
    changed = await app.jobs.update(Filter(), arguments={"b": 1})
    assert changed.done == [other.id]
    assert set(changed.refused) == {first, second}
    assert "task 'work' do not fit" in str(changed.refused[first].error)
    assert (await app.jobs.get(first)).payload == '{"a":7}'


async def test_update_replaces_a_payload_that_cannot_be_decoded(app: Mainspring, store: Store) -> None:
    app.task(work)
    await app.connect()
    await store.enqueue([NewJob(id="torn", task="work", payload="{torn")], now=NOW)
    await app.jobs.update("torn", arguments={"a": 1})
    assert (await app.jobs.get("torn")).payload == '{"a":1}'


async def test_a_bulk_edit_emits_one_event_per_page(app: Mainspring) -> None:
    await fill(app, 3)
    told = heard(app)
    await app.jobs.update(Filter(), arguments={"a": 1})
    assert told == [3]


async def test_an_invalid_update_names_the_option(app: Mainspring) -> None:
    with pytest.raises(BadInput, match=r"^option queue of this update: a queue name is"):
        await app.jobs.update("x", queue=" ")


@pytest.mark.parametrize("sort", ["created", "due"])
async def test_a_cursor_of_another_sort_is_refused(app: Mainspring, sort: str) -> None:
    await fill(app, 2)
    await app.drain()
    page = await app.jobs.list(limit=1, sort="finished")
    with pytest.raises(BadInput, match=f"sorted by 'finished', this one is sorted by '{sort}'"):
        await app.jobs.list(limit=1, after=page.next, sort=sort)  # type: ignore[arg-type]


# workers by id


async def crew(store: Store, clock: VirtualClock, *ids: str) -> None:
    about = WorkerInfo(id="", host="h", pid=1, queues=None, tasks=(), concurrency=1, started_at=NOW)
    for id in ids:
        await store.beat(replace(about, id=id), until=clock.now() + timedelta(seconds=20), now=clock.now())


@pytest.fixture
def names(app: Mainspring, store: Store, clock: VirtualClock) -> Callable[..., object]:
    async def begin(*ids: str) -> None:
        await app.connect()
        await crew(store, clock, *ids)

    return begin


async def test_a_worker_is_found_by_a_prefix_of_its_id(app: Mainspring, names) -> None:
    await names("web-1-aa", "web-10-bb", "mail-2-cc")
    assert (await app.workers.get("mail")).info.id == "mail-2-cc"
    assert (await app.workers.get("web-1-aa")).info.id == "web-1-aa"


async def test_an_ambiguous_worker_id_prefix_is_refused_with_the_matching_workers(app: Mainspring, names) -> None:
    await names("web-1-aa", "web-10-bb", "mail-2-cc")
    with pytest.raises(BadInput) as refused:
        await app.workers.get("web-1")
    assert str(refused.value) == "the ids of 2 live workers begin with 'web-1': web-1-aa, web-10-bb"


async def test_an_unknown_worker_is_refused_with_a_list_of_live_workers(app: Mainspring, names) -> None:
    await names(*(f"w{n:02}" for n in range(12)))
    with pytest.raises(BadInput, match=r"no live worker is called 'x' \(alive: w00, .*, w09 and 2 more\)"):
        await app.workers.drain("x")


async def test_an_empty_worker_id_is_refused(app: Mainspring, names) -> None:
    await names("only")
    with pytest.raises(BadInput, match="no live worker is called ''"):
        await app.workers.drain("")
    assert not (await app.workers.get("only")).orders.drained


def test_updates_are_split_into_batches_of_bounded_size() -> None:
    sizes = [10, 10, MAX_EDITED_CHARACTERS, 10, MAX_EDITED_CHARACTERS - 10, 5 * MAX_EDITED_CHARACTERS, 10]
    updates = {str(n): Update(payload="x" * size) for n, size in enumerate(sizes)}
    assert [list(lot) for lot in in_batches(updates)] == [["0", "1"], ["2"], ["3", "4"], ["5"], ["6"]]
    assert list(in_batches({})) == []
