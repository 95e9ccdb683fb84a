"""Settings: from keyword arguments, else from MAINSPRING_* variables, else their defaults."""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Literal, get_args

from msgspec import Struct
from msgspec.structs import fields

from .errors import BadSetting
from .retry import Backoff
from .span import Span, parse_span
from .suggest import did_you_mean, nearest_name

_logger = logging.getLogger("mainspring")
Durability = Literal["full", "relaxed"]
Fire = Literal["any", "leader", "never"]
LogFormat = Literal["console", "json"]
Source = Literal["argument", "environment", "default"]
LEVELS = ("debug", "info", "warning", "error", "critical")
JwtAlgorithm = Literal["", "HS256", "RS256"]

_MB = 1 << 20
_SIZE_UNITS = {"": 1, "K": 1 << 10, "M": _MB, "G": 1 << 30}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMG]?)(?:i?B)?\s*", re.ASCII | re.IGNORECASE)
# The margin of a leader's term must cover the error of the clocks.
MIN_TTL_SECONDS = 1.0
# More worker processes on one machine are taken for a typing error.
_MAX_WORKERS = 1000
# A century. More than that before now could be outside of the calendar.
_MAX_DAYS = 36_500
_MAX_SESSION_HOURS = 8760


class Settings(Struct, frozen=True, kw_only=True):
    """Every setting of the engine. Spans are in seconds; load() converts texts such as "5m"."""

    store: str = "sqlite:///mainspring.db"
    concurrency: int = 100
    children: int = 0
    poll_interval: float = 1.0
    default_timeout: float = 300.0
    retry_max: int = 3
    retry_initial_delay: float = 1.0
    retry_max_delay: float = 3600.0
    retry_multiplier: float = 2.0
    beat: float = 5.0
    lease: float = 20.0
    sweep: float = 5.0
    max_crashes: int = 3
    skew: float = 3600.0
    grace: float = 30.0
    fire: Fire = "any"
    leader_ttl: float = 30.0
    leader_refresh: float = 10.0
    workers: int = 1
    recycle_jobs: int = 0
    recycle_memory: int = 0
    tune_gc: bool = True
    payload_limit: int = 1 << 20
    result_limit: int = 1 << 20
    durability: Durability = "full"
    instance_id: str = ""
    log_level: str = "info"
    log_format: LogFormat = "console"
    metrics_host: str = "127.0.0.1"
    metrics_port: int = 0
    dead_queue: str = "dead"
    dead_retention: float = 168 * 3600.0
    history_keep: int = 100
    history_days: float = 30.0
    audit_days: float = 365.0
    api_key: str = ""
    host: str = "127.0.0.1"
    port: int = 8765
    jwt_algorithm: JwtAlgorithm = ""
    jwt_secret: str = ""
    jwt_jwks: str = ""
    jwt_issuer: str = ""
    jwt_audience: str = ""
    jwt_role_claim: str = "role"
    jwt_subject_claim: str = "sub"
    session_hours: float = 12.0
    hide_payloads: bool = False
    webhook_allow: tuple[str, ...] = ()
    postgres_schema: str = ""
    postgres_table_prefix: str = ""
    redis_key_prefix: str = ""

    def __repr__(self) -> str:
        """The settings, without secrets."""
        shown = {f.name: getattr(self, f.name) for f in fields(self)}
        shown |= {name: "***" for name in ("store", "api_key", "jwt_secret") if shown[name]}
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    @property
    def names(self) -> dict[str, str]:
        """Schemas and prefixes for the names of tables and keys, where the URL has none. Each store uses its own."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name.endswith(("_schema", "_prefix"))}

    @property
    def backoff(self) -> Backoff:
        return Backoff(initial=self.retry_initial_delay, multiplier=self.retry_multiplier, max=self.retry_max_delay)


SPANS = {
    "poll_interval", "default_timeout", "retry_initial_delay", "retry_max_delay", "beat", "lease", "sweep", "grace",
    "leader_ttl", "leader_refresh", "dead_retention", "skew",
}  # fmt: skip
_AT_LEAST = {
    "concurrency": 1, "children": 0, "retry_max": 0, "max_crashes": 1, "recycle_jobs": 0, "payload_limit": 1,
    "result_limit": 1, "history_keep": 0, "port": 0, "metrics_port": 0,
}  # fmt: skip
_CHOICES = {
    "durability": get_args(Durability), "fire": get_args(Fire), "log_level": LEVELS,
    "log_format": get_args(LogFormat),
    "jwt_algorithm": tuple(name for name in get_args(JwtAlgorithm) if name),
}  # fmt: skip

_SWITCH = {"on": True, "true": True, "yes": True, "1": True, "off": False, "false": False, "no": False, "0": False}


def load(given: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Settings:
    """Settings from keyword arguments and the environment. Raises BadSetting for an unknown or invalid one."""
    known = Settings.__struct_fields__
    for name in given:
        if name not in known:
            near = nearest_name(name, known)
            hint = f"did you mean {near!r}?" if near else f"known: {', '.join(sorted(known))}"
            raise BadSetting(f"unknown setting {name!r}; {hint}")
    values: dict[str, Any] = {}
    for name in known:
        variable = variable_of(name)
        if given.get(name) is not None:
            values[name] = _read(name, given[name], name)
        elif environ.get(variable, "").strip():
            values[name] = _read(name, environ[variable].strip(), variable)
    settings = Settings(**values)
    _check(settings)
    _warn_of_unknown(environ, known)
    return settings


def sources(given: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> dict[str, Source]:
    """The source from which load() takes each setting."""
    found: dict[str, Source] = {}
    for name in Settings.__struct_fields__:
        variable = environ.get(variable_of(name), "").strip()
        found[name] = "argument" if given.get(name) is not None else "environment" if variable else "default"
    return found


def variable_of(name: str) -> str:
    return f"MAINSPRING_{name.upper()}"


# Variables that are not settings: those of the command line, and those that our processes set for each other.
_OTHER_VARIABLES = {"APP", "FAILPOINTS", "FAILPOINT_LOG", "RELOADED", "SUPERVISED"}
_FOR_TESTS = "MAINSPRING_TEST_"
_warned: set[str] = set()


def _warn_of_unknown(environ: Mapping[str, str], settings: Iterable[str]) -> None:
    """Logs each unknown MAINSPRING_* variable, once in a process."""
    known = {variable_of(name) for name in (*settings, *_OTHER_VARIABLES)}
    ours = {name for name in environ if name.startswith("MAINSPRING_") and not name.startswith(_FOR_TESTS)}
    for name in sorted(ours - known - _warned):
        _warned.add(name)
        _logger.warning("the variable %s is not a setting, and means nothing: %s", name, did_you_mean(name, known))


def _read(name: str, value: Any, source: str) -> Any:
    if name in SPANS:
        return read_span(value, source, zero=name == "skew")
    if name == "workers":
        return read_workers(value, source)
    if name == "recycle_memory":
        return read_size(value, source)
    default = _DEFAULTS[name]
    if isinstance(default, tuple):
        return _list(value, source)
    if isinstance(default, bool):
        return _switch(value, source)
    if isinstance(default, int):
        return _integer(name, value, source)
    if isinstance(default, float):
        return _number(value, source)
    if not isinstance(value, str):
        raise BadSetting(f"{source} must be text, got {value!r}")
    choices = {choice.lower(): choice for choice in _CHOICES.get(name, ())}
    if choices and value.lower() not in choices:
        known = " or ".join(map(repr, choices.values()))
        if len(choices) > 2:
            known = f"one of {', '.join(choices.values())}"
        raise BadSetting(f"{source} must be {known}, got {value!r}")
    return choices.get(value.lower(), value)


def _switch(value: Any, source: str) -> bool:
    if isinstance(value, bool):
        return value
    switch = _SWITCH.get(value.lower()) if isinstance(value, str) else None
    if switch is None:
        raise BadSetting(f"{source} must be on or off ({', '.join(_SWITCH)}), got {value!r}")
    return switch


def _list(value: Any, source: str) -> tuple[str, ...]:
    """A list of texts, given as one or as a text with commas."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        raise BadSetting(f"{source} must be a list of texts, or one with commas between them; got {value!r}")
    return tuple(item.strip() for item in items if item.strip())


