"""Jobs with some of their arguments changed, each as a new call of its task would have them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ..codec import data, encode_call
from ..errors import BadPayload
from ..job import Job, Update, is_internal
from .ground import Ground

# Jobs whose arguments are changed in one step: they are at hand as a whole, and may be large.
MAX_EDITED_JOBS = 200
# Characters of payloads after which other tasks have their turn: decoding that many takes some milliseconds.
TURN_CHARACTERS = 64 << 10


def new_arguments(ground: Ground, job: Job, update: Update, arguments: Mapping[str, Any]) -> Update:
    """The update with the job's payload, some arguments of it changed. Raises BadPayload if its task refuses them."""
    if is_internal(job.task):
        raise BadPayload(f"task {job.task!r} is internal: only Mainspring itself says what its jobs do")
    old = data(job.payload)
    merged = {**(old if isinstance(old, dict) else {}), **arguments}
    limit, task = ground.settings.payload_limit, ground.tasks.get(job.task)
    payload = encode_call(job.task, merged, limit)
    if task is None:
        return replace(update, payload=payload, fingerprint=None)
    task.arguments.check(payload)
    return replace(update, payload=payload, fingerprint=task.arguments.fingerprint)


async def in_turns(jobs: Sequence[Job]) -> AsyncIterator[Job]:
    """Each of them, with turns for other tasks in between."""
    characters = 0
    for job in jobs:
        yield job
        characters += len(job.payload) + TURN_CHARACTERS // MAX_EDITED_JOBS
        if characters >= TURN_CHARACTERS:
            characters = 0
            await asyncio.sleep(0)
