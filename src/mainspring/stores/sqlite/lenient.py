"""Rows of the SQLite store with a text that is not UTF-8."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from ..rows import Row


def is_not_utf8_error(error: sqlite3.Error) -> bool:
    """Whether a query failed because a text is not UTF-8."""
    return "UTF-8" in str(error)


def is_too_big_error(error: sqlite3.Error) -> bool:
    """Whether all rows as one text are more than SQLite holds: an earlier release took metadata of any size."""
    return "too big" in str(error)


Values = Mapping[str, Any] | Sequence[Any]


def fetch_rows(db: sqlite3.Connection, sql: str, values: Values) -> list[Row]:
    """The rows of a query, in the usual way if that leads there."""
    try:
        return db.execute(sql, values).fetchall()
    except sqlite3.OperationalError as error:
        if not is_not_utf8_error(error):
            raise
        return fetch_rows_leniently(db, sql, values)


def fetch_rows_leniently(db: sqlite3.Connection, sql: str, values: Values) -> list[Row]:
    """The rows of a query, where a text that is not UTF-8 stays bytes."""
    usual = db.text_factory
    db.text_factory = bytes
    try:
        rows = db.execute(sql, values).fetchall()
    finally:
        db.text_factory = usual
    return [[_decoded(value) for value in row] for row in rows]


def require_text(row: Row) -> Row:
    """The row; raises if one of its texts is not UTF-8."""
    if any(isinstance(value, bytes) for value in row):
        raise ValueError("a column is not UTF-8 text")
    return row


def _decoded(value: Any) -> Any:
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value
