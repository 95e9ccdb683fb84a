"""Settings: arguments, then MAINSPRING_* variables, then defaults; a bad value is refused by name."""

import math
import os
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import fields

from mainspring import Backoff, BadSetting, Mainspring
from mainspring.config import Settings, load, read_size, read_span

ALL = [field.name for field in fields(Settings)]

# For each setting: the text of its variable, the value of that text, and a different argument.
GIVEN: dict[str, tuple[str, Any, Any]] = {
    "store": ("memory://a", "memory://a", "memory://b"),
    "concurrency": ("7", 7, 8),
    "poll_interval": ("250ms", 0.25, 0.5),
    "default_timeout": ("5m", 300.0, 60.0),
    "retry_max": ("0", 0, 9),
    "retry_initial_delay": ("2", 2.0, 3.0),
    "retry_max_delay": ("2h", 7200.0, 60.0),
    "retry_multiplier": ("1.5", 1.5, 3.0),
    "beat": ("1s", 1.0, 2.0),
    "lease": ("60s", 60.0, 45.0),
    "sweep": ("9", 9.0, 8.0),
    "max_crashes": ("1", 1, 2),
    "skew": ("0", 0.0, 90.0),
    "grace": ("1m", 60.0, 5.0),
    "fire": ("Leader", "leader", "never"),
    "leader_ttl": ("1m", 60.0, 20.0),
    "leader_refresh": ("5s", 5.0, 2.0),
    "workers": ("4", 4, 2),
    "recycle_jobs": ("1000", 1000, 5),
    "recycle_memory": ("512MB", 512 << 20, 1 << 30),
    "payload_limit": ("1000", 1000, 2000),
    "result_limit": ("1000", 1000, 2000),
    "durability": ("relaxed", "relaxed", "full"),
    "instance_id": ("ada", "ada", "bob"),
    "log_level": ("debug", "debug", "error"),
    "log_format": ("JSON", "json", "console"),
    "metrics_host": ("0.0.0.0", "0.0.0.0", "::1"),
    "metrics_port": ("9464", 9464, 0),
    "dead_queue": ("letters", "letters", "graves"),
    "dead_retention": ("72h", 259200.0, 60.0),
    "history_keep": ("0", 0, 5),
    "history_days": ("1.5", 1.5, 7.0),
    "jwt_algorithm": ("rs256", "RS256", "HS256"),
    "jwt_secret": ("s" * 32, "s" * 32, "t" * 32),
    "jwt_jwks": ("https://id.example/keys", "https://id.example/keys", "keys.json"),
    "jwt_issuer": ("https://id.example", "https://id.example", "ada"),
    "jwt_audience": ("mainspring", "mainspring", "jobs"),
    "jwt_role_claim": ("groups", "groups", "role"),
    "jwt_subject_claim": ("email", "email", "sub"),
    "session_hours": ("1.5", 1.5, 24.0),
    "hide_payloads": ("On", True, False),
    "children": ("2", 2, 3),
    "tune_gc": ("Off", False, True),
    "audit_days": ("90", 90.0, 7.0),
    "api_key": ("msk_a", "msk_a", "msk_b"),
    "host": ("0.0.0.0", "0.0.0.0", "127.0.0.2"),
    "port": ("80", 80, 0),
    "webhook_allow": ("10.0.0.0/8, hooks.lan", ("10.0.0.0/8", "hooks.lan"), ("localhost",)),
    "postgres_schema": ("shop", "shop", "mill"),
    "postgres_table_prefix": ("shop_", "shop_", "mill_"),
    "redis_key_prefix": ("shop:", "shop:", "mill"),
}


def test_the_test_table_has_every_setting() -> None:
    assert set(GIVEN) == set(ALL)


@pytest.mark.parametrize("name", ALL)
def test_an_environment_variable_overrides_the_default(name: str) -> None:
    text, value, _ = GIVEN[name]
    assert getattr(load({}, {f"MAINSPRING_{name.upper()}": text}), name) == value


@pytest.mark.parametrize("name", ALL)
def test_an_argument_overrides_the_environment_variable(name: str) -> None:
    text, _, argument = GIVEN[name]
    assert getattr(load({name: argument}, {f"MAINSPRING_{name.upper()}": text}), name) == argument


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("blank", ["", "   "])
def test_a_blank_environment_variable_is_ignored(name: str, blank: str) -> None:
    assert load({}, {f"MAINSPRING_{name.upper()}": blank}) == Settings()


