"""What tests ask the database, and how they let only some schedules run."""

from sqlalchemy import func, select

from clip_service.database import session
from clip_service.tables import Table
from clip_service.tasks import app


def count(table: type[Table], **columns: object) -> int:
    with session() as db:
        return db.scalar(select(func.count()).select_from(table).filter_by(**columns)) or 0


async def run_only(*schedules: str) -> None:
    """Pauses all other schedules, so that days pass quickly."""
    for row in await app.schedules.list():
        if row.name not in schedules:
            await app.schedules.pause(row.name)
