"""Dead letters: what a handler is told about a job that is out of retries."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..clock import EPOCH
from ..codec import decode_or_text
from ..errors import BadPayload, BadTask
from ..ids import JobId
from ..mask import mask_to_cut
from ..records.job import Job, NewJob, State
from ..records.outcome import Outcome
from ..records.run import Failure
from ..survived_errors import count_error
from .task import Task

_logger = logging.getLogger("mainspring")
# Characters of an error in a letter that would be too long with all of it.
MAX_MESSAGE_CHARACTERS = 1000
# On the handler's own job: whose death it is about. Such a job's own death is not told to anybody.
METADATA_KEY = "dead_letter_of"


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A job that died, as its handler gets it."""

    job_id: JobId
    task: str
    queue: str
    arguments: Any
    """By name; as text if the payload could not even be read."""
    failure: Failure
    attempts: int
    crashes: int
    created_at: datetime
    died_at: datetime
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}


def dead_letter_of(job: Job, outcome: Outcome) -> DeadLetter:
    return DeadLetter(
        job_id=job.id, task=job.task, queue=job.queue, arguments=decode_or_text(job.payload),
        failure=outcome.failure or Failure("Dead", "no reason given"), attempts=job.attempt,
        crashes=job.crashes + outcome.crash, created_at=job.created_at, died_at=outcome.finished_at, tags=job.tags,
        metadata=job.metadata,
    )  # fmt: skip


def with_dead_letter_jobs(job: Job, outcome: Outcome, handlers: Sequence[Task[Any, Any]]) -> Outcome:
    """The outcome with a job for each handler, if it means the job's death. Never keeps the job from dying."""
    if outcome.state is not State.DEAD or not handlers or METADATA_KEY in job.metadata:
        return outcome
    told, notices = dead_letter_of(job, outcome), []
    for handler in dict.fromkeys(handlers):
        try:
            notices.append(_notice(handler, told))
        except Exception as error:  # a key of the handler's own, or a limit smaller than any letter
            text = "job %s died, and dead-letter handler %r could not be told"
            _logger.exception(text, job.id, handler.name)
            count_error("dead_letter", error)
    return replace(outcome, then=tuple(notices))


def _notice(handler: Task[Any, Any], told: DeadLetter) -> NewJob:
    try:
        notice = handler.job(told)
    except BadPayload:  # too long with all it carries: the job itself has the rest
        short = Failure(told.failure.type, mask_to_cut(told.failure.message)[:MAX_MESSAGE_CHARACTERS])
        left_out = "(left out: too long for a letter; see the job)"
        notice = handler.job(replace(told, arguments=left_out, metadata={}, failure=short))
    return replace(notice, metadata={**notice.metadata, METADATA_KEY: told.job_id})


def check_handler(task: Task[Any, Any]) -> Task[Any, Any]:
    """Refuses a handler that a letter does not fit, before anything has died."""
    empty = DeadLetter(
        job_id="", task="", queue="", arguments={}, failure=Failure("", ""), attempts=0, crashes=0,
        created_at=EPOCH, died_at=EPOCH,
    )  # fmt: skip
    try:
        task.arguments.encode((empty,), {}, 1 << 20)
    except BadPayload as bad:
        fits = f"def {task.name}(letter: DeadLetter)"
        raise BadTask(f"dead-letter handler {task.name!r} must take one DeadLetter: {fits}; {bad}") from None
    return task
