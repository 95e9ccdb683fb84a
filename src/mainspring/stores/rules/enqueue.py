"""The rule of enqueue: all jobs of a call are stored, or none if one with on_conflict="raise" meets a held key."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from ...records.flow import FLOW_STOPPED
from ...records.job import Enqueued, NewJob, State
from .conflict import resolve_conflict, to_job
from .job_ends import write_job
from .tables import Tables


def enqueue(tables: Tables, new_jobs: Sequence[NewJob], now: datetime) -> list[Enqueued]:
    if not new_jobs:
        return []
    may_refuse = unnumbered = False
    for new in new_jobs:
        may_refuse = may_refuse or new.on_conflict == "raise"
        unnumbered = unnumbered or (new.step is not None and new.step.is_unnumbered)
    if unnumbered:
        from .batch_jobs import refusals

        if (answers := refusals(tables, new_jobs)) is not None:
            return answers
    if may_refuse:
        tables.savepoint()
        tables.flow_changes.savepoint()
    answers = []
    for n, new in enumerate(new_jobs):
        answers.append(enqueue_one(tables, new, now))
        if answers[n].status == "refused":
            tables.roll_back()
            tables.flow_changes.roll_back()
            return [answers[n] if i == n else Enqueued(other.id, "refused") for i, other in enumerate(new_jobs)]
    if may_refuse:
        tables.release()
    return answers


def enqueue_one(tables: Tables, new: NewJob, now: datetime) -> Enqueued:
    if tables.job(new.id) is not None:
        return Enqueued(new.id)
    if new.unique_key is not None or new.idempotency_key is not None:
        key, holder = tables.holder(new)
        while holder is not None and holder.shown(now) == "expired":
            write_job(tables, holder, replace(holder, state=State.EXPIRED, finished_at=now))
            key, holder = tables.holder(new)
        if holder is not None and new.collect is not None and new.idempotency_key is None:
            from .collect import add_items

            added = add_items(tables, holder, new, now)
            if isinstance(added, Enqueued):
                return added
            new, holder = added, None
        if holder is not None and new.on_conflict == "raise":
            return Enqueued(holder.id, "refused", key)
        if holder is not None:
            changed, status = resolve_conflict(holder, new, now)
            if changed is not holder:
                write_job(tables, holder, changed)
                if holder.runs:
                    tables.drop_checkpoints(holder.id)
            return Enqueued(holder.id, status, key)
    job = to_job(new, now)
    if new.step is not None:
        from .flows import may_add_item

        if may_add_item(tables, new.step):
            if new.step.is_unnumbered:
                from .batch_jobs import next_number

                job = replace(job, step=next_number(tables, new.step, now))
            tables.flow_changes.note_made_item(new.step, now)
        else:
            job = replace(job, state=State.CANCELLED, finished_at=now, cancel_reason=FLOW_STOPPED)
    if new.plan is not None:
        tables.flow_changes.note_suspension(new.id, now, new.plan, new.queue)
    write_job(tables, None, job)
    return Enqueued(new.id)
