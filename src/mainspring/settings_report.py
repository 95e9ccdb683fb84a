"""What each setting of this process is, where it came from, and what it does."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import fields

from .config import Settings
from .mask import MASK, mask_text

Source = Literal["argument", "environment", "default"]
# What opens something is not shown; other texts are masked, so that a URL has no password.
SECRETS = ("api_key", "jwt_secret")


class Setting(Struct, frozen=True, kw_only=True):
    """One setting. Spans are seconds, sizes are bytes."""

    name: str
    value: Any
    default: Any
    source: Source
    """argument: of Mainspring(…) in code, or of the command; environment: the variable."""
    variable: str
    meaning: str
    secret: bool
    """Its value is not shown, only whether there is one."""


def sources(given: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> dict[str, Source]:
    """Where config.load() takes each setting from."""
    found: dict[str, Source] = {}
    for name in Settings.__struct_fields__:
        variable = environ.get(variable_of(name), "").strip()
        found[name] = "argument" if given.get(name) is not None else "environment" if variable else "default"
    return found


def report(settings: Settings, came_from: Mapping[str, Source]) -> list[Setting]:
    """All of them, in the order of the documentation."""
    return [
        Setting(
            name=field.name, value=_shown(field.name, getattr(settings, field.name)), default=field.default,
            source=came_from.get(field.name, "default"), variable=variable_of(field.name),
            meaning=MEANINGS.get(field.name, ""), secret=field.name in SECRETS,
        )
        for field in fields(settings)
    ]  # fmt: skip


def variable_of(name: str) -> str:
    return f"MAINSPRING_{name.upper()}"


def _shown(name: str, value: Any) -> Any:
    if name in SECRETS:
        return MASK if value else ""
    return mask_text(value) if isinstance(value, str) else value


# As docs/settings.md has them.
MEANINGS: Mapping[str, str] = {
    "store": "where the jobs are; see SQLite and PostgreSQL for the URLs; in Python the first argument",
    "concurrency": "slots of a worker: how many jobs it runs at once",
    "poll_interval": (
        "how often a worker asks, and a waiter looks, if no wake-up comes; jobs usually start much sooner, "
        "and a worker that hears of all asks far less often"
    ),
    "default_timeout": "longest time for one run, where neither task nor job says otherwise",
    "retry_max": "retries after the first attempt, where neither task nor job says otherwise",
    "retry_initial_delay": "wait before the first retry",
    "retry_max_delay": "longest wait before a retry",
    "retry_multiplier": "each wait is this many times the one before",
    "beat": "how often a worker says that it lives, and hears of cancels",
    "lease": "silent for this long, a worker's jobs are taken over; at least twice `beat`",
    "sweep": "how often a worker looks for silent ones",
    "max_crashes": "after this many crashes of its worker a job is dead as a poison pill",
    "skew": (
        "how long a job waits for a worker with the version of its task that made its arguments, before it "
        "is dead; 0: not at all"
    ),
    "grace": "how long running jobs may take to end when a worker stops",
    "fire": (
        "whether this worker fires schedules: `any`, `leader` (only while it leads) or `never`; see firing "
        "by the leader alone"
    ),
    "leader_ttl": (
        "how long a leader leads unless it says that it still does; if it dies, another one follows within "
        "this; at least twice `leader_refresh`"
    ),
    "leader_refresh": "how often a leader says so",
    "workers": (
        "processes of `mainspring worker`, or `auto`: one for each processor; a worker in a process of your "
        "own does not heed it"
    ),
    "recycle_jobs": "after this many runs a worker process gives way to a fresh one; 0: never",
    "recycle_memory": "the same when it holds more memory than this: bytes, or `512MB`, `2GB`; 0: never",
    "payload_limit": "largest arguments of a job, in bytes of JSON",
    "result_limit": "largest result that is kept, in bytes of JSON",
    "durability": "`full` or `relaxed`; see SQLite, PostgreSQL",
    "instance_id": (
        "how a worker's name begins; empty: with the host. Process id and eight random digits follow, so no "
        "two are the same"
    ),
    "log_level": (
        "`debug`, `info`, `warning`, `error` or `critical`; what `mainspring worker` logs; with `debug` "
        "there are also lines for starts and successes. In a process of your own the logger `mainspring` is "
        "yours to set up"
    ),
    "log_format": "`console`, or `json`: one object a line, for programs that collect logs",
    "metrics_host": "the address at which `mainspring worker` serves its metrics and its health",
    "metrics_port": "and the port; 0: it serves none",
    "dead_queue": "the queue of the dead-letter handler",
    "dead_retention": "how long dead jobs are kept, where the task has no `retention`",
    "history_keep": "how many of a task's completed, cancelled or expired jobs are kept however old they are",
    "history_days": "and how many days all of them are kept; 0: only the newest `history_keep`",
    "audit_days": "how many days the audit trail is kept",
    "api_key": "the key for a `store` that is an API, `https://…`",
    "host": "where `server` and `dev` listen",
    "port": "and at which port; 0: any that is free",
    "jwt_algorithm": "`HS256` or `RS256`: the one that JSON web tokens are signed by; empty: none are accepted",
    "jwt_secret": "for `HS256`: the secret they are signed with, at least 32 bytes",
    "jwt_jwks": "for `RS256`: where the public keys are, an `https://` URL or a file",
    "jwt_issuer": "who must have issued them (`iss`)",
    "jwt_audience": "who they must be for (`aud`)",
    "jwt_role_claim": "the claim that has the role",
    "jwt_subject_claim": "the claim that says who it is, for the audit trail",
    "session_hours": "how long a browser is signed in at most",
    "hide_payloads": "whether viewers see no arguments, results and error texts; see what is hidden",
    "webhook_allow": (
        "networks and hosts that webhooks may reach though they are not public, or by plain http: "
        "`10.0.0.0/8, hooks.lan, *.corp.example`"
    ),
    "postgres_schema": "the schema of the tables in PostgreSQL, as `?schema=` of its URL; empty: `public`",
    "postgres_table_prefix": "how their names begin, as `?prefix=` of its URL; empty: `mainspring_`",
    "redis_key_prefix": (
        "how keys in Redis begin, as `?prefix=` of its URL, with or without a colon at the end; empty: `mainspring`"
    ),
}
