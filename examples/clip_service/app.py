"""The app that all tasks and schedules belong to."""

from mainspring import Context, DeadLetter, Mainspring

from .client import rest_when_throttled
from .database import session
from .settings import settings
from .tables import Incident

# Jobs and clips are in one database, so that a task can enqueue a job in the transaction that changes its rows.
app = Mainspring(settings().url, middleware=[rest_when_throttled])


def due(ctx: Context) -> int:
    """The instant that the run is for. A late or repeated run has the same one, and so the same effect."""
    return int((ctx.scheduled_at or ctx.job.run_at).timestamp())


@app.dead_letter
def record_incident(letter: DeadLetter) -> None:
    """Runs as a job of its own for every job that died."""
    error = f"{letter.failure.type}: {letter.failure.message}"
    with session() as db, db.begin():
        if db.query(Incident).filter_by(job_id=letter.job_id).first() is None:
            died_at = int(letter.died_at.timestamp())
            db.add(Incident(job_id=letter.job_id, task=letter.task, error=error, died_at=died_at))
