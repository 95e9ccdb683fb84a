"""Formatters: JSON and text lines with the run, without secrets and control characters."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import Context, Mainspring
from mainspring.logs.formatters import (
    MAX_MESSAGE_CHARACTERS,
    MAX_VALUE_CHARACTERS,
    JsonFormatter,
    RunFilter,
    TextFormatter,
)

CANARY = "kan4ri-vogel"


def record(message: object = "hello", *args: object, level: int = logging.INFO, **extra: Any) -> logging.LogRecord:
    made = logging.LogRecord("shop", level, "shop.py", 3, message, args, None)
    made.created = datetime(2030, 1, 1, 9, 0, 0, 250_000, tzinfo=UTC).timestamp()
    vars(made).update(extra)
    return made


def written(made: logging.LogRecord, process: int | None = None) -> dict[str, Any]:
    line = JsonFormatter(process).format(made)
    assert "\n" not in line
    assert line.isascii()
    return json.loads(line)


def failing(error: Exception) -> logging.LogRecord:
    made = record("it failed", level=logging.ERROR)
    try:
        raise error
    except Exception:
        made.exc_info = sys.exc_info()
    return made


def test_a_json_log_line_is_one_object() -> None:
    assert written(record("sent %d of %d", 3, 5)) == {
        "time": "2030-01-01T09:00:00.250+00:00", "level": "info", "logger": "shop", "message": "sent 3 of 5",
    }  # fmt: skip


def test_extras_of_a_record_are_in_the_json_log_line() -> None:
    said = written(record(job_id="1", attempt=2, schedule=None, status="completed", duration=0.25, sizes=[1, 2]))
    assert {name: said[name] for name in said.keys() - {"time", "level", "logger", "message"}} == {
        "job_id": "1", "attempt": 2, "status": "completed", "duration": 0.25, "sizes": [1, 2],
    }  # fmt: skip


def test_a_json_log_line_has_the_number_of_a_supervised_process() -> None:
    assert written(record(), process=2)["process"] == 2


def test_an_exception_is_logged_with_its_stack() -> None:
    said = written(failing(ValueError("no such address")))
    assert said["exception"].startswith("Traceback")
    assert said["exception"].endswith("ValueError: no such address")


def test_secrets_are_masked_in_every_part_of_a_log_record() -> None:
    made = failing(OSError(f"cannot reach postgresql://u:{CANARY}@db/x"))
    made.msg, made.args = "connecting with password=%s", (CANARY,)
    vars(made).update(headers={"Authorization": CANARY}, token=CANARY, url=f"redis://:{CANARY}@h")
    for formatter in (JsonFormatter(), TextFormatter()):
        line = formatter.format(made)
        assert CANARY not in line
        assert "***" in line


def test_a_secret_is_masked_before_a_log_message_is_truncated() -> None:
    said = written(
        record(
            "x" * (MAX_MESSAGE_CHARACTERS - 20) + f" password={CANARY} " + "y" * 100, note="password=" + CANARY * 2_000
        )
    )
    assert CANARY[:4] not in said["message"]
    assert said["note"] == "password=***"


def test_a_long_log_message_is_truncated() -> None:
    said = written(record("x" * 100_000, note="y" * 100_000))
    assert len(said["message"]) < MAX_MESSAGE_CHARACTERS + 50
    assert len(said["note"]) < MAX_VALUE_CHARACTERS + 50
    assert said["message"].endswith("characters more")


def test_control_characters_are_escaped_in_a_text_log_line() -> None:
    hostile = "a\nERROR forged\x1b[2J\x9b31m\u2028\x00\r"
    assert written(record(hostile))["message"] == hostile
    shown = TextFormatter().format(record(hostile))
    assert not set(shown) & set("\x1b\x9b\u2028\x00\r")


def test_values_without_a_json_type_become_text() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    said = written(record(object=Broken(), number=float("nan"), data={1: {2, 3}}, kind=ValueError("x"), raw=b"ab"))
    assert said["number"] == "nan"
    assert said["data"] == {"1": [2, 3]}
    assert said["kind"] == "ValueError('x')"
    assert "cannot be written" in said["object"]


@given(st.text(), st.dictionaries(st.text(), st.floats() | st.text() | st.lists(st.text(), max_size=2), max_size=3))
def test_any_log_record_is_formatted_as_a_json_line(message: str, extra: dict[str, Any]) -> None:
    made = record("%s", message)
    vars(made).update({f"x{name}": value for name, value in extra.items()})
    written(made)


def test_a_text_log_line_names_its_job_once() -> None:
    shown = TextFormatter(" [2]").format(record("rows read", job_id="0b1", task="export", attempt=3))
    assert shown.endswith("INFO    [2] shop: rows read (export 0b1, attempt 3)")
    assert TextFormatter().format(record("dead export 0b1", job_id="0b1", task="export")).endswith(": dead export 0b1")


# fields of the run


@pytest.fixture
def lines() -> Any:
    """The JSON lines of a handler with the run filter."""
    found: list[dict[str, Any]] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(json.loads(JsonFormatter().format(record)))

    handler, logger = Keep(), logging.getLogger()
    handler.addFilter(RunFilter())
    logger.addHandler(handler)
    yield found
    logger.removeHandler(handler)


async def test_records_of_user_code_have_the_fields_of_their_run(lines: list[dict[str, Any]]) -> None:
    app = Mainspring("memory://")
    log = logging.getLogger("shop")

    @app.task(queue="mail")
    async def here() -> None:
        log.warning("from a coroutine")

    @app.task
    def there() -> None:
        log.warning("from a thread")

    @app.task
    async def said(ctx: Context) -> None:
        ctx.log.info("from ctx.log")

    @app.task(max_retries=0)
    async def fails() -> None:
        raise ValueError("no")

    jobs = {task.name: (await task.enqueue()).id for task in (here, there, said, fails)}
    log.warning("from outside")
    await app.drain()
    found = {line["message"].partition(" 0")[0]: line for line in lines}
    for message, name in (("from a coroutine", "here"), ("from a thread", "there"), ("dead fails", "fails")):
        line = found[message]
        assert (line["job_id"], line["task"], line["attempt"]) == (jobs[name], name, 1)
        assert line["worker"]
        assert line["queue"] == ("mail" if name == "here" else "default")
    assert "job_id" not in found["from outside"]
    assert all(line["job_id"] for line in lines if line["logger"] == "mainspring.task")


async def test_run_filter_keeps_attributes_of_a_record(lines: list[dict[str, Any]]) -> None:
    app = Mainspring("memory://")

    @app.task
    async def work() -> None:
        logging.getLogger("shop").warning("of another", extra={"job_id": "another"})
        logging.getLogger("shop").warning("of a customer", extra={"task": "mine"})

    id = (await work.enqueue()).id
    await app.drain()
    assert next(line for line in lines if line["message"] == "of another")["job_id"] == "another"
    (own,) = [line for line in lines if line["message"] == "of a customer"]
    assert (own["task"], own["job_id"]) == ("mine", id)


def test_a_message_with_line_breaks_cannot_forge_another_log_record() -> None:
    """An error message with a line break must not look like a second log record."""
    forged = "2026-11-16 10:00:00,000 INFO    mainspring: all is well"
    try:
        raise ValueError(f"no\n{forged}\r\n{forged}")
    except ValueError as error:
        record = logging.LogRecord("app", logging.ERROR, "", 0, "failed: %s", (error,), sys.exc_info())
    first, *rest = TextFormatter().format(record).split("\n")
    assert first.endswith(f"app: failed: no\\n{forged}\\r\\n{forged}")
    assert len(rest) > 3
    assert all(line.startswith("  ") for line in rest)
