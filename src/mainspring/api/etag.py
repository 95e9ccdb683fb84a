"""ETags and If-Match: digests of the editable part of a resource, and edits that fail if it has changed since."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from hashlib import blake2b
from weakref import WeakKeyDictionary

from ..app import Mainspring
from ..errors import StoreUnavailable
from ..records.document import Document, DocumentDrop
from ..records.job import Job
from .problem import Problem

KIND, NAME = "etag", "secret"
SECRET_BYTES, TAG_BYTES = 32, 16
# Two servers that start at the same time may both write the secret: each then reads the one that was stored.
MAX_TRIES = 5
EDIT_KIND = "edit"
# An edit takes milliseconds: a claim that is older was left by a server that died.
CLAIM_LIFETIME = timedelta(minutes=1)

_secrets: WeakKeyDictionary[Mainspring, bytes] = WeakKeyDictionary()


async def etag(app: Mainspring, text: bytes) -> str:
    """The ETag of a value, the same on every server of the store.

    The digest is keyed: a reader from whom the value is hidden cannot guess it by trying values.
    """
    return keyed_digest(await etag_secret(app), text)


def keyed_digest(secret: bytes, text: bytes) -> str:
    return blake2b(text, key=secret, digest_size=TAG_BYTES).hexdigest()


async def etag_secret(app: Mainspring) -> bytes:
    """The store's secret for ETags, created by the first server that needs it."""
    if (known := _secrets.get(app)) is not None:
        return known
    store, now = await app.connect(), app.clock.now()
    for _ in range(MAX_TRIES):
        found = await store.documents(KIND, [NAME], now=now, limit=1)
        if found:
            _secrets[app] = bytes.fromhex(found[0].text)
            return _secrets[app]
        await store.put_documents([Document(kind=KIND, name=NAME, text=secrets.token_hex(SECRET_BYTES))], now=now)
    raise StoreUnavailable("the secret of ETags can neither be read nor written; try again")


@asynccontextmanager
async def claim_edit(app: Mainspring, job: Job, if_match: str, part: Callable[[Job], bytes]) -> AsyncIterator[Job]:
    """Yields the job, unchanged since it was read. Raises Problem(412) if it was edited in between.

    `part` returns what the ETag is made from. The store has one claim for each job and ETag: the request that gets it
    reads the job again and edits it; other requests with the same ETag are refused. An edit without If-Match takes no
    claim: where two edits overlap, the later one stands.
    """
    wanted = [one.strip().removeprefix("W/").strip('"') for one in if_match.split(",")]
    if "*" in wanted:
        yield job
        return
    tag = await etag(app, part(job))
    name, store, now = f"{job.id}:{tag}", await app.connect(), app.clock.now()
    claim = Document(kind=EDIT_KIND, name=name, text="", expires_at=now + CLAIM_LIFETIME)
    if tag not in wanted or not (await store.put_documents([claim], now=now))[0]:
        raise _edited(job)
    try:
        job = await app.jobs.get(job.id)
        if await etag(app, part(job)) != tag:
            raise _edited(job)
        yield job
    finally:
        await store.put_documents([DocumentDrop(EDIT_KIND, name)], now=app.clock.now())


def _edited(job: Job) -> Problem:
    return Problem(412, "changed", f"job {job.id} was edited since it was read; read it again", job_id=job.id)
