"""A task's circuit after the outcome of a run. Pure."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from ...records.circuit import Circuit
from ...records.outcome import Outcome
from ...records.run import WENT_WELL, WENT_WRONG, Ending

# A discarded run had bad input; that is no fault of the task.
_TRIPPING_ENDINGS = WENT_WRONG - {Ending.DISCARDED}


def next_circuit(circuit: Circuit | None, outcome: Outcome) -> Circuit | None:
    """A task's circuit after an accepted outcome; None if it is closed with no failures to count."""
    probing = circuit is not None and circuit.probe == outcome.id
    if outcome.task and outcome.ending in WENT_WELL:
        return None
    breaker = outcome.breaker
    if breaker is None or not outcome.task or outcome.ending not in _TRIPPING_ENDINGS:
        return replace(circuit, probe=None) if circuit is not None and probing else circuit
    failures = 1 + (circuit.failures if circuit else 0)
    until = circuit.open_until if circuit else None
    if probing or (until is None and failures >= breaker.failures):
        until = outcome.finished_at + timedelta(seconds=breaker.cooldown)
    probe = None if circuit is None or probing else circuit.probe
    return Circuit(outcome.task, failures, until, probe)