@pytest.mark.parametrize("name", ALL)
def test_a_setting_of_none_means_the_default(name: str) -> None:
    assert load({name: None}, {}) == Settings()


def test_default_settings_are_as_documented() -> None:
    settings = load({}, {})
    assert settings.store == "sqlite:///mainspring.db"
    assert (settings.concurrency, settings.poll_interval, settings.default_timeout) == (100, 1, 300)
    assert (settings.retry_max, settings.backoff) == (3, Backoff(initial=1, multiplier=2, max=3600))
    assert (settings.beat, settings.lease, settings.max_crashes, settings.grace) == (5, 20, 3, 30)
    assert (settings.workers, settings.recycle_jobs, settings.recycle_memory) == (1, 0, 0)
    assert (settings.payload_limit, settings.result_limit) == (1 << 20, 1 << 20)
    assert (settings.durability, settings.log_level) == ("full", "info")
    assert (settings.workers, settings.recycle_jobs, settings.recycle_memory) == (1, 0, 0)
    assert (settings.dead_queue, settings.dead_retention) == ("dead", timedelta(days=7).total_seconds())
    assert (settings.history_keep, settings.history_days, settings.audit_days) == (100, 30, 365)


def test_the_environment_is_read_when_the_app_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_STORE", "memory://")
    monkeypatch.setenv("MAINSPRING_CONCURRENCY", "3")
    app = Mainspring(concurrency=4)
    assert (app.settings.store, app.settings.concurrency) == ("memory://", 4)


def test_the_app_refuses_an_unknown_setting() -> None:
    with pytest.raises(BadSetting, match=r"^unknown setting 'concurency'; did you mean 'concurrency'\?$"):
        Mainspring("memory://", concurency=5)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (5, 5.0),
        (2.5, 2.5),
        ("5", 5.0),
        ("2.5", 2.5),
        ("5s", 5.0),
        (" 5 s ", 5.0),
        ("250ms", 0.25),
        ("5m", 300.0),
        ("1.5h", 5400.0),
        ("168h", 604800.0),
        ("7d", 604800.0),
        (timedelta(minutes=2), 120.0),
    ],
)
def test_a_span_setting_has_several_forms(value: Any, seconds: float) -> None:
    assert read_span(value, "it") == seconds


@pytest.mark.parametrize(
    ("value", "bytes"),
    [
        (0, 0),
        ("0", 0),
        (1 << 20, 1 << 20),
        ("1048576", 1 << 20),
        ("512MB", 512 << 20),
        ("512 mb", 512 << 20),
        ("512M", 512 << 20),
        ("512MiB", 512 << 20),
        ("1.5GB", 3 << 29),
        (" 2048KB ", 2 << 20),
    ],
)
def test_a_size_setting_has_several_forms(value: Any, bytes: int) -> None:
    assert read_size(value, "it") == bytes


def test_workers_auto_is_the_number_of_usable_processors() -> None:
    assert load({"workers": "auto"}, {}).workers == len(os.sched_getaffinity(0))


NO_SPAN = "must be a span such as 30, '30s', '5m' or '1h30m', got"
TOO_SHORT = "must be a span of more than 0 seconds, got"
NO_SIZE = "must be a size such as '512MB' or '2GB', at least 1MB, or 0 for never; got"
NO_COUNT = "must be a whole number from 1 to 1000, or 'auto'; got"
NO_SWITCH = "must be on or off (on, true, yes, 1, off, false, no, 0), got"
LEVELS = "debug, info, warning, error, critical"
NO_SIZE = "must be a size such as '512MB' or '2GB', at least 1MB, or 0 for never; got"

