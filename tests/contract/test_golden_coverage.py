"""The golden stores of this release have something of everything: each table, column, key and encoded field."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

import mainspring
from golden import form
from golden.trial import RELEASES
from mainspring.api import idempotency
from mainspring.api.routes import session
from mainspring.control import keys, queue_pauses
from mainspring.feed.event import FeedEvent
from mainspring.insight.queue_depth import DepthSample
from mainspring.records.audit import AuditEntry
from mainspring.records.circuit import Circuit
from mainspring.records.document import Document
from mainspring.records.run import Execution, Failure, LogLine, Progress, RunNotes
from mainspring.records.tally import RunSums
from mainspring.records.worker import WorkerCommands, WorkerInfo
from mainspring.schedule.record import LeaderTerm, Schedule, Tick
from mainspring.stores import open_store
from mainspring.stores.rows import StoredOptions
from mainspring.webhook import inbound, record
from servers import Postgres

NEWEST = RELEASES[-1]
SOURCE = Path(mainspring.__file__).parent
# Columns ("table.column"), kinds of Redis keys and fields ("Record.field") that are newer than the newest golden store.
# Fill them in tests/golden/fill.py; the set is empty again once scripts/golden has written those of the next release.
SINCE: set[str] = {
    "StoredOptions.by", "StoredOptions.step", "StoredOptions.refs", "flow", "plan", "items", "steps", "output",
    "Summary.flow", "StepRef.flow", "StepRef.position", "StepRef.queue", "StepRef.needed",
    "StepValue.position", "StepValue.path", "StepValue.many",
    "mainspring_flows.id", "mainspring_flows.body", "mainspring_plans.flow", "mainspring_plans.body",
    "mainspring_steps.flow", "mainspring_steps.position", "mainspring_steps.job_id",
    "mainspring_item_counts.flow", "mainspring_item_counts.position",
    "mainspring_item_counts.ended", "mainspring_item_counts.allowed",
    "mainspring_checkpoints.job_id", "mainspring_checkpoints.name", "mainspring_checkpoints.n",
    "mainspring_checkpoints.at", "mainspring_checkpoints.value", "checkpoint",
    "StoredOptions.collect", "Collecting.size", "Collecting.delay", "Collecting.grace", "Collecting.count",
    "Collecting.max_bytes", "StoredOptions.limit_key",
    "limit", "limit-home", "limited", "running", "served", "starts", "blocked", "turn", "turns", "rates", "idle",
    "mainspring_limits.name", "mainspring_limits.body",
    "mainspring_limited.job_id", "mainspring_limited.limit_key", "mainspring_limited.standing",
    "mainspring_limited.queue", "mainspring_limited.task", "mainspring_limited.rank", "mainspring_limited.run_at",
    "mainspring_limit_groups.limit_key", "mainspring_limit_groups.tat", "mainspring_limit_groups.served_at",
    "mainspring_limit_groups.ripe_at", "mainspring_limit_lines.limit_key", "mainspring_limit_lines.queue",
    "mainspring_limit_lines.task", "mainspring_limit_lines.rank", "mainspring_limit_lines.run_at",
    "mainspring_limit_lines.job_id", "mainspring_limit_lines.turn", "mainspring_limit_lines.opens_at",
    "mainspring_limited.id", "mainspring_limited.state", "mainspring_limited.created_at",
    "mainspring_limited.expires_at", "mainspring_limited.started_at",
    "mainspring_limited.finished_at", "mainspring_limited.attempt", "mainspring_limited.crashes",
    "mainspring_limited.runs", "mainspring_limited.lease", "mainspring_limited.worker",
    "mainspring_limited.cancel_reason", "mainspring_limited.unique_key",
    "mainspring_limited.idempotency_key", "mainspring_limited.schedule", "mainspring_limited.error",
    "mainspring_limited.tags", "mainspring_limited.options", "mainspring_limited.failure",
    "mainspring_limited.payload", "mainspring_limited.result", "mainspring_limited.progress",
    "mainspring_limited.parked", "mainspring_limited.retried", "mainspring_limits.running",
    "mainspring_limits.tolerance", "mainspring_limits.total",
    "mainspring_limit_groups.running", "mainspring_limit_groups.is_full", "mainspring_limit_groups.pending",
    "mainspring_limit_groups.look_at", "mainspring_limit_lines.name", "mainspring_limit_lines.head",
    "mainspring_limit_lines.has_room",
    "FeedEvent.chunk", "InboundTrigger.signal", "InboundTrigger.job",
}  # fmt: skip


# columns

# Of finished jobs only, which are in a table of their own.
EMPTY_IN_POSTGRES = {"mainspring_jobs.finished_at", "mainspring_jobs.result"}


def empty_columns(tables: dict[str, dict[str, int]]) -> set[str]:
    return {f"{table}.{column}" for table, counts in tables.items() for column, count in counts.items() if not count}


async def stepped_up(url: str) -> None:
    """The tables are those of the newest schema."""
    store = open_store(url)
    await store.open()
    await store.close()


async def test_every_column_of_sqlite_has_a_value(tmp_path: Path) -> None:
    await stepped_up(form.load_sqlite(NEWEST, path := tmp_path / "golden.db"))
    db = sqlite3.connect(path)
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {}
    for name in names:
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({name})")]
        counts = db.execute(f"SELECT {', '.join(f'count({column})' for column in columns)} FROM {name}").fetchone()
        found[name] = dict(zip(columns, counts, strict=True))
    db.close()
    assert len(found) > 15
    assert empty_columns(found) - SINCE == set()


async def test_every_column_of_postgres_has_a_value(postgres: Postgres) -> None:
    await stepped_up(await form.load_postgres(NEWEST, postgres))
    tables = postgres.run(
        f"""SELECT relname, array_agg(attname ORDER BY attnum)
        FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
        WHERE relnamespace = '{form.SCHEMA}'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
            AND attnum > 0 AND NOT attisdropped GROUP BY relname"""
    )
    found = {}
    for name, columns in tables:
        counts = postgres.run(f"SELECT {', '.join(f'count({column})' for column in columns)} FROM {form.SCHEMA}.{name}")
        found[name] = dict(zip(columns, counts[0], strict=True))
    assert len(found) > 15
    assert empty_columns(found) - SINCE == EMPTY_IN_POSTGRES


# Redis keys

_IN_PYTHON = re.compile(r'base\}:([a-z-]+)|IndexEntry\("\w+", f?"([a-z-]+)')
_IN_LUA = re.compile(r"base \.\. '([a-z-]+)")


def kinds_in_code() -> set[str]:
    """How keys go on after their base."""
    found = set[str]()
    for path in (SOURCE / "stores" / "redis").iterdir():
        if path.suffix in (".py", ".lua"):
            text = path.read_text(encoding="utf-8")
            groups = _IN_PYTHON.findall(text) if path.suffix == ".py" else [(one,) for one in _IN_LUA.findall(text)]
            found |= {word for group in groups for word in group if word}
    return found


def kinds_in(file: str) -> set[str]:
    return {key.partition("}:")[2].partition(":")[0] for key in form.read_redis(NEWEST / file)}


# Parts of a two-phase commit, which one server has no need of; and the id of a job that went to another shard.
ONLY_IN_CLUSTERS = {"decided", "lock", "moved", "promise", "promised"}
# An index that claims make from `ready` while many groups have jobs, and drop again.
OF_MANY_GROUPS = {"head", "heads"}


def test_every_kind_of_redis_key_is_there() -> None:
    code = kinds_in_code() - SINCE
    assert len(code) > 40
    assert code - kinds_in(form.CLUSTER) == OF_MANY_GROUPS
    assert code - kinds_in(form.REDIS) == ONLY_IN_CLUSTERS | OF_MANY_GROUPS
    assert kinds_in(form.CLUSTER) | kinds_in(form.REDIS) <= code


# fields


class Fields:
    """The encoded field names of records, and of all records in them: the declared ones, and those that were found."""

    def __init__(self) -> None:
        self.known, self.met = set[str](), set[str]()

    def look(self, type_: Any, texts: list[str]) -> None:
        assert texts, type_
        info = inspect.type_info(type_)
        self.known |= set(_fields(info, set()))
        for text in texts:
            self.met |= set(_met(info, msgspec.json.decode(text)))

    @property
    def missing(self) -> set[str]:
        return self.known - self.met


def _fields(info: Any, seen: set[type]) -> Iterator[str]:
    match info:
        case inspect.StructType() if info.cls not in seen:
            seen.add(info.cls)
            for field in info.fields:
                yield f"{info.cls.__name__}.{field.encode_name}"
                yield from _fields(field.type, seen)
        case inspect.UnionType():
            for one in info.types:
                yield from _fields(one, seen)
        case inspect.DictType():
            yield from _fields(info.value_type, seen)
        case inspect.ListType() | inspect.VarTupleType():
            yield from _fields(info.item_type, seen)


def _met(info: Any, value: Any) -> Iterator[str]:
    match info:
        case inspect.StructType() if isinstance(value, dict):
            if info.tag is not None and value.get(info.tag_field) != info.tag:
                return
            for field in info.fields:
                if value.get(field.encode_name) is not None:
                    yield f"{info.cls.__name__}.{field.encode_name}"
                    yield from _met(field.type, value[field.encode_name])
        case inspect.UnionType():
            for one in info.types:
                yield from _met(one, value)
        case inspect.DictType() if isinstance(value, dict):
            for one in value.values():
                yield from _met(info.value_type, one)
        case inspect.ListType() | inspect.VarTupleType() if isinstance(value, list):
            for one in value:
                yield from _met(info.item_type, one)


# The first is set only when a long record is read in part; the others are those of the records around them.
NOT_STORED = {"StoredOptions.cut", "InboundTrigger.revision", "Webhook.revision"}
IN_COLUMNS: dict[Any, str] = {
    StoredOptions: "SELECT options FROM mainspring_jobs",
    Failure: "SELECT failure FROM mainspring_jobs",
    Progress: "SELECT progress FROM mainspring_jobs",
    RunNotes: "SELECT account FROM mainspring_executions",
    WorkerInfo: "SELECT info FROM mainspring_workers",
    WorkerCommands: "SELECT orders FROM mainspring_workers",
    RunSums: "SELECT sums FROM mainspring_tallies UNION ALL SELECT sums FROM mainspring_counting",
    Schedule: "SELECT body FROM mainspring_schedules",
    Tick: "SELECT body FROM mainspring_ticks",
    FeedEvent: "SELECT text FROM mainspring_news",
}
IN_DOCUMENTS: dict[str, Any] = {
    "answer": idempotency.IdempotentRequest, "depth": DepthSample, "key": keys._KeyDocument,
    "queue_pauses": queue_pauses.Pauses, "session": session._SessionRecord,
    "trigger": inbound.StoredTrigger, "webhook": record.StoredWebhook, "webhook.standing": record.Standing,
}  # fmt: skip
# Texts of another form.
PLAIN_DOCUMENTS = {"etag", "key_use", "trigger.call", "welcome"}
IN_HASHES: dict[str, Any] = {
    "circuit": Circuit, "doc": Document, "entry": AuditEntry, "exec": Execution, "leader": LeaderTerm, "log": LogLine,
    "schedule": Schedule,
}  # fmt: skip


def test_every_encoded_field_of_every_record_is_there(tmp_path: Path) -> None:
    form.load_sqlite(NEWEST, path := tmp_path / "golden.db")
    db, fields = sqlite3.connect(path), Fields()
    for type_, sql in IN_COLUMNS.items():
        fields.look(type_, [text for (text,) in db.execute(sql) if text is not None])
    documents = db.execute("SELECT kind, text FROM mainspring_documents").fetchall()
    db.close()
    assert {kind for kind, _ in documents} == {*IN_DOCUMENTS, *PLAIN_DOCUMENTS}
    for kind, type_ in IN_DOCUMENTS.items():
        fields.look(type_, [text for found, text in documents if found == kind])
    assert len(fields.known) > 250
    assert fields.missing - SINCE == NOT_STORED


def test_every_encoded_field_of_every_record_of_redis_is_there() -> None:
    stored, fields = form.read_redis(NEWEST / form.REDIS), Fields()
    for kind, type_ in IN_HASHES.items():
        hashes = [value["hash"] for key, value in stored.items() if key.partition("}:")[2].partition(":")[0] == kind]
        texts = [text.encode("latin-1").decode() for one in hashes for text in one.values()]
        fields.look(type_, texts)
    assert fields.missing - SINCE == set()


def test_golden_stores_are_small() -> None:
    for folder in RELEASES:
        size = sum(path.stat().st_size for path in folder.iterdir())
        assert size < 800_000, f"{folder.name} has {size:,} bytes"


def test_values_beside_golden_stores_are_complete() -> None:
    assert set(json.loads((NEWEST / form.VALUES).read_text())) == {
        "admin",
        "bot",
        "cookie",
        "now",
        "payment",
        "session",
    }
