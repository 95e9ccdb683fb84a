"""A job's payload with some of its arguments changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import UnsetType
from msgspec.structs import replace

from ..bounds import has_too_many_parts
from ..codec import decode_or_text, encode_call
from ..errors import BadPayload
from ..ids import JobId
from ..records.job import Job, is_internal
from ..records.query import Update
from ..task.task import Task

# Jobs whose arguments are changed in one step, and characters of these: a store encodes them in the event loop.
MAX_EDITED_JOBS = 200
MAX_EDITED_CHARACTERS = 128 << 10


def with_arguments(
    job: Job, update: Update, arguments: Mapping[str, Any], task: Task[Any, Any] | None, limit: int
) -> Update:  # fmt: skip
    """The update with that payload, of at most `limit` bytes; checked as a new call of its task would be."""
    if is_internal(job.task):
        raise BadPayload(f"task {job.task!r} is internal: only Mainspring itself says what its jobs do")
    if has_too_many_parts(job.payload):
        raise BadPayload(f"the arguments of job {job.id} have too many parts to be edited: enqueue another job")
    old = decode_or_text(job.payload)
    payload = encode_call(job.task, {**(old if isinstance(old, dict) else {}), **arguments}, limit)
    if task is None:
        return replace(update, payload=payload, fingerprint=None)
    task.arguments.check(payload)
    return replace(update, payload=payload, fingerprint=task.arguments.fingerprint)


def in_lots(updates: Mapping[JobId, Update]) -> Iterator[dict[JobId, Update]]:
    """As many at a time as one step takes; a large one by itself."""
    lot, characters = dict[JobId, Update](), 0
    for id, update in updates.items():
        size = 0 if isinstance(update.payload, UnsetType) else len(update.payload)
        if lot and characters + size > MAX_EDITED_CHARACTERS:
            yield lot
            lot, characters = {}, 0
        lot[id] = update
        characters += size
    if lot:
        yield lot
