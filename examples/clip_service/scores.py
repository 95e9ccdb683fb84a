"""Hot scores and the trending list: SQL over all recent clips."""

from sqlalchemy import delete, func, insert, literal, select, update

from mainspring import Context

from .app import app, due
from .database import session
from .tables import DAY, HOUR, Clip, TrendingClip

MAX_AGE_SECONDS = 14 * DAY
# Clips that one transaction changes: on SQLite nothing else writes meanwhile.
BATCH_CLIPS = 5_000
TRENDING_CLIPS = 100


@app.every(minutes=5, run_on_start=True)
@app.task(queue="scores", timeout=240)
def hot_scores(ctx: Context) -> None:
    """Views and likes, divided by the square of the age: what is new rises, and all sinks."""
    now = due(ctx)
    age_hours = (now - Clip.created_at) * 1.0 / HOUR + 2
    score = (Clip.views + 10 * Clip.likes) / (age_hours * age_hours)
    with session() as db:
        last = db.scalar(select(func.max(Clip.id))) or 0
    for start in range(0, last, BATCH_CLIPS):
        batch = Clip.id.between(start + 1, start + BATCH_CLIPS)
        recent, scored = Clip.created_at > now - MAX_AGE_SECONDS, Clip.hot_score > 0
        with session() as db, db.begin():
            db.execute(update(Clip).where(batch, ~recent, scored).values(hot_score=0))
            db.execute(update(Clip).where(batch, recent).values(hot_score=score))
        ctx.progress(min(start + BATCH_CLIPS, last), last, "clips")


@app.every(hours=1, depends_on="hot_scores", run_on_start=True)
@app.task(queue="scores", timeout=60)
def trending(ctx: Context) -> int:
    """Replaces the list in one transaction; waits until there are new scores since it ran last."""
    now = due(ctx)
    rank = func.row_number().over(order_by=(Clip.hot_score.desc(), Clip.id))
    columns = (rank, Clip.id, Clip.hot_score, literal(now))
    top = select(*columns).where(Clip.hot_score > 0).order_by(Clip.hot_score.desc(), Clip.id).limit(TRENDING_CLIPS)
    with session() as db, db.begin():
        db.execute(delete(TrendingClip))
        db.execute(insert(TrendingClip).from_select(["rank", "clip_id", "score", "computed_at"], top))
        return db.scalar(select(func.count(TrendingClip.rank))) or 0