BAD: list[tuple[dict[str, Any], str]] = [
    ({"beat": "5 fortnights"}, f"beat {NO_SPAN} '5 fortnights'"),
    ({"beat": "-5"}, f"beat {NO_SPAN} '-5'"),
    ({"beat": "nan"}, f"beat {NO_SPAN} 'nan'"),
    ({"beat": "٥s"}, f"beat {NO_SPAN} '٥s'"),
    ({"beat": "0s"}, f"beat {TOO_SHORT} '0s'"),
    ({"beat": 0}, f"beat {TOO_SHORT} 0"),
    ({"beat": -1}, f"beat {TOO_SHORT} -1"),
    ({"beat": math.nan}, f"beat {TOO_SHORT} nan"),
    ({"beat": math.inf}, f"beat {TOO_SHORT} inf"),
    ({"beat": True}, f"beat {TOO_SHORT} True"),
    ({"beat": []}, f"beat {TOO_SHORT} []"),
    ({"beat": timedelta(0)}, f"beat {TOO_SHORT} datetime.timedelta(0)"),
    ({"skew": "a while"}, f"skew {NO_SPAN} 'a while'"),
    ({"skew": -1}, "skew must be a span of 0 seconds or more, got -1"),
    ({"skew": math.inf}, "skew must be a span of 0 seconds or more, got inf"),
    ({"skew": False}, "skew must be a span of 0 seconds or more, got False"),
    ({"concurrency": 0}, "concurrency must be a whole number of at least 1, got 0"),
    ({"concurrency": "many"}, "concurrency must be a whole number of at least 1, got 'many'"),
    ({"concurrency": 1.5}, "concurrency must be a whole number of at least 1, got 1.5"),
    ({"concurrency": True}, "concurrency must be a whole number of at least 1, got True"),
    ({"retry_max": -1}, "retry_max must be a whole number of at least 0, got -1"),
    ({"max_crashes": 0}, "max_crashes must be a whole number of at least 1, got 0"),
    ({"recycle_jobs": -1}, "recycle_jobs must be a whole number of at least 0, got -1"),
    ({"recycle_memory": 512}, f"recycle_memory {NO_SIZE} 512"),
    ({"recycle_memory": "much"}, f"recycle_memory {NO_SIZE} 'much'"),
    ({"recycle_memory": "-1MB"}, f"recycle_memory {NO_SIZE} '-1MB'"),
    ({"recycle_memory": 2.5e6}, f"recycle_memory {NO_SIZE} 2500000.0"),
    ({"recycle_memory": True}, f"recycle_memory {NO_SIZE} True"),
    ({"workers": 0}, f"workers {NO_COUNT} 0"),
    ({"workers": "0"}, f"workers {NO_COUNT} '0'"),
    ({"workers": -2}, f"workers {NO_COUNT} -2"),
    ({"workers": 1001}, f"workers {NO_COUNT} 1001"),
    ({"workers": 1.5}, f"workers {NO_COUNT} 1.5"),
    ({"workers": True}, f"workers {NO_COUNT} True"),
    ({"workers": "²"}, f"workers {NO_COUNT} '²'"),
    ({"payload_limit": "1MB"}, "payload_limit must be a whole number of at least 1, got '1MB'"),
    ({"result_limit": 0}, "result_limit must be a whole number of at least 1, got 0"),
    ({"retry_multiplier": "double"}, "retry_multiplier must be a number, got 'double'"),
    ({"retry_multiplier": []}, "retry_multiplier must be a number, got []"),
    (
        {"retry_multiplier": 0.5},
        "retry_* settings do not fit together: backoff multiplier must be at least 1, got 0.5",
    ),
    (
        {"retry_initial_delay": 10, "retry_max_delay": 5},
        "retry_* settings do not fit together: backoff needs 0 < initial <= max, got initial=10.0, max=5.0",
    ),
    ({"lease": 9}, "lease (9s) must be at least twice beat (5s), or one late beat loses every job"),
    ({"beat": 11}, "lease (20s) must be at least twice beat (11s), or one late beat loses every job"),
    (
        {"leader_ttl": 15},
        "leader_ttl (15s) must be at least twice leader_refresh (10s), or one late refresh loses the leadership",
    ),
    (
        {"leader_ttl": 0.9, "leader_refresh": 0.3},
        "leader_ttl must be at least 1s, clocks are not more exact; got 0.9s",
    ),
    ({"fire": "all"}, "fire must be one of any, leader, never, got 'all'"),
    ({"durability": "best"}, "durability must be 'full' or 'relaxed', got 'best'"),
    ({"durability": 5}, "durability must be text, got 5"),
    ({"log_format": "xml"}, "log_format must be 'console' or 'json', got 'xml'"),
    ({"metrics_port": 65_536}, "metrics_port must be from 0 (none) to 65535, got 65536"),
    ({"log_level": "loud"}, f"log_level must be one of {LEVELS}, got 'loud'"),
    ({"instance_id": 5}, "instance_id must be text, got 5"),
    ({"store": 5}, "store must be text, got 5"),
    ({"workers": 0}, "workers must be a whole number from 1 to 1000, or 'auto'; got 0"),
    ({"workers": True}, "workers must be a whole number from 1 to 1000, or 'auto'; got True"),
    ({"workers": "some"}, "workers must be a whole number from 1 to 1000, or 'auto'; got 'some'"),
    ({"recycle_jobs": -1}, "recycle_jobs must be a whole number of at least 0, got -1"),
    ({"recycle_memory": "much"}, f"recycle_memory {NO_SIZE} 'much'"),
    ({"recycle_memory": "1KB"}, f"recycle_memory {NO_SIZE} '1KB'"),
    ({"dead_queue": 5}, "dead_queue must be text, got 5"),
    ({"dead_retention": 0}, f"dead_retention {TOO_SHORT} 0"),
    ({"history_keep": -1}, "history_keep must be a whole number of at least 0, got -1"),
    ({"history_days": -1}, "history_days must be from 0 to 36500, got -1"),
    ({"audit_days": -1}, "audit_days must be from 0 to 36500, got -1"),
    ({"history_days": 1e9}, "history_days must be from 0 to 36500, got 1e+09"),
    ({"history_days": "long"}, "history_days must be a number, got 'long'"),
    ({"jwt_algorithm": "none"}, "jwt_algorithm must be 'HS256' or 'RS256', got 'none'"),
    ({"session_hours": 0}, "session_hours must be more than 0 and at most 8760, got 0"),
    ({"session_hours": 1e9}, "session_hours must be more than 0 and at most 8760, got 1e+09"),
    ({"hide_payloads": "maybe"}, f"hide_payloads {NO_SWITCH} 'maybe'"),
    ({"hide_payloads": 1}, f"hide_payloads {NO_SWITCH} 1"),
    ({"webhook_allow": 7}, "webhook_allow must be a list of texts, or one with commas between them; got 7"),
    ({"webhook_allow": [7]}, "webhook_allow must be a list of texts, or one with commas between them; got [7]"),
]


