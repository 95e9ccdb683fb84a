"""Which inbound messages have made their job, so that each makes one, whatever becomes of the job afterwards."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256

from msgspec.structs import replace

from ..ids import JobId, new_id
from ..records.document import Document
from ..records.query import Filter
from ..store import Store
from .inbound import MESSAGE_ID_RETENTION

_SEEN_KIND = "trigger.call"
# The revision of such a document from when on its job was made.
_JOB_MADE_REVISION = 2
# A message whose job is being made, before that is recorded.
_OPEN_KIND = "trigger.open"
# Open messages read at once: there are as many as servers have died between two steps within a day.
PAGE_MESSAGES = 500


async def remember_message(store: Store, trigger: str, id: str, now: datetime) -> tuple[Document, bool]:
    """What is remembered of the message, with the id of its job as the text; and whether that job was made.

    The id is written first, and is the same for every server that gets the message. Once the job is in the store
    the document gets its second revision, and from then on nothing that becomes of the job makes another. After a
    crash between these steps the next message with this id makes the job, or finds it; what deletes jobs first calls
    settle_open(), so that it does not make another one either.
    """
    wanted = f"{trigger}:{sha256(id.encode()).hexdigest()}"
    document = Document(kind=_SEEN_KIND, name=wanted, text=new_id(now), expires_at=now + MESSAGE_ID_RETENTION)
    if not (await store.put_documents([document], now=now))[0]:
        known = await store.documents(_SEEN_KIND, [wanted], now=now, limit=1)
        document = known[0] if known else document
        if document.revision >= _JOB_MADE_REVISION:
            return document, True
        if await store.jobs(Filter(ids=(document.text,)), now=now, limit=1, brief=True):
            await record_job_made(store, document, document.text, now)
            return document, True
    await store.put_documents([replace(document, kind=_OPEN_KIND)], now=now)
    return document, False


async def record_job_made(store: Store, seen: Document, id: JobId, now: datetime) -> None:
    """The job of the message is in the store; its task's own key may have led to another one."""
    await store.put_documents([replace(seen, kind=_SEEN_KIND, text=id, revision=_JOB_MADE_REVISION)], now=now)
    await store.drop_documents(_OPEN_KIND, [seen.name])


async def record_open_messages(store: Store, now: datetime) -> None:
    """Notes of each open message whether its job was made, as long as that can be seen: before jobs are deleted."""
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
