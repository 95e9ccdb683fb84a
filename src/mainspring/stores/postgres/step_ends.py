"""Writes plain ends of steps, and the moves of their flows, in a transaction."""

from __future__ import annotations

from collections.abc import Sequence

from ...records.outcome import Outcome
from ..rules.finish import follow_completion
from .completions import complete_all
from .flow_rows import add_flows
from .pool import Session
from .tables import LockedTables, write


class NotAccepted(Exception):
    """One of the outcomes is not accepted, or a circuit exists: the transaction has to be rolled back."""


async def write_step_ends(db: Session, outcomes: Sequence[Outcome]) -> LockedTables:
    """Writes plain completions of different jobs of steps, without a schedule or jobs that follow."""
    tables = LockedTables()
    # Flows are locked before jobs.
    await add_flows(db, tables, {outcome.step.flow: None for outcome in outcomes if outcome.step is not None})
    if not await complete_all(db, outcomes, None, []):
        raise NotAccepted
    tables.add_circuits({})  # else the statement would have failed
    for outcome in outcomes:
        follow_completion(tables, outcome)
    tables.counted.clear()  # the statement has counted them
    await write(db, tables, "finish.mid_batch")
    return tables
