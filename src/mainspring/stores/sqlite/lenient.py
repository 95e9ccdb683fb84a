"""Reads rows of the SQLite store in which a text is not UTF-8."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from ..rows import Row


def is_not_utf8_error(error: sqlite3.Error) -> bool:
    """Whether a query failed because a text is not UTF-8."""
    return "UTF-8" in str(error)


def is_too_big_error(error: sqlite3.Error) -> bool:
    """Whether the rows as one JSON text exceed SQLite's limit: an earlier release accepted metadata of any size."""
    return "too big" in str(error)


Values = Mapping[str, Any] | Sequence[Any]


def fetch_rows(db: sqlite3.Connection, sql: str, values: Values) -> list[Row]:
    """The rows of a query; a text that is not UTF-8 stays bytes."""
    try:
        return db.execute(sql, values).fetchall()
    except sqlite3.OperationalError as error:
        if not is_not_utf8_error(error):
            raise
        return fetch_rows_leniently(db, sql, values)


def fetch_rows_leniently(db: sqlite3.Connection, sql: str, values: Values) -> list[Row]:
    """Like fetch_rows, but decodes every text here, which is slower."""
    usual = db.text_factory
    db.text_factory = bytes
    try:
        rows = db.execute(sql, values).fetchall()
    finally:
        db.text_factory = usual
    return [[_decoded(value) for value in row] for row in rows]


def require_text(row: Row) -> Row:
    """The row. Raises ValueError if one of its texts is not UTF-8."""
    if any(isinstance(value, bytes) for value in row):
        raise ValueError("a column is not UTF-8 text")
    return row


def _decoded(value: Any) -> Any:
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value
