"""Names that are stored or sent between releases: each keeps its text when the code is renamed."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import mainspring
from mainspring import Cancel, DeadLetter, Discard, Mainspring, Retry, Snooze, cron, every
from mainspring.api import etag, idempotency
from mainspring.api.access import cookie
from mainspring.api.access import first_run as welcome
from mainspring.api.routes import session
from mainspring.codec import encode_result
from mainspring.control import keys, queue_pauses
from mainspring.engine import FIRING_LEADER
from mainspring.errors import ItemsFailed, JobTimeout
from mainspring.insight import queue_depth as depth
from mainspring.records.api_key import KEY_PREFIX, SCOPES, TOKEN_PREFIX
from mainspring.records.circuit import Breaker
from mainspring.records.job import INTERNAL, UNREADABLE, Action, Job, NewJob, State
from mainspring.records.limit import RECOUNT_KIND
from mainspring.records.outcome import (
    Crashed,
    Done,
    Poisoned,
    Policy,
    ProcessDied,
    Stopped,
    bad_payload,
    decide,
    failure_of,
)
from mainspring.records.run import PARTIAL_KIND, PARTIAL_TYPE, Ending, Failure, Items
from mainspring.records.skew import UndecodablePayload
from mainspring.schedule.edit import fingerprint
from mainspring.schedule.record import BACKFILL, BY_HAND, INPUT_ERROR, Spec, Tick, tick_key
from mainspring.stores.postgres.url import PostgresUrl as PostgresPlace
from mainspring.stores.redis.url import RedisUrl as RedisPlace
from mainspring.stores.rows import options_of
from mainspring.task.dead_letter import METADATA_KEY
from mainspring.task.interruption import TaskExit
from mainspring.testing.contract.build import NOW, a_schedule
from mainspring.trigger import At, Calendar, Cron, Every
from mainspring.webhook import inbound, message_dedup, record
from mainspring.webhook.delivery import Undelivered
from mainspring.webhook.message import key_prefix
from mainspring.webhook.record import QUEUE, TASK
from mainspring.webhook.signature import PREFIX
from mainspring.worker.scheduler import job_for_tick

SOURCE = Path(mainspring.__file__).parent
NO_RETRY = Policy(max_retries=0, breaker=Breaker())


def a_run(**fields: Any) -> Job:
    given = {"id": "x", "task": "t", "payload": "{}", "queue": "q", "priority": 0, "state": State.RUNNING}
    return Job(**{**given, "run_at": NOW, "created_at": NOW, "lease": "l", "attempt": 1, **fields})


def text_of(pattern: str, *folders: str) -> set[str]:
    """All matches of the pattern's first group in the source."""
    files = [path for folder in folders or ("",) for path in (SOURCE / folder).rglob("*.py")]
    return {found for path in files for found in re.findall(pattern, path.read_text(encoding="utf-8"))}


def says(text: str, folder: str = "") -> bool:
    """Whether a module contains this text."""
    return any(text in path.read_text(encoding="utf-8") for path in (SOURCE / folder).rglob("*.py"))


def tables(store: str) -> str:
    return (SOURCE / "stores" / store / "tables.sql").read_text(encoding="utf-8")


# failures: dead groups, filters and alerts use Failure.type


