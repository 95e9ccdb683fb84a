"""Embeddings: what makes clips searchable, from a model that is slow, throttles and cannot read every title."""

from typing import Any

from sqlalchemy import select, update

from mainspring import Backoff, Breaker, Context, Items

from .app import app, due
from .client import call
from .database import session
from .tables import DAY, Clip, IndexingCount

MAX_CLIPS = 100
MAX_AGE_SECONDS = 7 * DAY
REQUEST_CLIPS = 20
MAX_FAILURES = 3
MAX_FAILED_RATIO = 0.5


@app.every(minutes=10, run_on_start=True)
@app.task(
    queue="embeddings", timeout=120, max_retries=2, backoff=Backoff(initial=30), failed_ratio=MAX_FAILED_RATIO,
    breaker=Breaker(failures=5, cooldown=300),
)  # fmt: skip
def embed_clips(ctx: Context) -> Items:
    """Indexes up to 100 clips of the last seven days, the newest first."""
    try:
        counted = _index(ctx, due(ctx))
    except Exception:
        _count_run("failed")
        raise
    _count_run(counted.verdict(MAX_FAILED_RATIO))
    return counted


def _index(ctx: Context, now: int) -> Items:
    clips = _waiting(now)
    counted = Items()
    for start in range(0, len(clips), REQUEST_CLIPS):
        part = clips[start : start + REQUEST_CLIPS]
        answer = call("POST", "/embeddings", json={"inputs": part})
        failed = _store(answer["results"], now)
        ctx.items(success=len(part) - failed, failed=failed)
        counted = Items(success=counted.success + len(part) - failed, failed=counted.failed + failed)
        ctx.progress(start + len(part), len(clips), "clips")
    return counted


def _waiting(now: int) -> list[dict[str, Any]]:
    wanted = (
        select(Clip.id, Clip.title)
        .where(Clip.created_at.between(now - MAX_AGE_SECONDS, now))
        .where(Clip.embedded_at.is_(None), Clip.embedding_failures < MAX_FAILURES)
        .order_by(Clip.created_at.desc())
        .limit(MAX_CLIPS)
    )
    with session() as db:
        return [{"id": id, "title": title} for id, title in db.execute(wanted)]


def _store(results: list[dict[str, Any]], now: int) -> int:
    """Returns how many failed; after three failures a clip is left alone."""
    answers = {result["id"]: result for result in results}
    with session() as db, db.begin():
        for clip in db.scalars(select(Clip).where(Clip.id.in_(answers))):
            if vector := answers[clip.id].get("vector"):
                clip.embedding, clip.embedded_at = vector, now
            else:
                clip.embedding_failures += 1
    return sum("error" in result for result in results)


def _count_run(status: str) -> None:
    with session() as db, db.begin():
        db.execute(update(IndexingCount).where(IndexingCount.status == status).values(runs=IndexingCount.runs + 1))