@pytest.mark.parametrize(("given", "message"), BAD, ids=[message for _, message in BAD])
def test_a_bad_setting_is_refused_by_name(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSetting) as refused:
        load(given, {})
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("BEAT", "soon", f"MAINSPRING_BEAT {NO_SPAN} 'soon'"),
        ("GRACE", "0", f"MAINSPRING_GRACE {TOO_SHORT} '0'"),
        ("CONCURRENCY", "-3", "MAINSPRING_CONCURRENCY must be a whole number of at least 1, got '-3'"),
        ("RETRY_MULTIPLIER", "two", "MAINSPRING_RETRY_MULTIPLIER must be a number, got 'two'"),
    ],
)
def test_a_bad_environment_variable_is_refused_by_name(variable: str, text: str, message: str) -> None:
    with pytest.raises(BadSetting) as refused:
        load({}, {f"MAINSPRING_{variable}": text})
    assert str(refused.value) == message


@pytest.mark.parametrize(("variable", "text"), [("LOG_LEVEL", "loud"), ("DURABILITY", "best")])
def test_a_bad_choice_in_an_environment_variable_is_refused_by_name(variable: str, text: str) -> None:
    with pytest.raises(BadSetting, match=f"MAINSPRING_{variable}"):
        load({}, {f"MAINSPRING_{variable}": text})


@pytest.mark.parametrize("value", [math.nan, math.inf, "nan", "inf", True])
def test_retry_multiplier_refuses_values_that_are_not_finite_numbers(value: Any) -> None:
    with pytest.raises(BadSetting, match="retry_multiplier"):
        load({"retry_multiplier": value}, {})


@pytest.mark.parametrize("level", ["DEBUG", "Info", "warning"])
def test_log_levels_may_be_written_in_any_case(level: str) -> None:
    assert load({"log_level": level}, {}).log_level.lower() == level.lower()


@pytest.mark.parametrize("word", ["on", "TRUE", "yes", "1"])
def test_a_boolean_setting_accepts_several_words(word: str) -> None:
    assert load({}, {"MAINSPRING_HIDE_PAYLOADS": word}).hide_payloads
    assert not load({"hide_payloads": "off"}, {}).hide_payloads


def test_settings_do_not_show_secrets() -> None:
    shown = repr(load({"store": "postgresql://ada:canary@db/jobs", "jwt_secret": "canary" * 6}, {}))
    assert "canary" not in shown
    assert "jwt_secret='***'" in shown
    assert "concurrency=100" in shown


def test_a_lease_of_exactly_two_beats_is_enough() -> None:
    assert load({"beat": 5, "lease": 10}, {}).lease == 10


def test_a_bad_setting_is_refused_before_the_store_is_created(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadSetting):
        Mainspring("sqlite:///jobs.db", beat="never")
    assert list(tmp_path.iterdir()) == []
