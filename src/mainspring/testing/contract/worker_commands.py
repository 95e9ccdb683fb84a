"""command_workers: commands of operators to live workers, which get them with their beats."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from ...records.worker import WorkerCommands, WorkerRow
from ...store import Store
from .build import NOW, Contract, a_worker, beat, later
from .sentences import proves

DRAIN = WorkerCommands(drained=True)
SLOW = WorkerCommands(concurrency=1)


async def add_workers(store: Store, *names: str) -> None:
    for name in names:
        await beat(store, name)


class WorkerCommandsContract(Contract):
    @proves("B4")
    async def test_a_worker_without_commands_gets_the_defaults(self) -> None:
        async with self.opened() as store:
            assert (await beat(store)).orders == WorkerCommands()

    @proves("B4")
    async def test_a_worker_gets_its_commands_at_every_beat(self) -> None:
        async with self.opened() as store:
            await add_workers(store, "ada")
            assert await store.command_workers(["ada"], DRAIN, now=NOW) == ["ada"]
            assert [(await beat(store)).orders for _ in range(2)] == [DRAIN, DRAIN]

    @proves("WR1")
    async def test_worker_commands_are_listed_with_their_worker(self) -> None:
        async with self.opened() as store:
            await add_workers(store, "ada")
            await store.command_workers(["ada"], SLOW, now=NOW)
            assert await store.workers(now=NOW) == [WorkerRow(a_worker("ada"), later(60), SLOW)]

    @proves("B4", "V10")
    async def test_every_field_of_worker_commands_is_kept(self) -> None:
        async with self.opened() as store:
            await add_workers(store, "ada")
            whole = WorkerCommands(concurrency=3, drained=True, stopped=True)
            await store.command_workers(["ada"], whole, now=NOW)
            assert (await beat(store)).orders == whole
            assert [row.orders for row in await store.workers(now=NOW)] == [whole]

    @proves("CW3")
    async def test_later_worker_commands_replace_earlier_ones(self) -> None:
        async with self.opened() as store:
            await add_workers(store, "ada")
            await store.command_workers(["ada"], WorkerCommands(concurrency=3, drained=True), now=NOW)
            await store.command_workers(["ada"], SLOW, now=NOW)
            assert (await beat(store)).orders == SLOW
            await store.command_workers(["ada"], WorkerCommands(), now=NOW)
            assert (await beat(store)).orders == WorkerCommands()

    @proves("CW3")
    async def test_worker_commands_reach_only_the_named_workers(self) -> None:
        async with self.opened() as store:
            await add_workers(store, "ada", "bob", "cyd")
            assert await store.command_workers(["cyd", "ada", "unknown"], DRAIN, now=NOW) == ["ada", "cyd"]
            assert [(await beat(store, name)).orders for name in ("ada", "bob", "cyd")] == [
                DRAIN,
                WorkerCommands(),
                DRAIN,
            ]

    @proves("CW3")
    @pytest.mark.parametrize(("named", "reached"), [(None, ["ada", "bob"]), ((), [])], ids=["all", "none"])
    async def test_order_with_none_reaches_all_workers_and_with_an_empty_list_no_worker(
        self, named: Collection[str] | None, reached: list[str]
    ) -> None:
        async with self.opened() as store:
            await add_workers(store, "bob", "ada")
            assert await store.command_workers(named, DRAIN, now=NOW) == reached
            drained = [row.info.id for row in await store.workers(now=NOW) if row.orders == DRAIN]
            assert drained == reached

    @proves("CW3")
    @pytest.mark.parametrize("named", [None, ["ada", "bob"]], ids=["all", "by name"])
    async def test_a_silent_worker_gets_no_commands(self, named: Collection[str] | None) -> None:
        async with self.opened() as store:
            await beat(store, "ada", until=later(20))
            await beat(store, "bob", until=later(20.000001))
            assert await store.command_workers(named, DRAIN, now=later(20)) == ["bob"]
            assert (await beat(store, "ada", now=later(21))).orders == WorkerCommands()

    @proves("B4")
    async def test_worker_commands_outlast_a_silence(self) -> None:
        async with self.opened() as store:
            await beat(store, until=later(20))
            await store.command_workers(None, DRAIN, now=NOW)
            assert (await beat(store, until=later(90), now=later(50))).orders == DRAIN

    @proves("B3")
    async def test_worker_commands_are_removed_with_the_worker(self) -> None:
        async with self.opened() as store:
            await add_workers(store, "ada")
            await store.command_workers(["ada"], DRAIN, now=NOW)
            await beat(store, until=NOW)
            assert await store.command_workers(["ada"], SLOW, now=NOW) == []
            assert (await beat(store)).orders == WorkerCommands()
            assert await store.workers(now=NOW) == [WorkerRow(a_worker("ada"), later(60), WorkerCommands())]

    @proves("CW2")
    async def test_a_stop_command_cannot_be_withdrawn(self) -> None:
        async with self.opened() as store:
            await beat(store)
            await store.command_workers(None, WorkerCommands(stopped=True), now=NOW)
            assert await store.command_workers(None, WorkerCommands(concurrency=3, drained=True), now=NOW) == ["ada"]
            (row,) = await store.workers(now=NOW)
            assert row.orders == WorkerCommands(concurrency=3, drained=True, stopped=True)
            assert (await beat(store)).orders == row.orders

    @proves("CW1")
    async def test_order_with_seen_reaches_only_workers_with_those_commands(self) -> None:
        async with self.opened() as store:
            for name in ("ada", "bob"):
                await beat(store, name)
            await store.command_workers(["bob"], WorkerCommands(drained=True), now=NOW)
            assert await store.command_workers(None, WorkerCommands(concurrency=5), now=NOW, seen=WorkerCommands()) == [
                "ada"
            ]
            assert await store.command_workers(
                None, WorkerCommands(concurrency=6), now=NOW, seen=WorkerCommands(drained=True)
            ) == ["bob"]
            assert [row.orders.concurrency for row in await store.workers(now=NOW)] == [5, 6]

    @proves("CW1", "V1")
    async def test_one_of_many_concurrent_commands_with_the_same_seen_is_accepted(self) -> None:
        async with self.opened() as store:
            await beat(store)
            orders = [
                store.command_workers(["ada"], WorkerCommands(concurrency=n), now=NOW, seen=WorkerCommands())
                for n in range(1, 21)
            ]
            given = await asyncio.gather(*orders)
            assert sorted(given) == [[]] * 19 + [["ada"]]
            (row,) = await store.workers(now=NOW)
            assert row.orders.concurrency == given.index(["ada"]) + 1
