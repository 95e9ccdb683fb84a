"""Audit entries in words: what was changed, and the reason given. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..codec import decode_or_text
from ..records.audit import AuditEntry
from ..records.job import FINAL, SHOWN

# Names or ids listed in one text.
_MAX_NAMES = 3
_THINGS = {"dead": "dead jobs", "session": "sessions"}
# How a sentence expresses each field of a filter.
_PARTS: Mapping[str, str] = {
    "queues": "in queue", "tasks": "of task", "task": "of task", "tags": "tagged", "schedules": "of schedule",
    "workers": "on worker", "errors": "that failed with", "error": "that failed with", "outcome": "that ended",
    "key_prefix": "whose key begins with", "created_after": "created from", "created_before": "created until",
    "q": "with a name like", "owner": "declared by", "names": "named",
}  # fmt: skip
# Sets of states that have a word of their own.
_FINISHED = {state.value for state in FINAL}
_GROUPS = {"unfinished": set(SHOWN) - _FINISHED, "finished": _FINISHED}
_OWNERS = {"code": "code", "user": "users"}


def target_text(action: str, target: str) -> str:
    """For example "dead jobs of task send in queue mail"; a name or an id is returned unchanged."""
    chosen = decode_or_text(target) if target.startswith("{") else None
    if not isinstance(chosen, dict):
        return target
    noun = action.partition(".")[0]
    things = _THINGS.get(noun, noun)
    counts = {
        name: chosen.pop(f"{name}_count") for name in list(chosen) if isinstance(chosen.get(f"{name}_count"), int)
    }
    named = next((name for name in ("ids", "names") if isinstance(chosen.get(name), list)), None)
    states = chosen.pop("states", None) or chosen.pop("status", None)
    if named is not None:
        total = counts.get(named, len(chosen[named]))
        return f"{total:,} {things}: {_list(chosen[named], total)}"
    words = [f"{_any(states)} {things}" if states else things]
    words += [
        f"{_PARTS.get(name, name)} {_value(name, value)}{_more(value, counts.get(name, 0))}"
        for name, value in chosen.items()
    ]
    return " ".join(words) if chosen or states else f"all {things}"


def reason_of(entry: AuditEntry) -> str | None:
    """The reason given for the change: that of a cancel, or the note of a pause."""
    arguments = decode_or_text(entry.asked)
    if not isinstance(arguments, dict):
        return None
    reason = arguments.get("reason") or arguments.get("note")
    return reason if isinstance(reason, str) and reason else None


def _value(name: str, value: Any) -> str:
    if name == "owner":
        return _OWNERS.get(value, str(value))
    joined = " and " if name == "tags" else " or "
    return joined.join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _any(values: Any) -> str:
    for word, states in _GROUPS.items():
        if isinstance(values, list) and set(values) == states:
            return word
    return " or ".join(map(str, values)) if isinstance(values, list | tuple) else str(values)


def _list(names: Sequence[Any], total: int) -> str:
    more = f", and {total - _MAX_NAMES:,} more" if total > _MAX_NAMES else ""
    return ", ".join(map(str, names[:_MAX_NAMES])) + more


def _more(values: Any, total: int) -> str:
    return f" or {total - len(values):,} more" if total and isinstance(values, list) else ""
