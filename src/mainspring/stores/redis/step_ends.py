"""Plain ends of steps: written beside the claim, as finish.lua writes them, together with the moves of their flows.

This repeats the rule rules.finish.finish_one for the usual case; test_redis_flows.py compares the two. The rule handles
everything else, and flows that lost a race.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from ...clock import micros
from ...ids import JobId
from ...records.job import State
from ...records.outcome import Outcome
from ..rules.finish import follow_completion
from ..rules.loaded import LoadedTables
from ..rules.read_sets import Name
from .diff import unit_of
from .flow_rows import locks_of_flow
from .index import Command, step_entry, steps_key, steps_set
from .plain import PlannedItem, counts_of, merged, write_planned
from .reads import fetch
from .records import FLAG_KEYED, FLAG_RETRIED, packed
from .shard import Shard, Shards
from .snapshot import Snapshot
from .transact import settle
from .two_phase import Unit, commit, has

# Times that an end is tried, since a flow may change meanwhile, before it is left to the rule.
MAX_TRIES = 3
# Outcomes that are read and written together.
MAX_ENDS = 1_000
# Commands that may be merged with others of the same name and key.
MERGEABLE = frozenset({"HSET", "HDEL", "ZADD", "ZREM", "SADD", "SREM", "RPUSH", "GROUP"})


class FlowEnds:
    """The plain ends of one flow's steps, and what the flow makes of them."""

    def __init__(self, flow: JobId) -> None:
        self.flow = flow
        self.outcomes: list[Outcome] = []
        self.tables = LoadedTables(flows=True)

    def is_plain(self) -> bool:
        """Whether the flow's move changes none of the jobs that end."""
        ids = {outcome.id for outcome in self.outcomes}
        return not any(changed.id in ids for changed in self.tables.changed_jobs())


async def finish_steps(shards: Shards, outcomes: Sequence[Outcome], others: set[JobId]) -> set[JobId]:
    """The jobs whose end was written. `others` are flows with steps that are finished in another way."""
    mixed = others | {one.step.flow for one in outcomes if one.step is not None and not is_plain_step(one)}
    chosen = [one for one in outcomes if one.step is not None and one.step.flow not in mixed]
    done = set[JobId]()
    for start in range(0, len(chosen), MAX_ENDS):
        left = chosen[start : start + MAX_ENDS]
        for _ in range(MAX_TRIES):
            written, left = await _finish_some(shards, left)
            done |= written
            if not left:
                break
    return done


def is_plain_step(outcome: Outcome) -> bool:
    """Whether the completion of a step carries nothing but a result."""
    return outcome.schedule is None and outcome.account is None and outcome.step_end is None


def is_plain_item(outcome: Outcome) -> bool:
    """Whether finish.lua may count the completion of a map's item. The job that makes the items has index 0."""
    return outcome.step is not None and outcome.step.index > 0 and is_plain_step(outcome)


async def _finish_some(shards: Shards, outcomes: Sequence[Outcome]) -> tuple[set[JobId], list[Outcome]]:
    """The jobs whose end was written, and the outcomes whose flow another writer has changed meanwhile."""
    snapshot = Snapshot()
    flows = dict.fromkeys(outcome.step.flow for outcome in outcomes if outcome.step is not None)
    names = [Name("circuits", ""), *(Name("flow", id) for id in flows)]
    _, claims = await asyncio.gather(fetch(shards, snapshot, names), _claims(shards, outcomes))
    plain = [one for one in _by_flow(outcomes) if all(_runs(snapshot, end, claims.get(end.id)) for end in one.outcomes)]
    for one in plain:
        snapshot.fill(one.tables, [Name("circuits", ""), Name("flow", one.flow)])
        for outcome in one.outcomes:
            follow_completion(one.tables, outcome)
    await settle(shards, snapshot, [one.tables for one in plain])
    plain = [one for one in plain if one.is_plain()]
    if len(shards.all) == 1:
        done = await _write(shards, snapshot, plain, claims)
    else:
        units = [_merged(_unit(shards, snapshot, one, claims)) for one in plain]
        written = await commit(shards, units, "new final")
        done = {end.id for one, ended in zip(plain, written, strict=True) if ended for end in one.outcomes}
    return done, [end for one in plain for end in one.outcomes if end.id not in done]


