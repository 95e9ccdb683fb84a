"""The web app: routes, the dashboard under /ops, metrics, and a worker in the same process."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any
from uuid import uuid4

from fastapi import FastAPI, HTTPException, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel
from sqlalchemy import select

from . import client
from .database import session
from .mail import send_mail
from .metrics import registry
from .tables import Clip, Creator, Delivery, Incident, TrendingClip
from .tasks import app


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """A worker here is enough for one machine; CLIP_SERVICE_WORKER=no leaves the jobs to `mainspring worker`."""
    apart = os.environ.get("CLIP_SERVICE_WORKER") == "no"
    async with app, nullcontext() if apart else app.worker(concurrency=20):
        yield
    client.close()


web = FastAPI(title="Clips", lifespan=lifespan)
ops: Any = app.asgi()
web.mount("/ops", ops)


class NewClip(BaseModel):
    creator_id: int
    title: str
    created_at: int


@web.post("/clips", status_code=201)
def add_clip(new: NewClip) -> dict[str, Any]:
    """The clip, the webhook for its creator and the job of the mail: all of them, or none."""
    with session() as db, db.begin():
        creator = db.get(Creator, new.creator_id)
        if creator is None:
            raise HTTPException(404, f"there is no creator {new.creator_id}")
        clip = Clip(remote_id=f"upload-{uuid4().hex}", **new.model_dump())
        db.add(clip)
        db.flush()
        payload: dict[str, int | str] = {"clip": clip.id}
        db.add(Delivery(creator_id=creator.id, event="clip.added", payload=payload, created_at=new.created_at))
        job = send_mail.sync.using(within=db).enqueue(creator.email, f"Your clip {new.title!r} is online")
        return {"clip": clip.id, "job": job.id}


@web.get("/trending")
def trending() -> list[dict[str, Any]]:
    ranked = select(TrendingClip.rank, Clip.id, Clip.title, TrendingClip.score).join(Clip).order_by(TrendingClip.rank)
    with session() as db:
        return [row._asdict() for row in db.execute(ranked)]


@web.get("/incidents")
def incidents() -> list[dict[str, Any]]:
    """Jobs that died, the newest first."""
    newest = select(Incident.job_id, Incident.task, Incident.error).order_by(Incident.id.desc()).limit(100)
    with session() as db:
        return [row._asdict() for row in db.execute(newest)]


@web.get("/metrics")
def metrics() -> Response:
    """Not a coroutine: what it counts is read from the database, in a thread."""
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)
