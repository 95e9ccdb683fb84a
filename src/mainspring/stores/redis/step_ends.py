"""Plain ends of steps, together with the moves of their flows: by finish.lua, or over shards by commands like its own.

This repeats the rule rules.finish.finish_one for the usual case; test_redis_flows.py compares the two. The rule handles
everything else, and flows that lost a race.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ...clock import micros
from ...ids import JobId
from ...records.job import State
from ...records.outcome import Outcome
from ..rules.finish import follow_completion
from ..rules.loaded import LoadedTables
from ..rules.read_sets import Name
from .connection import Arg
from .diff import job_commands, job_conditions, raw_of
from .finish_script import end_plain
from .flow_rows import locks_of_flow, move_of
from .index import Command, step_entry, steps_key, steps_set
from .plain import counts_of
from .reads import fetch
from .records import FLAG_KEYED, FLAG_RETRIED, packed
from .shard import Shard, Shards
from .snapshot import Snapshot
from .transact import settle
from .two_phase import MAX_SCRIPT_ARGS, Condition, Unit, base_of, commit, has

# Times that an end is tried, since a flow may change meanwhile, before it is left to the rule.
MAX_TRIES = 3
# Outcomes that are read and written together.
MAX_ENDS = 1_000


class StepMove(NamedTuple):
    """The plain ends of one flow's steps, and what the flow makes of them."""

    flow: JobId
    outcomes: Sequence[Outcome]
    conditions: list[Condition]
    commands: list[Command]

    def words(self) -> list[Arg]:
        """The unit as prelude.lua reads it."""
        words: list[Arg] = [len(self.conditions)]
        for condition in self.conditions:
            words += condition
        for command in self.commands:
            words.append(len(command))
            words += command
        return words


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
    snapshot, ends = Snapshot(), _by_flow(outcomes)
    await fetch(shards, snapshot, [Name("circuits", ""), *(Name("flow", id) for id in ends)])
    tripped = snapshot.known_circuits()
    ends = {id: some for id, some in ends.items() if not any(end.task in tripped for end in some)}
    tables, ends = await _played(shards, snapshot, ends)
    local, spread = dict[Shard, list[StepMove]](), list[StepMove]()
    for move in _moves(shards, snapshot, tables, ends):
        shard = _shard_of(shards, move)
        (spread if shard is None else local.setdefault(shard, [])).append(move)
    done, again = set[JobId](), list[Outcome]()
    written = await shards.each(lambda shard: _finish_in(shards, shard, local[shard]), local) if local else []
    for ended, raced in [*written, await _finish_spread(shards, snapshot, spread)]:
        done |= ended
        again += raced
    return done, again