def _by_flow(outcomes: Iterable[Outcome]) -> list[FlowEnds]:
    found: dict[JobId, FlowEnds] = {}
    for outcome in outcomes:
        if outcome.step is not None:
            id = outcome.step.flow
            found.setdefault(id, FlowEnds(id)).outcomes.append(outcome)
    return list(found.values())


async def _claims(shards: Shards, outcomes: Sequence[Outcome]) -> dict[JobId, bytes]:
    """The claims of the jobs that are running."""
    found: dict[JobId, bytes] = {}
    shares: dict[Shard, list[JobId]] = {}
    for outcome in outcomes:
        shares.setdefault(shards.of(outcome.queue), []).append(outcome.id)

    async def read(shard: Shard) -> None:
        claims = await shard.call("HMGET", f"{shard.base}:run", *map(packed, shares[shard]))
        found.update((id, claim) for id, claim in zip(shares[shard], claims, strict=True) if claim is not None)

    await shards.each(read, shares)
    return found


def _runs(snapshot: Snapshot, outcome: Outcome, claim: bytes | None) -> bool:
    """Whether the job runs under that lease, holds no key, was not tried before, and its task has no circuit."""
    if claim is None or outcome.task in snapshot.known_circuits():
        return False
    lease, _, _, letter, _, task = claim.split(b"\0", 5)
    same = lease == outcome.lease.encode() and task == outcome.task.encode()
    return same and not letter[0] & (FLAG_KEYED | FLAG_RETRIED)


async def _write(
    shards: Shards, snapshot: Snapshot, flows: Sequence[FlowEnds], claims: dict[JobId, bytes]
) -> set[JobId]:
    """Writes the flows of one server, many in one script. Their runs are counted together."""
    fit, planned, seen = list[FlowEnds](), list[PlannedItem](), set[tuple[str, str | bytes]]()
    for one in flows:
        one.tables.counted.clear()
        unit = _unit(shards, snapshot, one, claims)
        fields = {(condition.key, condition.field) for condition in unit.conditions}
        # Two flows that change the same job, such as one in the other, are not written by one script.
        if seen.isdisjoint(fields) and all(command[0] in MERGEABLE for command in unit.commands):
            seen |= fields
            fit.append(one)
            planned.append(PlannedItem([*unit.conditions], [*unit.commands]))
    base = shards.first.base

    def more(some: Sequence[FlowEnds]) -> list[Command]:
        return counts_of(base, [outcome for one in some for outcome in one.outcomes])

    written = await write_planned(shards.first, fit, planned, more, "new final")
    return {outcome.id for n in written for outcome in fit[n].outcomes}


def _unit(shards: Shards, snapshot: Snapshot, one: FlowEnds, claims: dict[JobId, bytes]) -> Unit:
    unit = unit_of(shards, snapshot, one.tables, max(micros(outcome.finished_at) for outcome in one.outcomes))
    conditions, commands = [*unit.conditions], list[Command]()
    for outcome in one.outcomes:
        base, short, claim = shards.of(outcome.queue).base, packed(outcome.id), claims[outcome.id]
        conditions.append(has(f"{base}:run", short, claim))
        commands += _end_commands(base, short, claim, outcome)
    conditions += locks_of_flow(snapshot.flows, one.flow, (shards.of(end.queue).base for end in one.outcomes))
    return Unit(conditions, [*commands, *unit.commands])


def _merged(unit: Unit) -> Unit:
    whole = all(command[0] in MERGEABLE for command in unit.commands)
    return Unit(unit.conditions, [*merged(unit.commands)]) if whole else unit


def _end_commands(base: str, short: bytes, claim: bytes, outcome: Outcome) -> list[Command]:
    """The commands that end a job, as finish.lua does."""
    assert outcome.step is not None
    at, head = micros(outcome.finished_at), claim.split(b"\0", 3)
    result = b"0" if outcome.result is None else b"1" + outcome.result.encode()
    entry, flow = step_entry(outcome.step.position, short), outcome.step.flow
    return [
        ("HDEL", f"{base}:run", short),
        ("HSET", f"{base}:end", short, b"\0".join((*head[:3], b"%d" % at, result))),
        ("SREM", f"{base}:held:{head[1].decode()}", short),
        ("ZADD", f"{base}:ended:completed\0{outcome.task}", at, short),
        ("SADD", f"{base}:ends", f"completed\0{outcome.task}"),
        ("ZREM", f"{base}:{steps_key(flow, 'open')}", entry),
        ("ZADD", f"{base}:{steps_key(flow, steps_set(State.COMPLETED))}", 0, entry),
    ]
