"""Deduplication of inbound messages: each message makes one job, even if that job is deleted later."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from ..ids import JobId, new_id
from ..records.document import Document, DocumentDrop
from ..records.query import Filter
from ..store import Store

# How long the id of an accepted message is remembered, even if its job is deleted earlier.
MESSAGE_ID_RETENTION = timedelta(days=1)
# Document kind of a message that was received.
_SEEN_KIND = "trigger.call"
# Revision of that document once the job is in the store.
_JOB_MADE_REVISION = 2
# Document kind of a message whose job is being made.
_OPEN_KIND = "trigger.open"
# Open messages read at once; one remains for each server that crashed between two steps within a day.
PAGE_MESSAGES = 500


async def remember_message(store: Store, trigger: str, id: str, now: datetime) -> tuple[Document, bool]:
    """Returns the document of the message, whose text is the id of its job, and whether that job was made.

    The id is stored first, so that every server that gets the message uses the same one. Once the job is in the
    store, the document gets its second revision; from then on no further job is made. After a crash between these
    steps, the next message with this id makes the job, or finds it. Code that deletes jobs calls
    record_open_messages() first, so that a deleted job is not made again.
    """
    from hashlib import sha256

    name = f"{trigger}:{sha256(id.encode()).hexdigest()}"
    document = Document(kind=_SEEN_KIND, name=name, text=new_id(now), expires_at=now + MESSAGE_ID_RETENTION)
    if not (await store.put_documents([document], now=now))[0]:
        known = await store.documents(_SEEN_KIND, [name], now=now, limit=1)
        document = known[0] if known else document
        if document.revision >= _JOB_MADE_REVISION:
            return document, True
        if await store.jobs(Filter(ids=(document.text,)), now=now, limit=1, brief=True):
            await record_job_made(store, document, document.text, now)
            return document, True
    await store.put_documents([replace(document, kind=_OPEN_KIND)], now=now)
    return document, False


async def record_job_made(store: Store, seen: Document, id: JobId, now: datetime) -> None:
    """Records that the job of the message is in the store; the task's own key may have led to another job."""
    made = replace(seen, kind=_SEEN_KIND, text=id, revision=_JOB_MADE_REVISION)
    await store.put_documents([made, DocumentDrop(_OPEN_KIND, seen.name)], now=now)


async def record_open_messages(store: Store, now: datetime) -> None:
    """Records for each open message whether its job was made. To be called before jobs are deleted."""
    after: str | None = None
    while documents := await store.documents(_OPEN_KIND, now=now, limit=PAGE_MESSAGES, after=after):
        which = Filter(ids=tuple(document.text for document in documents))
        made = {job.id for job in await store.jobs(which, now=now, limit=len(documents), brief=True)}
        for document in documents:
            if document.text in made:
                await record_job_made(store, document, document.text, now)
        after = documents[-1].name
        if len(documents) < PAGE_MESSAGES:
            return
