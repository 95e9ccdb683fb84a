"""Keys in the public API: at most one job per key, and the four values of on_conflict."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from mainspring import BadInput, Cancel, Discard, Handle, JobExists, Key, Mainspring, State
from mainspring.task.task import Task
from mainspring.testing.clock import VirtualClock
from mainspring.testing.contract.build import NOW

CROWD = 50


@pytest.fixture
def task(app: Mainspring) -> Task[..., str]:
    @app.task
    async def work(a: str = "", then: str = "") -> str:
        if then == "die":
            raise Discard("no use")
        if then == "cancel":
            raise Cancel("not needed")
        return a

    return work


async def finish(app: Mainspring, clock: VirtualClock, task: Task[..., str], key: str, state: State) -> Handle[str]:
    """Enqueues a job with the key `one` and brings it to this final state."""
    then = {State.DEAD: "die", State.CANCELLED: "cancel"}.get(state, "")
    job = await task.using(**{key: "one"}, expires=60 if state is State.EXPIRED else None).enqueue("first", then=then)
    if state is State.EXPIRED:
        clock.advance(seconds=60)
    await app.drain()
    assert (await job.job()).state is state
    return job


FINAL = [State.COMPLETED, State.DEAD, State.CANCELLED, State.EXPIRED]


@pytest.mark.parametrize("key", ["unique_key", "idempotency_key"])
async def test_duplicate_enqueue_returns_the_waiting_job(app: Mainspring, task: Task[..., str], key: str) -> None:
    keyed = task.using(**{key: "one"})
    first, second = await keyed.enqueue("first"), await keyed.enqueue("second")
    assert (second.id, second.status) == (first.id, "duplicate")
    assert (await first.job()).payload == '{"a":"first"}'
    assert len(await app.jobs.list()) == 1


@pytest.mark.parametrize("state", FINAL)
async def test_unique_key_is_free_after_any_final_state(
    app: Mainspring, clock: VirtualClock, task: Task[..., str], state: State
) -> None:
    await finish(app, clock, task, "unique_key", state)
    assert (await task.using(unique_key="one").enqueue("second")).status == "new"


@pytest.mark.parametrize("state", FINAL)
async def test_idempotency_key_is_held_by_a_completed_job(
    app: Mainspring, clock: VirtualClock, task: Task[..., str], state: State
) -> None:
    first = await finish(app, clock, task, "idempotency_key", state)
    second = await task.using(idempotency_key="one").enqueue("second")
    assert (second.id == first.id) == (state is State.COMPLETED)


async def test_a_duplicate_of_a_completed_job_has_its_result(
    app: Mainspring, clock: VirtualClock, task: Task[..., str]
) -> None:
    await finish(app, clock, task, "idempotency_key", State.COMPLETED)
    assert await (await task.using(idempotency_key="one").enqueue("second")).result() == "first"


async def test_deleted_job_frees_its_key(app: Mainspring, task: Task[..., str]) -> None:
    keyed = task.using(unique_key="one")
    await app.jobs.delete((await keyed.enqueue()).id)
    assert (await keyed.enqueue()).status == "new"


async def test_expired_job_frees_its_key(clock: VirtualClock, task: Task[..., str]) -> None:
    first = await task.using(unique_key="one", expires=60).enqueue()
    clock.advance(seconds=60)
    second = await task.using(unique_key="one").enqueue()
    assert second.status == "new"
    assert (await first.job()).state is State.EXPIRED


async def test_unique_and_idempotency_keys_are_separate(task: Task[..., str]) -> None:
    await task.using(unique_key="one").enqueue()
    assert (await task.using(idempotency_key="one").enqueue()).status == "new"


# on_conflict


async def test_on_conflict_raise_names_the_key_and_its_holder(app: Mainspring, task: Task[..., str]) -> None:
    first = await task.using(unique_key="one").enqueue()
    with pytest.raises(JobExists) as refused:
        await task.using(unique_key="one", on_conflict="raise").enqueue()
    assert str(refused.value) == f"key 'one' is held by job {first.id}"
    assert (refused.value.key, refused.value.job_id) == ("one", first.id)
    assert len(await app.jobs.list()) == 1


async def test_on_conflict_replace_changes_the_input_and_keeps_the_time(
    clock: VirtualClock, task: Task[..., str]
) -> None:
    first = await task.using(unique_key="one", delay=60).enqueue("first")
    clock.advance(seconds=10)
    again = task.using(unique_key="one", delay=600, on_conflict="replace", priority=5, tags=["new"])
    second = await again.enqueue("second")
    assert (second.id, second.status, second.duplicate) == (first.id, "replaced", True)
    job = await first.job()
    assert (job.payload, job.priority, job.tags) == ('{"a":"second"}', 5, ("new",))
    assert job.run_at == NOW + timedelta(seconds=60)


async def test_on_conflict_debounce_changes_the_input_and_the_time(clock: VirtualClock, task: Task[..., str]) -> None:
    typing = task.using(unique_key="one", delay=60, on_conflict="debounce")
    first = await typing.enqueue("h")
    clock.advance(seconds=30)
    second = await typing.enqueue("hi")
    assert (second.id, second.status) == (first.id, "debounced")
    job = await first.job()
    assert (job.payload, job.run_at) == ('{"a":"hi"}', NOW + timedelta(seconds=90))


async def test_debounce_never_delays_a_job_beyond_its_limit(clock: VirtualClock, task: Task[..., str]) -> None:
    typing = task.using(unique_key="one", delay=60, on_conflict="debounce", debounce_limit=100)
    job = await typing.enqueue("")
    for n in range(5):
        clock.advance(seconds=20)
        await typing.enqueue(str(n))
    assert (await job.job()).run_at == NOW + timedelta(seconds=100)


@pytest.mark.parametrize("on_conflict", ["return", "replace", "debounce"])
async def test_on_conflict_leaves_a_running_job_unchanged(
    app: Mainspring, clock: VirtualClock, on_conflict: Any
) -> None:
    @app.task
    async def work(a: str) -> str:
        await clock.sleep(60)
        return a

    keyed = work.using(unique_key="one", on_conflict=on_conflict)
    first = await keyed.enqueue("first")
    draining = asyncio.create_task(app.drain())
    await clock.elapse(seconds=1)
    second = await keyed.enqueue("second")
    assert (second.id, second.status) == (first.id, "duplicate")
    await clock.elapse(seconds=60)
    await draining
    assert await first.result() == "first"


@pytest.mark.parametrize("on_conflict", ["raise", "replace", "debounce"])
async def test_enqueue_without_a_key_never_conflicts(task: Task[..., str], on_conflict: Any) -> None:
    wish = task.using(on_conflict=on_conflict)
    assert [(await wish.enqueue()).status for _ in range(2)] == ["new", "new"]


# concurrent callers


async def test_concurrent_enqueue_with_raise_has_one_winner(app: Mainspring, task: Task[..., str]) -> None:
    keyed = task.using(unique_key="one", on_conflict="raise")
    answers = await asyncio.gather(*(keyed.enqueue(str(n)) for n in range(CROWD)), return_exceptions=True)
    made = [answer for answer in answers if isinstance(answer, Handle)]
    told = [answer for answer in answers if isinstance(answer, JobExists)]
    assert (len(made), len(told)) == (1, CROWD - 1)
    assert {error.job_id for error in told} == {made[0].id}
    assert [job.id for job in await app.jobs.list()] == [made[0].id]


@pytest.mark.parametrize("on_conflict", ["return", "replace", "debounce"])
@pytest.mark.parametrize("key", ["unique_key", "idempotency_key"])
async def test_concurrent_enqueue_returns_the_same_job(
    app: Mainspring, task: Task[..., str], key: str, on_conflict: Any
) -> None:
    keyed = task.using(**{key: "one"}, on_conflict=on_conflict)
    handles = await asyncio.gather(*(keyed.enqueue(str(n)) for n in range(CROWD)))
    assert {handle.id for handle in handles} == {job.id for job in await app.jobs.list()}
    assert len({handle.id for handle in handles}) == 1
    assert [handle.status for handle in handles].count("new") == 1


async def test_concurrent_enqueue_many_makes_one_job_per_key(app: Mainspring, task: Task[..., str]) -> None:
    def batch() -> list[Any]:
        return [task.using(unique_key=f"key {n}").job() for n in range(10)]

    answers = await asyncio.gather(*(app.enqueue_many(batch()) for _ in range(20)))
    assert len(await app.jobs.list()) == 10
    assert all([handle.id for handle in answer] == [handle.id for handle in answers[0]] for answer in answers)


async def test_concurrent_enqueue_many_with_raise_is_all_or_nothing(app: Mainspring, task: Task[..., str]) -> None:
    def batch(n: int) -> list[Any]:
        mine = [task.job(f"{n}") for _ in range(3)]
        return [*mine, task.using(unique_key="one", on_conflict="raise").job(f"{n}")]

    answers = await asyncio.gather(*(app.enqueue_many(batch(n)) for n in range(20)), return_exceptions=True)
    winners = [n for n, answer in enumerate(answers) if not isinstance(answer, JobExists)]
    assert len(winners) == 1
    assert [job.payload for job in await app.jobs.list()] == [f'{{"a":"{winners[0]}"}}'] * 4


# composed keys


async def same(one: Task[..., str], other: Task[..., str], *, one_a: str = "x", other_a: str = "x") -> bool:
    return (await one.enqueue(one_a)).id == (await other.enqueue(other_a)).id


async def test_key_of_arguments_differs_per_call(task: Task[..., str]) -> None:
    keyed = task.using(unique_key=Key(args=True))
    assert await same(keyed, keyed)
    assert not await same(keyed, keyed, other_a="y")


async def test_key_is_the_same_for_positional_and_keyword_arguments(task: Task[..., str]) -> None:
    keyed = task.using(unique_key=Key(args=True))
    assert (await keyed.enqueue("x")).id == (await keyed.enqueue(a="x")).id


async def test_a_key_of_one_argument_ignores_the_others(task: Task[..., str]) -> None:
    keyed = task.using(unique_key=Key(args=("a",)))
    assert (await keyed.enqueue("x", then="1")).id == (await keyed.enqueue("x", then="2")).id


async def test_a_key_of_the_queue_tells_queues_apart(task: Task[..., str]) -> None:
    keyed = task.using(unique_key=Key(queue=True))
    assert await same(keyed, keyed)
    assert not await same(keyed, keyed.using(queue="low"))


async def test_a_composed_key_tells_tasks_apart(app: Mainspring, task: Task[..., str]) -> None:
    other = app.task(name="other", unique_key=Key(args=True))(task.fn)
    assert not await same(task.using(unique_key=Key(args=True)), other)


async def test_key_changes_with_the_period(clock: VirtualClock, task: Task[..., str]) -> None:
    hourly = task.using(unique_key=Key(period=3600))
    first = await hourly.enqueue()
    clock.advance(minutes=59, seconds=59)
    assert (await hourly.enqueue()).id == first.id
    clock.advance(seconds=1)
    assert (await hourly.enqueue()).status == "new"


async def test_key_can_be_a_function(task: Task[..., str]) -> None:
    keyed = task.using(unique_key=lambda a: a.lower())
    assert await same(keyed, keyed, one_a="ADA", other_a="ada")
    assert not await same(keyed, keyed, one_a="ADA", other_a="bob")


async def test_key_function_without_a_key_is_refused_before_the_write(app: Mainspring, task: Task[..., str]) -> None:
    with pytest.raises(BadInput, match="unique_key of task 'work' must be 1 to 512 printable characters, got None"):
        await task.using(unique_key=lambda a: None).enqueue("x")
    assert await app.jobs.list() == []