@pytest.mark.parametrize(
    ("ended", "type_"),
    [
        (Stopped("why"), "Cancelled"),
        (UndecodablePayload(Failure("BadPayload", "no"), "ffffffffff", "(to: int)", skew=60.0), "VersionSkew"),
        (UndecodablePayload(Failure("BadPayload", "no")), "BadPayload"),
        (Crashed("ada", 3), "WorkerLost"),
        (Crashed("ada", 1), "PoisonPill"),
        (Poisoned(3), "PoisonPill"),
        (ProcessDied("killed", 3), "ProcessDied"),
        (Done(None).partly(Items(1, 1)), "Partial"),
        (Done(*encode_result(object(), 100)), "ResultLost"),
        (Cancel(), "Cancel"),
        (Discard(), "Discard"),
        (Retry(), "Retry"),
        (JobTimeout("late"), "JobTimeout"),
        (ItemsFailed("too many"), "ItemsFailed"),
        (TaskExit("bye"), "TaskExit"),
        (Undelivered("no"), "Undelivered"),
        (ValueError("no"), "ValueError"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_stored_failure_type_of_each_ending(ended: Any, type_: str) -> None:
    failure = decide(a_run(), ended, now=NOW, policy=NO_RETRY).failure
    assert failure is not None
    assert failure.type == type_


def test_stored_failure_types_in_the_code() -> None:
    assert text_of(r'\bFailure\(\s*"(\w+)"') >= {
        "BadPayload", "Cancelled", "ChildNotStarted", "CpuLimitExceeded", "Dead", "MemoryLimitExceeded", "NotJudged",
        "PoisonPill", "ProcessDied", "ResultLost", "WorkerLost",
    }  # fmt: skip
    assert (UNREADABLE, PARTIAL_TYPE, PARTIAL_KIND) == (
        "mainspring.Unreadable", "Partial", "Partial: … of … items failed",
    )  # fmt: skip
    assert bad_payload("t", ValueError("no")).type == "BadPayload"
    assert failure_of(Snooze(1)).type == "Snooze"


def test_stored_failure_kind() -> None:
    failure = Failure("OSError", "port 4711 of 'db' at 0xff refused b'x'; it can't")
    assert failure.kind == "OSError: port … of … at … refused …; it can't"


# states and endings


def test_stored_states_endings_and_actions() -> None:
    assert [one.value for one in State] == [
        "pending", "running", "waiting", "paused", "completed", "dead", "cancelled", "expired",
    ]  # fmt: skip
    assert [one.value for one in Ending] == [
        "completed", "failed", "timeout", "snoozed", "released", "discarded", "cancelled", "crashed",
        "suspended",
    ]  # fmt: skip
    assert [one.value for one in Action] == ["cancel", "retry", "pause", "resume", "update", "delete"]


# keys: at most one job has a key, whichever release made it


def test_stored_keys_of_ticks() -> None:
    at = datetime.fromisoformat("2030-01-01T09:00:00.000001+00:00")
    assert tick_key("naïve: x", at) == "schedule:naïve: x:1893488400000001000"
    tick = Tick(n=1, at=at, seen_at=at, what="fired", reason=BY_HAND, job_id="j")
    assert job_for_tick(a_schedule("s"), tick, "{}", at, None).idempotency_key == "schedule:s:hand-j"
    filled = job_for_tick(a_schedule("s"), replace(tick, reason=BACKFILL), "{}", at, None)
    assert (filled.idempotency_key, filled.schedule, filled.scheduled_at) == (tick_key("s", at), "s", at)
    assert (BY_HAND, BACKFILL, INPUT_ERROR) == ("by_hand", "backfill", "input: ")


def test_stored_keys_of_webhook_deliveries_and_trigger_calls() -> None:
    assert key_prefix("ops") == "webhook:ops:"
    assert says('f"trigger:{trigger.name}:{call.id}"')


def test_stored_digests_of_declared_schedules() -> None:
    """With another digest, every declared schedule would count as changed by the code."""
    spec = Spec(trigger=cron("0 9 * * mon-fri", tz="Europe/Berlin"), task="report", payload='{"kind":"x"}', jitter=5.0)
    assert fingerprint(spec) == "dce85ef0d8f81e2ab0a5083b3e304273"
    assert fingerprint(Spec(trigger=every(minutes=5), task="report", max_runs=3)) == "f81feecfd3b0cdffeca281682d1f8ff4"


def test_stored_fingerprints_of_tasks() -> None:
    """With another fingerprint, every stored payload would count as made by another version of its task."""
    app = Mainspring("memory://")

    @app.dead_letter
    async def on_dead(letter: DeadLetter) -> None: ...

    @app.task
    async def send(to: str, copies: list[str] | None = None, *, wait: timedelta = timedelta()) -> None: ...

    assert on_dead.arguments.fingerprint == "88db0ca915"
    assert send.arguments.fingerprint == "343ab3de9d"


# internal names


def test_stored_names_of_internal_tasks_queues_and_leaders() -> None:
    assert (INTERNAL, TASK, QUEUE, FIRING_LEADER, METADATA_KEY) == (
        "mainspring.", "mainspring.webhook", "webhooks", "mainspring.fire", "dead_letter_of",
    )  # fmt: skip


def test_stored_kinds_of_documents() -> None:
    known = [depth.KIND, etag.KIND, idempotency.KIND, keys._USE, queue_pauses.KIND, session._KIND]
    known += [
        etag.EDIT_KIND,
        message_dedup._OPEN_KIND,
        message_dedup._SEEN_KIND,
        welcome._KIND,
        record.WEBHOOKS._kind,
        record.STANDINGS._kind,
        inbound.TRIGGERS._kind,
        RECOUNT_KIND,
    ]
    assert sorted(known) == [
        "answer", "depth", "edit", "etag", "key_use", "queue_pauses", "recount", "session", "trigger", "trigger.call",
        "trigger.open", "webhook", "webhook.standing", "welcome",
    ]  # fmt: skip
    assert says('kind="key"', "control")


def test_prefixes_of_secrets_and_name_of_the_session_cookie() -> None:
    assert (KEY_PREFIX, TOKEN_PREFIX, PREFIX, cookie.COOKIE_NAME) == ("msk", "mst", "whsec_", "__Host-mainspring")
    assert {scope.partition(":")[2] for scope in SCOPES} == {"read", "write"}


def test_stored_actions_of_the_audit_log() -> None:
    known = text_of(r'audited\("([\w.]+)"\)') | text_of(r'action="(jobs\.enqueue)"')
    assert known == {
        "flows.replay", "flows.signal", "flows.skip",
        "jobs.cancel", "jobs.delete", "jobs.enqueue", "jobs.pause", "jobs.reschedule", "jobs.resume", "jobs.retry",
        "jobs.run_again", "jobs.update", "keys.create", "keys.revoke", "limits.remove", "limits.set",
        "queues.pause", "queues.resume",
        "schedules.backfill", "schedules.create", "schedules.delete", "schedules.pause", "schedules.rebalance",
        "schedules.reschedule", "schedules.resume", "schedules.trigger", "schedules.update", "triggers.create",
        "triggers.delete", "triggers.rotate", "triggers.update", "webhooks.create", "webhooks.delete",
        "webhooks.rotate", "webhooks.test", "webhooks.update", "workers.drain", "workers.resize", "workers.resume",
        "workers.stop",
    }  # fmt: skip
    assert says('action=f"session.{verb}"')


def test_stored_reasons_of_skipped_ticks() -> None:
    known = text_of(r'(?m)^    "(\w+)": \(logging\.')
    assert known >= {
        "overlap", "catch_up", "too_old", "dependency", "made_already", "paused", "changed", "window", "excluded",
    }  # fmt: skip


def test_metric_labels_of_survived_errors() -> None:
    """Label values of mainspring_errors_survived_total, which alerts use."""
    assert text_of(r'SurvivedErrors\(\s*"(\w+)"') == {
        "api", "backlog", "backoff", "beat", "demo", "depth", "event_loop", "feed", "feed_reader", "finish", "health",
        "idempotency", "key_use", "listener", "notify", "recount", "subscriber", "tally", "warm_up", "webhooks",
    }  # fmt: skip


# tags of records


def test_stored_tags_of_triggers() -> None:
    configs = [one.__struct_config__ for one in (At, Calendar, Cron, Every)]
    assert [config.tag for config in configs] == ["at", "calendar", "cron", "every"]
    assert {config.tag_field for config in configs} == {"kind"}


def test_stored_options_of_a_job() -> None:
    job = NewJob(
        id="x", task="t", payload="{}", timeout=1.5, max_retries=2, tags=("a",), metadata={"b": 1}, schedule="s",
        scheduled_at=NOW, detached=True, fingerprint="f",
    )  # fmt: skip
    assert msgspec.json.decode(options_of(job)) == {
        "timeout": 1.5, "max_retries": 2, "tags": ["a"], "metadata": {"b": 1}, "schedule": "s",
        "scheduled_at": "2030-01-01T12:00:00Z", "beside": True, "fp": "f",
    }  # fmt: skip


# names on servers


def test_names_of_postgres_channels_locks_and_functions() -> None:
    """Two releases on one database use the same locks and the same channel."""
    place = PostgresPlace(url := "postgresql://u@h/db?schema=shop", url)
    assert (place.channel, place.lock) == ("mainspring_1664201e", -1771823074)
    functions = set(re.findall(r"FUNCTION (\w+)\(", sql := tables("postgres")))
    assert functions == {"mainspring_done", "mainspring_put", "mainspring_publish"}
    assert set(re.findall(r"name = '(\w+)'", sql)) == {"promised", "watched"}
    locks = text_of(r"advisory_xact_lock\([^,]+, (-\d+)\)", "stores/postgres")
    assert locks | set(re.findall(r"lock\(lock, (-\d+)\)", sql)) == {"-1", "-2", "-3", "-4", "-5"}
    assert says('"application_name": "mainspring"', "stores/postgres")


def test_wake_up_messages_between_processes() -> None:
    assert says('Literal["new", "final"]', "stores/postgres")
    assert says('Literal["new", "final"]', "stores/redis")


def test_prefixes_of_redis_keys() -> None:
    assert RedisPlace(url := "redis://h/0?prefix=shop", url).bases == ["{shop}"]
    assert RedisPlace(url := "redis+cluster://h/?prefix=shop", url).bases == [
        "{shop:0.11}", "{shop:1}", "{shop:2.3}", "{shop:3.11}", "{shop:4.3}", "{shop:5.10}", "{shop:6.10}",
        "{shop:7.3}",
    ]  # fmt: skip


def test_sqlite_functions_called_by_migrations() -> None:
    assert set(re.findall(r"\b(mainspring_\w+)\(", tables("sqlite"))) & {"mainspring_kind", "mainspring_is_odd"} == {
        "mainspring_kind", "mainspring_is_odd",
    }  # fmt: skip
