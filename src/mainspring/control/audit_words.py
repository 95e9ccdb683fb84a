"""Audit entries in words: what was changed, and the reason that was given. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..codec import data
from ..document import Entry
from ..job import FINAL, SHOWN

# Names and ids in one text.
_NAMED = 3
_THINGS = {"dead": "dead jobs", "session": "sessions"}
# Parts of a filter, and how a sentence puts them.
_PARTS: Mapping[str, str] = {
    "queues": "in queue", "tasks": "of task", "task": "of task", "tags": "tagged", "schedules": "of schedule",
    "workers": "on worker", "errors": "that failed with", "error": "that failed with", "outcome": "that ended",
    "key_prefix": "whose key begins with", "created_after": "created from", "created_before": "created until",
    "q": "with a name like", "owner": "declared by", "names": "named",
}  # fmt: skip
# Several states that have one word.
_FINISHED = {state.value for state in FINAL}
_GROUPS = {"unfinished": set(SHOWN) - _FINISHED, "finished": _FINISHED}
_OWNERS = {"code": "code", "user": "users"}


def target_text(action: str, target: str) -> str:
    """dead jobs of task send in queue mail; a name or an id is as it is."""
    chosen = data(target) if target.startswith("{") else None
    if not isinstance(chosen, dict):
        return target
    noun = action.partition(".")[0]
    things = _THINGS.get(noun, noun)
    ids = chosen.pop("ids", None) or (chosen.pop("names", None) if "names" in chosen else None)
    states = chosen.pop("states", None) or chosen.pop("status", None)
    if isinstance(ids, Sequence) and not isinstance(ids, str):
        return f"{len(ids):,} {things}: {_list(ids)}"
    words = [f"{_any(states)} {things}" if states else things]
    words += [f"{_PARTS.get(name, name)} {_value(name, value)}" for name, value in chosen.items()]
    return " ".join(words) if chosen or states else f"all {things}"


def reason_of(entry: Entry) -> str | None:
    """The reason that was given: the reason of a cancel, the note of a pause."""
    asked = data(entry.asked)
    if not isinstance(asked, dict):
        return None
    reason = asked.get("reason") or asked.get("note")
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


def _list(names: Sequence[Any]) -> str:
    more = f", and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(map(str, names[:_NAMED])) + more
