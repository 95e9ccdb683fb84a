"""Calls of finish.lua: plain ends of jobs, of items of maps, and of steps with the moves of their flows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from ...clock import micros
from ...ids import JobId, Lease
from ...records.outcome import Outcome
from ...records.run import Execution, RunNotes
from ...records.tally import sums_by_minute
from .connection import Arg
from .index import step_entry
from .item_counts import map_key
from .records import packed, unpacked
from .shard import Shard

_encode = msgspec.json.Encoder().encode
# Plain ends per call of the script: the server does nothing else meanwhile.
MAX_PLAIN = 1_000
NO_MOVES: Mapping[JobId, Sequence[Arg]] = {}


class NotPlain(NamedTuple):
    """What finish.lua does not end: nothing was written if there is any."""

    jobs: set[JobId]
    flows: set[JobId]
    """Those that have changed since their moves were made."""


async def end_plain(
    shard: Shard, outcomes: Sequence[Outcome], alone: bool, moves: Mapping[JobId, Sequence[Arg]] = NO_MOVES
) -> NotPlain:
    """Ends jobs of one shard by finish.lua, all or none of them.

    `alone`: there are no other shards, so this one records the keys of its jobs. `moves` are the units of the flows
    whose steps end; the steps of other flows are items of maps.
    """
    odd, raced = await shard.script("finish", _args(outcomes, alone, moves))
    return NotPlain({unpacked(id) for id in odd}, {flow.decode() for flow in raced})


def _args(outcomes: Sequence[Outcome], alone: bool, moves: Mapping[JobId, Sequence[Arg]]) -> list[Arg]:
    counts = [_encode((micros(at), queue, task, sums)) for (at, queue, task), sums in sums_by_minute(outcomes).items()]
    notes: list[Arg] = []
    steps: dict[tuple[JobId, int | str], list[bytes]] = {}
    leases: dict[Lease, tuple[Lease, list[bytes], list[str], list[str]]] = {}
    for outcome in outcomes:
        if outcome.account is not None:
            notes += (packed(outcome.id), outcome.id, _encode(_first_run(outcome, outcome.account)))
        if (lists := leases.get(outcome.lease)) is None:
            lists = leases[outcome.lease] = (outcome.lease, [], [], [])
        _, ids, instants, rest = lists
        ids.append(short := packed(outcome.id))
        if (step := outcome.step) is not None:
            part = step.flow, "" if step.flow in moves else map_key(step.position)
            steps.setdefault(part, []).append(step_entry(step.position, short))
        instants.append(str(micros(outcome.finished_at)))
        rest.append("0" if outcome.result is None else f"1{outcome.result}")
    args: list[Arg] = ["new final" if moves else "final", int(alone), len(counts), *counts, len(notes) // 3, *notes]
    args.append(len(steps))
    for (flow, key), entries in steps.items():
        unit = moves.get(flow, ())
        args += (flow, key, len(entries), *entries, len(unit), *unit)
    for lease, ids, instants, rest in leases.values():
        args += (lease, len(ids), *ids, *instants, *rest)
    return args


def _first_run(outcome: Outcome, notes: RunNotes) -> Execution:
    """The history row of a run with notes, if it is the first run of its job. finish.lua adds the worker."""
    return Execution(
        job_id=outcome.id,
        number=1,
        attempt=1,
        ending=outcome.ending,
        worker="",
        lease=outcome.lease,
        started_at=outcome.started_at or outcome.finished_at,
        finished_at=outcome.finished_at,
        result_size=len((outcome.result or "").encode()),
        items=notes.items,
        usage=notes.usage,
        metadata=notes.metadata,
    )
