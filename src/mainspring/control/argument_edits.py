"""Edits of a job's arguments: the payload with some of them replaced."""

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

# Jobs and characters of arguments per step: a store encodes them in the event loop.
MAX_EDITED_JOBS = 200
MAX_EDITED_CHARACTERS = 128 << 10


def with_arguments(
    job: Job, update: Update, arguments: Mapping[str, Any], task: Task[Any, Any] | None, limit: int
) -> Update:
    """The update with the new payload of at most `limit` bytes, checked like a new call of the task."""
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


def in_batches(updates: Mapping[JobId, Update]) -> Iterator[dict[JobId, Update]]:
    """The updates in batches of one step each; a large one is a batch by itself."""
    batch, characters = dict[JobId, Update](), 0
    for id, update in updates.items():
        size = 0 if isinstance(update.payload, UnsetType) else len(update.payload)
        if batch and characters + size > MAX_EDITED_CHARACTERS:
            yield batch
            batch, characters = {}, 0
        batch[id] = update
        characters += size
    if batch:
        yield batch
