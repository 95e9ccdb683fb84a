"""Decides how large the write-ahead log becomes between checkpoints: short for small commits, long for large ones.

A write that makes the log file longer costs a sync of its new size and blocks as well. So small commits, which wait for
the sync and little else, write over a short log again and again. Large ones write less in all if a checkpoint is rare.
"""

from __future__ import annotations

import sqlite3

# Pages of log after which a commit makes a checkpoint: 2 MB after small commits, 32 MB after large ones.
SHORT_LOG_PAGES, LONG_LOG_PAGES = 512, 8000
# Rows that a small commit changes at most.
MAX_SMALL_ROWS = 128
# Small commits in a row that shorten the log: a large worker also makes a few, such as beats.
MIN_SMALL_COMMITS = 16


class LogSize:
    """The setting of one writing connection; other connections have their own."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._changes = db.total_changes
        self._small_commits = 0
        self._short = False

    def before_commit(self) -> None:
        """Takes the size of the open transaction into account: its commit may make the checkpoint."""
        before, self._changes = self._changes, self._db.total_changes
        self._small_commits = self._small_commits + 1 if self._changes - before <= MAX_SMALL_ROWS else 0
        short = self._small_commits >= MIN_SMALL_COMMITS
        if short is not self._short and (short or not self._small_commits):
            self._short = short
            set_log_pages(self._db, SHORT_LOG_PAGES if short else LONG_LOG_PAGES)


def set_log_pages(db: sqlite3.Connection, pages: int) -> None:
    db.execute(f"PRAGMA wal_autocheckpoint = {pages}")
