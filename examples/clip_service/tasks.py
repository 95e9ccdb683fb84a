"""Every task and schedule of the service: `mainspring worker clip_service.tasks:app` runs them."""

from . import billing, clips, embeddings, exports, live, mail, scores, storage, webhooks
from .app import app

__all__ = ["app", "billing", "clips", "embeddings", "exports", "live", "mail", "scores", "storage", "webhooks"]
