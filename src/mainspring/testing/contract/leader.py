"""acquire_term and terms: one holder at a time, under a term whose number is never reused."""

from __future__ import annotations

import asyncio
from datetime import datetime

from ...schedule.record import LeaderTerm
from ...store import Store
from .build import NOW, Contract, later
from .sentences import proves


async def lead(store: Store, holder: str, until: float, *, now: float = 0, name: str = "reindex") -> LeaderTerm:
    return await store.acquire_term(name, holder, until=later(until), now=later(now))


def leader(holder: str | None, term: int, until: datetime, name: str = "reindex") -> LeaderTerm:
    return LeaderTerm(name, holder, term, until)


class LeaderContract(Contract):
    # start of a term

    @proves("L2")
    async def test_the_first_leader_has_term_one(self) -> None:
        async with self.opened() as store:
            assert await lead(store, "ada", 10) == leader("ada", 1, later(10))
            assert await store.terms(now=NOW) == [leader("ada", 1, later(10))]

    @proves("L1", "V1")
    async def test_one_of_many_concurrent_callers_leads_and_all_get_its_term(self) -> None:
        async with self.opened() as store:
            answers = await asyncio.gather(*(lead(store, f"worker-{n}", 10) for n in range(20)))
            assert len({(answer.holder, answer.term) for answer in answers}) == 1

    @proves("L1")
    async def test_a_second_caller_gets_the_term_of_the_leader(self) -> None:
        async with self.opened() as store:
            mine = await lead(store, "ada", 10)
            assert await lead(store, "bob", 60, now=9.999999) == mine
            assert await store.terms(now=NOW) == [mine]

    # extending a term

    @proves("L1")
    async def test_the_leader_extends_its_own_term(self) -> None:
        async with self.opened() as store:
            await lead(store, "ada", 10)
            assert await lead(store, "ada", 18, now=8) == leader("ada", 1, later(18))
            assert await lead(store, "bob", 30, now=12) == leader("ada", 1, later(18))

    @proves("L3")
    async def test_a_term_has_ended_at_its_until(self) -> None:
        async with self.opened() as store:
            await lead(store, "ada", 10)
            assert len(await store.terms(now=later(9.999999))) == 1
            assert await store.terms(now=later(10)) == []
            assert await lead(store, "bob", 20, now=10) == leader("bob", 2, later(20))

    @proves("L2")
    async def test_a_leader_that_returns_after_its_term_starts_a_new_term(self) -> None:
        async with self.opened() as store:
            await lead(store, "ada", 10)
            assert await lead(store, "ada", 20, now=10) == leader("ada", 2, later(20))

    # end of a term

    @proves("L1", "L2")
    async def test_the_leader_ends_its_term_and_the_next_one_begins_at_once(self) -> None:
        async with self.opened() as store:
            await lead(store, "ada", 10)
            assert await lead(store, "ada", 3, now=3) == leader(None, 1, later(3))
            assert await store.terms(now=later(3)) == []
            assert await lead(store, "bob", 20, now=3) == leader("bob", 2, later(20))

    @proves("L1")
    async def test_the_term_of_another_holder_cannot_be_ended(self) -> None:
        async with self.opened() as store:
            mine = await lead(store, "ada", 10)
            assert await lead(store, "bob", 3, now=3) == mine
            assert await store.terms(now=later(3)) == [mine]

    @proves("L2")
    async def test_ending_a_term_that_does_not_exist_starts_none(self) -> None:
        async with self.opened() as store:
            assert await lead(store, "ada", 0) == leader(None, 0, NOW)
            assert await store.terms(now=NOW) == []
            assert (await lead(store, "bob", 10)).term == 1

    @proves("L4")
    async def test_ending_an_ended_term_does_not_reuse_its_number(self) -> None:
        async with self.opened() as store:
            await lead(store, "ada", 10)
            assert await lead(store, "ada", 20, now=20) == leader(None, 1, later(20))
            assert (await lead(store, "ada", 40, now=30)).term == 2

    @proves("L1")
    async def test_a_term_that_was_given_up_has_ended_for_a_caller_whose_clock_is_behind(self) -> None:
        async with self.opened() as store:
            await lead(store, "ada", 30)
            await lead(store, "ada", 20, now=20)
            assert await store.terms(now=later(10)) == []
            assert await lead(store, "bob", 40, now=10) == leader("bob", 2, later(40))

    @proves("L4")
    async def test_term_numbers_are_never_reused(self) -> None:
        async with self.opened() as store:
            terms = []
            for n in range(0, 60, 6):
                terms.append((await lead(store, "ada", n + 2, now=n)).term)
                await lead(store, "ada", n, now=n)
                terms.append((await lead(store, "bob", n + 4, now=n + 3)).term)
            assert terms == list(range(1, 21))

    # several names

    @proves("L5")
    async def test_leader_names_have_independent_terms_and_are_listed_by_name(self) -> None:
        async with self.opened() as store:
            for name in ("b", "a", "ü", "a:1"):
                await lead(store, "ada", 10, name=name)
            await lead(store, "bob", 20, name="c")
            await lead(store, "ada", 0, name="b")
            listed = [(one.name, one.holder, one.term) for one in await store.terms(now=NOW)]
            assert listed == [("a", "ada", 1), ("a:1", "ada", 1), ("c", "bob", 1), ("ü", "ada", 1)]
