"""Live status: which creators are live, asked for page by page, every minute."""

from sqlalchemy import select

from mainspring import Context

from .app import app, due
from .client import Unavailable, call
from .database import session
from .tables import Creator, Delivery

PAGES = 10
PAGE_CREATORS = 100


@app.every(minutes=1, overlap="skip", catch_up="skip")
@app.task(queue="platform", timeout=50, max_retries=0, expires=60, priority=5)
def live_status(ctx: Context, pages: int = PAGES) -> None:
    """Those first that were not checked for longest. A page that fails is left for the next minute."""
    now = due(ctx)
    oldest = select(Creator.id, Creator.login).order_by(Creator.live_checked_at, Creator.id)
    with session() as db:
        creators = [(id, login) for id, login in db.execute(oldest.limit(pages * PAGE_CREATORS))]
    for start in range(0, len(creators), PAGE_CREATORS):
        page = dict(creators[start : start + PAGE_CREATORS])
        try:
            answer = call("POST", "/live", json={"logins": list(page.values()), "at": now})
        except Unavailable as error:
            ctx.log.warning("%d creators are not checked: %s", len(page), error)
            ctx.items(failed=len(page))
            continue
        _store(set(page), set(answer["live"]), now)
        ctx.items(success=len(page))
        ctx.progress(start + len(page), len(creators), "creators")


def _store(ids: set[int], live: set[str], now: int) -> None:
    """A creator who goes live gets a webhook, in the same transaction."""
    with session() as db, db.begin():
        for creator in db.scalars(select(Creator).where(Creator.id.in_(ids))):
            if creator.login in live and not creator.live:
                payload: dict[str, int | str] = {"creator": creator.id}
                db.add(Delivery(creator_id=creator.id, event="creator.live", payload=payload, created_at=now))
            creator.live, creator.live_checked_at = creator.login in live, now
