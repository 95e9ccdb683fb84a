"""A job's payload with some of its arguments changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ..bounds import has_too_many_parts
from ..codec import data, encode_call
from ..errors import BadPayload
from ..job import Job, Update, is_internal
from ..task import Task

# Jobs whose arguments are changed in one step.
MAX_EDITED_JOBS = 200


def with_arguments(
    job: Job, update: Update, arguments: Mapping[str, Any], task: Task[Any, Any] | None, limit: int
) -> Update:  # fmt: skip
    """The update with that payload, of at most `limit` bytes; checked as a new call of its task would be."""
    if is_internal(job.task):
        raise BadPayload(f"task {job.task!r} is internal: only Mainspring itself says what its jobs do")
    if has_too_many_parts(job.payload):
        raise BadPayload(f"the arguments of job {job.id} have too many parts to be edited: enqueue another job")
    old = data(job.payload)
    payload = encode_call(job.task, {**(old if isinstance(old, dict) else {}), **arguments}, limit)
    if task is None:
        return replace(update, payload=payload, fingerprint=None)
    task.arguments.check(payload)
    return replace(update, payload=payload, fingerprint=task.arguments.fingerprint)