def _by_flow(outcomes: Iterable[Outcome]) -> dict[JobId, list[Outcome]]:
    found: dict[JobId, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.step is not None:
            found.setdefault(outcome.step.flow, []).append(outcome)
    return found


async def _played(
    shards: Shards, snapshot: Snapshot, ends: dict[JobId, list[Outcome]]
) -> tuple[LoadedTables, dict[JobId, list[Outcome]]]:
    """Tables in which these flows have moved together, each by itself. Those that change more are left out."""
    while True:
        tables = LoadedTables(flows=True)
        snapshot.fill(tables, [Name("circuits", ""), *(Name("flow", id) for id in ends)])
        for some in ends.values():
            for outcome in some:
                follow_completion(tables, outcome)
        await settle(shards, snapshot, [tables])
        if not (entangled := _entangled(tables, ends)):
            return tables, ends
        ends = {id: some for id, some in ends.items() if id not in entangled}


def _entangled(tables: LoadedTables, ends: Mapping[JobId, Sequence[Outcome]]) -> Collection[JobId]:
    """The flows that change more than their row, new steps and their own job, which is due when the flow is over. All
    of them if it cannot be told which ones do."""
    found = set[JobId]()
    for id, old, new in tables.changed_jobs():
        if old is not None and id in ends and new is not None:
            continue
        step = old.step if old is not None else None if new is None else new.step
        if step is None or step.flow not in ends:
            return ends.keys()
        if old is not None:
            found.add(step.flow)
    begun = {id for id, _ in tables.plans}
    found |= {job.step.flow for _, _, job in tables.changed_jobs() if job is not None and job.step and job.id in begun}
    alone = tables.flows_read <= ends.keys() and tables.changed_flows().keys() <= ends.keys() | begun
    others = tables.changed_schedules() or tables.changed_circuits() or tables.executions
    return found if alone and not others else ends.keys()


def _moves(
    shards: Shards, snapshot: Snapshot, tables: LoadedTables, ends: Mapping[JobId, Sequence[Outcome]]
) -> Collection[StepMove]:
    moves = {id: StepMove(id, outcomes, [], []) for id, outcomes in ends.items()}
    for id, flow in tables.changed_flows().items():
        assert flow is not None
        conditions, commands = move_of(shards, snapshot.flows[id], tables, flow)
        moves[id].conditions.extend(conditions)
        moves[id].commands.extend(commands)
    for id, old, new in tables.changed_jobs():
        assert new is not None
        move = moves[id if old is not None or new.step is None else new.step.flow]
        now = max(micros(outcome.finished_at) for outcome in move.outcomes)
        move.conditions.extend(job_conditions(shards, snapshot, id, old, new))
        move.commands.extend(job_commands(shards, snapshot, id, raw_of(snapshot, id), old, new, now))
    return moves.values()


def _shard_of(shards: Shards, move: StepMove) -> Shard | None:
    """The shard of everything that changes with the ends. None if there are several, or if it is too much for a call of
    a script."""
    if sum(map(len, move.commands)) > MAX_SCRIPT_ARGS:
        return None
    if len(shards.all) == 1:
        return shards.first
    found = {shards.of(outcome.queue).base for outcome in move.outcomes}
    found.update(base_of(str(command[1])) for command in move.commands)
    found.update(base_of(condition.key) for condition in move.conditions)
    return shards.by_base(found.pop()) if len(found) == 1 else None


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


def _runs(outcome: Outcome, claim: bytes | None) -> bool:
    """Whether the job runs under that lease, holds no key, and was not tried before."""
    if claim is None:
        return False
    lease, _, _, letter, _, task = claim.split(b"\0", 5)
    same = lease == outcome.lease.encode() and task == outcome.task.encode()
    return same and not letter[0] & (FLAG_KEYED | FLAG_RETRIED)


async def _finish_in(shards: Shards, shard: Shard, moves: Sequence[StepMove]) -> tuple[set[JobId], list[Outcome]]:
    """The jobs that finish.lua ended with the moves of their flows, and the outcomes of flows that lost a race."""
    done, again, alone = set[JobId](), list[Outcome](), len(shards.all) == 1
    for some in _batches(moves):
        for _ in range(2):  # the second time without those that are not plain or have lost a race
            outcomes = [outcome for move in some for outcome in move.outcomes]
            odd = await end_plain(shard, outcomes, alone, {move.flow: move.words() for move in some})
            if not (odd.jobs or odd.flows):
                done |= {outcome.id for outcome in outcomes}
                break
            again += [outcome for move in some if move.flow in odd.flows for outcome in move.outcomes]
            some = [move for move in some if move.flow not in odd.flows and _all_end(move, odd.jobs)]
            if not some:
                break
        else:
            again += [outcome for move in some for outcome in move.outcomes]
    return done, again


def _all_end(move: StepMove, odd: Collection[JobId]) -> bool:
    return not any(outcome.id in odd for outcome in move.outcomes)


def _batches(moves: Iterable[StepMove]) -> Iterator[list[StepMove]]:
    """The moves of each call of the script. No two of them change the same job."""
    batch, size = list[StepMove](), 0
    for move in moves:
        batch.append(move)
        size += sum(map(len, move.commands)) + len(move.outcomes)
        if size >= MAX_SCRIPT_ARGS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


async def _finish_spread(
    shards: Shards, snapshot: Snapshot, moves: Sequence[StepMove]
) -> tuple[set[JobId], list[Outcome]]:
    """As _finish_in(), for moves over several shards, and large ones."""
    claims = await _claims(shards, [outcome for move in moves for outcome in move.outcomes]) if moves else {}
    plain = [move for move in moves if all(_runs(end, claims.get(end.id)) for end in move.outcomes)]
    written = await commit(shards, [_unit(shards, snapshot, move, claims) for move in plain], "new final")
    done = {end.id for move, ended in zip(plain, written, strict=True) if ended for end in move.outcomes}
    return done, [end for move in plain for end in move.outcomes if end.id not in done]


def _unit(shards: Shards, snapshot: Snapshot, move: StepMove, claims: dict[JobId, bytes]) -> Unit:
    conditions, commands = [*move.conditions], list[Command]()
    by_base: dict[str, list[Outcome]] = {}
    for outcome in move.outcomes:
        base, short, claim = shards.of(outcome.queue).base, packed(outcome.id), claims[outcome.id]
        conditions.append(has(f"{base}:run", short, claim))
        commands += _end_commands(base, short, claim, outcome)
        by_base.setdefault(base, []).append(outcome)
    for base, some in by_base.items():
        commands += counts_of(base, some)
    commands += move.commands
    bases = [*(base_of(condition.key) for condition in conditions), *(base_of(str(one[1])) for one in commands)]
    return Unit([*conditions, *locks_of_flow(snapshot.flows, move.flow, bases)], commands)


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