def _integer(name: str, value: Any, source: str) -> int:
    least = _AT_LEAST[name]
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = value
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise BadSetting(f"{source} must be a whole number of at least {least}, got {value!r}")
    return number


def _number(value: Any, source: str) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise BadSetting(f"{source} must be a number, got {value!r}")
    return number


def read_span(value: Span, source: str, *, zero: bool = False) -> float:
    """Seconds from 5, 2.5, "5m", "1h30m" or a timedelta. With `zero`, 0 is allowed."""
    if isinstance(value, timedelta):
        number = value.total_seconds()
    elif isinstance(value, str):
        found = parse_span(value)
        if found is None:
            raise BadSetting(f"{source} must be a span such as 30, '30s', '5m' or '1h30m', got {value!r:.80}")
        number = found
    else:
        number = value
    some = isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number < 10**9
    if not some or (number == 0 and not zero):
        least = "0 seconds or more" if zero else "more than 0 seconds"
        raise BadSetting(f"{source} must be a span of {least}, got {value!r}")
    return float(number)


def read_size(value: int | str, source: str) -> int:
    """Bytes from 536870912 or "512MB" (1 MB is 1024 KB of 1024 bytes). 0, or at least one MB."""
    number: Any = value
    if isinstance(value, str) and (match := _SIZE.fullmatch(value)):
        number = int(float(match[1]) * _SIZE_UNITS[match[2].upper()])
    whole = isinstance(number, int) and not isinstance(number, bool)
    if not whole or not (number == 0 or _MB <= number < 1 << 60):
        raise BadSetting(
            f"{source} must be a size such as '512MB' or '2GB', at least 1MB, or 0 for never; got {value!r}"
        )
    return int(number)


