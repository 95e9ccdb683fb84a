"""Dead letters: the jobs that inform handlers of a job that has died."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ..clock import EPOCH
from ..codec import decode_or_text
from ..errors import BadPayload, BadTask
from ..ids import JobId
from ..records.job import Job, NewJob, State
from ..records.outcome import Outcome
from ..records.run import Failure
from ..survived_errors import count_error
from .task import Task

if TYPE_CHECKING:
    from .flow_failure import FlowEnd

_logger = logging.getLogger("mainspring")
# Characters of the error message in a dead letter that is too long with the whole message.
MAX_MESSAGE_CHARACTERS = 1000
# In place of what makes a dead letter too long.
LEFT_OUT = "(left out: too long for a letter; see the job)"
# In the metadata of a handler's job: the id of the dead job. No handler is called if a job with this key dies.
METADATA_KEY = "dead_letter_of"


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A dead job, as its handler receives it."""

    job_id: JobId
    task: str
    queue: str
    arguments: Any
    """By name. The payload as text if it cannot be decoded."""
    failure: Failure
    attempts: int
    crashes: int
    created_at: datetime
    died_at: datetime
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}


def dead_letter_of(job: Job, outcome: Outcome) -> DeadLetter:
    return DeadLetter(
        job_id=job.id,
        task=job.task,
        queue=job.queue,
        arguments=decode_or_text(job.payload),
        failure=outcome.failure or Failure("Dead", "no reason given"),
        attempts=job.attempt,
        crashes=job.crashes + outcome.crash,
        created_at=job.created_at,
        died_at=outcome.finished_at,
        tags=job.tags,
        metadata=job.metadata,
    )


def with_dead_letter_jobs(
    job: Job, outcome: Outcome, handlers: Sequence[Task[Any, Any]], flow_end: FlowEnd | None = None
) -> Outcome:
    """The outcome, with a job for each handler if the job is dead. An error of a handler changes nothing else.

    `flow_end` has the dead steps, if the job is a flow's.
    """
    if outcome.state is not State.DEAD or not handlers or METADATA_KEY in job.metadata:
        return outcome
    letter, jobs = dead_letter_of(job, outcome), []
    for handler in dict.fromkeys(handlers):
        try:
            jobs.append(_handler_job(handler, letter, flow_end))
        except Exception as error:  # the handler's own key function raised, or its limit is smaller than any letter
            text = "job %s died, and its dead-letter handler %r could not be enqueued"
            _logger.exception(text, job.id, handler.name)
            count_error("dead_letter", error)
    return replace(outcome, then=tuple(jobs))


def _handler_job(handler: Task[Any, Any], letter: DeadLetter, flow_end: FlowEnd | None) -> NewJob:
    try:
        job = handler.job(letter if flow_end is None else flow_end.failure_of(letter))
    except BadPayload:  # too long: the stored job has the rest
        from ..mask import mask_to_cut

        short = Failure(letter.failure.type, mask_to_cut(letter.failure.message)[:MAX_MESSAGE_CHARACTERS])
        brief = replace(letter, arguments=LEFT_OUT, metadata={}, failure=short)
        job = handler.job(brief if flow_end is None else flow_end.failure_of(brief, brief=True))
    return replace(job, metadata={**job.metadata, METADATA_KEY: letter.job_id})


def check_handler(task: Task[Any, Any]) -> Task[Any, Any]:
    """The handler. Raises BadTask if it does not accept a DeadLetter, before any job has died."""
    empty = DeadLetter(
        job_id="",
        task="",
        queue="",
        arguments={},
        failure=Failure("", ""),
        attempts=0,
        crashes=0,
        created_at=EPOCH,
        died_at=EPOCH,
    )
    try:
        task.arguments.encode((empty,), {}, 1 << 20)
    except BadPayload as bad:
        fits = f"def {task.name}(letter: DeadLetter)"
        raise BadTask(f"dead-letter handler {task.name!r} must take one DeadLetter: {fits}; {bad}") from None
    return task
