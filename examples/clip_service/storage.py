"""CDN refresh and mirror: addresses that expire, and copies of clips elsewhere."""

from sqlalchemy import select

from mainspring import Backoff, Context, DeadLetter, Discard

from .app import app, due
from .client import Refused, call
from .database import session
from .tables import HOUR, Clip

CDN_CLIPS = 500
REQUEST_CLIPS = 100
RENEW_BEFORE_SECONDS = 2 * HOUR
MIRROR_CLIPS = 25


@app.every(minutes=10)
@app.task(queue="storage", timeout=120)
def refresh_cdn(ctx: Context) -> None:
    """Signs the addresses that expire soonest, before they do."""
    now = due(ctx)
    soon = select(Clip.id).where(Clip.cdn_expires_at < now + RENEW_BEFORE_SECONDS)
    with session() as db:
        ids = db.scalars(soon.order_by(Clip.cdn_expires_at).limit(CDN_CLIPS)).all()
    for start in range(0, len(ids), REQUEST_CLIPS):
        part = ids[start : start + REQUEST_CLIPS]
        signed = call("POST", "/cdn", json={"ids": list(part)})
        with session() as db, db.begin():
            for clip in db.scalars(select(Clip).where(Clip.id.in_(part))):
                clip.cdn_url, clip.cdn_expires_at = signed["urls"][str(clip.id)], now + signed["seconds"]
        ctx.items(success=len(part))
        ctx.progress(start + len(part), len(ids), "addresses")


@app.every(minutes=30)
@app.task(queue="storage", timeout=60)
def mirror_clips(ctx: Context) -> None:
    """Makes a job for each clip, so that each is retried, and dies, on its own."""
    wanted = select(Clip.id).where(Clip.mirrored_at.is_(None), Clip.mirror_error.is_(None))
    with session() as db:
        ids = db.scalars(wanted.order_by(Clip.id).limit(MIRROR_CLIPS)).all()
    jobs = [mirror_clip.using(unique_key=f"mirror:{id}").job(id) for id in ids]
    made = app.sync.enqueue_many(jobs)
    duplicates = sum(handle.duplicate for handle in made)  # still under way since the last run
    ctx.items(success=len(made) - duplicates, skipped=duplicates)


@app.task(queue="mirror")
def give_up_mirroring(letter: DeadLetter) -> None:
    with session() as db, db.begin():
        if clip := db.get(Clip, letter.arguments["clip_id"]):
            clip.mirror_error = letter.failure.message


@app.task(queue="mirror", max_retries=3, backoff=Backoff(initial=20), concurrency=4, on_failure=give_up_mirroring)
def mirror_clip(ctx: Context, clip_id: int) -> None:
    try:
        call("PUT", f"/storage/{clip_id}")
    except Refused as refused:
        raise Discard(str(refused)) from refused  # dead at once: another try would not help
    with session() as db, db.begin():
        if clip := db.get(Clip, clip_id):
            clip.mirrored_at = due(ctx)
