"""Exports: clips written into compressed files, in a process of its own, since that is work for the CPU."""

import gzip
import json
from pathlib import Path

from sqlalchemy import select, update

from mainspring import Context

from .app import app, due
from .database import session
from .settings import settings
from .tables import DAY, Clip

MAX_CLIPS = 5_000
MIN_AGE_SECONDS = DAY


@app.cron("20 * * * *")
@app.task(queue="exports", executor="process", timeout=300, memory_limit="512MB", concurrency=1)
def export_clips(ctx: Context, max_clips: int = MAX_CLIPS) -> str | None:
    """Writes the file first and marks its clips then: a crash between the two writes the same file again."""
    now = due(ctx)
    wanted = select(Clip.id, Clip.title, Clip.views, Clip.likes, Clip.created_at).where(
        Clip.exported_at.is_(None), Clip.created_at < now - MIN_AGE_SECONDS
    )
    with session() as db:
        rows = db.execute(wanted.order_by(Clip.id).limit(max_clips)).all()
    if not rows:
        ctx.log.info("there is nothing to export")
        return None
    path = Path(settings().exports, f"clips-{now}.jsonl.gz")
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for n, row in enumerate(rows, 1):
            file.write(json.dumps(row._asdict()) + "\n")
            ctx.progress(n, len(rows), "clips")
    with session() as db, db.begin():
        db.execute(update(Clip).where(Clip.id.in_([row.id for row in rows])).values(exported_at=now))
    ctx.items(success=len(rows))
    return str(path)
