"""Clip sync: the platform's clips of the last 24 hours, page by page."""

from typing import Any

from sqlalchemy import select

from mainspring import Backoff, Context

from .app import app, due
from .client import call
from .database import session
from .tables import DAY, Clip, Creator

LOOK_BACK_SECONDS = DAY
PAGES = 3
PAGE_CLIPS = 50


@app.every(minutes=15, run_on_start=True)
@app.task(queue="platform", timeout=120, max_retries=3, backoff=Backoff(initial=10))
def sync_clips(ctx: Context) -> None:
    """Reads a fixed number of pages. A retry reads them again and writes the same rows."""
    until, more = due(ctx), False
    for page in range(1, PAGES + 1):
        params = {"since": until - LOOK_BACK_SECONDS, "until": until, "page": page, "size": PAGE_CLIPS}
        answer = call("GET", "/clips", params=params)
        _store(ctx, answer["clips"])
        more = answer["more"]
        ctx.progress(page, PAGES, "pages")
    if more:
        ctx.log.warning("there are more clips than fit into %d pages of %d", PAGES, PAGE_CLIPS)


def _store(ctx: Context, found: list[dict[str, Any]]) -> None:
    """Adds new clips and updates the others; one that has no creator counts as a failed item."""
    good = [clip for clip in found if "creator" in clip]
    ctx.items(failed=len(found) - len(good))
    with session() as db, db.begin():
        known = {clip.remote_id: clip for clip in db.scalars(_known(good))}
        creators = list(db.scalars(select(Creator.id).order_by(Creator.id)))
        for clip in good:
            old = known.get(clip["id"])
            if old is None:
                creator_id = creators[clip["creator"] % len(creators)]
                db.add(Clip(remote_id=clip["id"], creator_id=creator_id, **_columns(clip)))
            elif (old.views, old.likes) != (clip["views"], clip["likes"]):
                old.views, old.likes = clip["views"], clip["likes"]
            else:
                ctx.items(skipped=1)
                continue
            ctx.items(success=1)


def _known(clips: list[dict[str, Any]]) -> Any:
    return select(Clip).where(Clip.remote_id.in_([clip["id"] for clip in clips]))


def _columns(clip: dict[str, Any]) -> dict[str, Any]:
    return {name: clip[name] for name in ("title", "views", "likes", "created_at")}