def read_workers(value: int | str, source: str) -> int:
    """A number of processes. "auto" is one for each processor that this process may use."""
    if isinstance(value, str) and value.strip().lower() == "auto":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    number: Any = value
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        number = int(value)
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= _MAX_WORKERS:
        raise BadSetting(f"{source} must be a whole number from 1 to {_MAX_WORKERS}, or 'auto'; got {value!r}")
    return number


def _check(s: Settings) -> None:
    if s.lease < 2 * s.beat:
        raise BadSetting(
            f"lease ({s.lease:g}s) must be at least twice beat ({s.beat:g}s), or one late beat loses every job"
        )
    if s.leader_ttl < MIN_TTL_SECONDS:
        raise BadSetting(
            f"leader_ttl must be at least {MIN_TTL_SECONDS:g}s, clocks are not more exact; got {s.leader_ttl:g}s"
        )
    if s.leader_ttl < 2 * s.leader_refresh:
        raise BadSetting(
            f"leader_ttl ({s.leader_ttl:g}s) must be at least twice leader_refresh ({s.leader_refresh:g}s), "
            "or one late refresh loses the leadership"
        )
    if s.metrics_port > 65_535:
        raise BadSetting(f"metrics_port must be from 0 (none) to 65535, got {s.metrics_port}")
    for name, days in (("history_days", s.history_days), ("audit_days", s.audit_days)):
        if not 0 <= days <= _MAX_DAYS:
            raise BadSetting(f"{name} must be from 0 to {_MAX_DAYS}, got {days:g}")
    if not 0 < s.session_hours <= _MAX_SESSION_HOURS:
        raise BadSetting(f"session_hours must be more than 0 and at most {_MAX_SESSION_HOURS}, got {s.session_hours:g}")
    if s.port > 65_535:
        raise BadSetting(f"port must be from 0 (any that is free) to 65535, got {s.port}")
    try:
        s.backoff  # noqa: B018  the Backoff checks its values
    except BadSetting as bad:
        raise BadSetting(f"retry_* settings do not fit together: {bad}") from None


_DEFAULTS: dict[str, Any] = {f.name: f.default for f in fields(Settings)}
