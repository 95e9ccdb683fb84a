"""record and audit: entries are recorded once, get their outcome once, and are read newest first."""

from __future__ import annotations

from typing import Any

from ...ids import new_id
from ...records.audit import AuditEntry, AuditFilter
from .build import SPECIAL_TEXTS, Contract, later
from .sentences import proves


def an_entry(n: int, **fields: Any) -> AuditEntry:
    given = {"at": later(n), "who": "ada", "action": "jobs.cancel", "target": "a job"}
    return AuditEntry(**{"id": new_id(later(n)), **given, **fields})


class AuditContract(Contract):
    @proves("V11")
    async def test_record_of_no_entries_is_no_error(self) -> None:
        async with self.opened() as store:
            await store.record([])
            assert await store.audit(AuditFilter(), limit=10) == []

    @proves("AU1", "AU3")
    async def test_audit_entries_are_paged_newest_first(self) -> None:
        async with self.opened() as store:
            entries = [an_entry(n, who=who, asked='{"n":1}') for n, who in enumerate(SPECIAL_TEXTS)]
            await store.record(entries)
            found = await store.audit(AuditFilter(), limit=3)
            assert found == entries[:-4:-1]
            assert await store.audit(AuditFilter(), limit=100, before=found[-1].id) == entries[-4::-1]

    @proves("AU3")
    async def test_audit_entries_are_filtered_by_actor_action_target_and_time(self) -> None:
        async with self.opened() as store:
            acts = ["jobs.cancel", "jobs.retry", "jobsx.cancel", "schedules.pause"]
            entries = [
                an_entry(n, who="bob" if n % 2 else "ada", action=act, target=f"t{n}") for n, act in enumerate(acts)
            ]
            await store.record(entries)

            async def targets(**which: Any) -> list[str]:
                return [one.target for one in await store.audit(AuditFilter(**which), limit=100)]

            assert await targets(who="bob") == ["t3", "t1"]
            assert await targets(action="jobs.cancel") == ["t0"]
            assert await targets(action="jobs") == ["t1", "t0"]
            assert await targets(target="t2") == ["t2"]
            assert await targets(since=later(1), until=later(3)) == ["t2", "t1"]
            assert await targets(who="ada", action="jobs") == ["t0"]

    @proves("AU2")
    async def test_an_audit_entry_gets_its_outcome_once_and_does_not_change_otherwise(self) -> None:
        async with self.opened() as store:
            entry = an_entry(1)
            await store.record([entry])
            await store.record([entry])
            with_outcome = an_entry(1, id=entry.id, who="mallory", at=later(9), outcome='{"done":1}')
            await store.record([with_outcome])
            await store.record([an_entry(1, id=entry.id, who="eve", outcome='{"done":2}')])
            (found,) = await store.audit(AuditFilter(), limit=100)
            assert (found.who, found.at, found.outcome) == ("ada", later(1), '{"done":1}')
