"""The rules of the Store contract that are not on a hot path, written once for all stores.

Pure functions on records: conflict.py, outcome.py, actions.py, circuit.py, terms.py, filters.py, keys.py. Rules on
tables (tables.py): enqueue.py, finish.py, fire.py, change.py, claim.py; they write jobs through job_ends.py.
"""

from .actions import apply_action, expire_if_due, refusal_of, update_of
from .circuit import next_circuit
from .conflict import resolve_conflict, size_of, to_job
from .filters import brief_job, matches_audit_filter, matches_filter, unique_ids
from .fire import CANCELLED_BY_SCHEDULE, firing_is_current, held_keys
from .outcome import apply_outcome, is_newer_progress, is_plain_completion, new_execution, set_aside
from .terms import next_term
from .workers import SILENT_WORKER_RETENTION, next_commands

__all__ = [
    "CANCELLED_BY_SCHEDULE",
    "SILENT_WORKER_RETENTION",
    "apply_action",
    "apply_outcome",
    "brief_job",
    "expire_if_due",
    "firing_is_current",
    "held_keys",
    "is_newer_progress",
    "is_plain_completion",
    "matches_audit_filter",
    "matches_filter",
    "new_execution",
    "next_circuit",
    "next_commands",
    "next_term",
    "refusal_of",
    "resolve_conflict",
    "set_aside",
    "size_of",
    "to_job",
    "unique_ids",
    "update_of",
]
