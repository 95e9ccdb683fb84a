"""Settings report: the value, source and meaning of each setting of this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import fields

from ..config import SPANS, Settings, Source, variable_of
from ..mask import MASK, mask_text

Unit = Literal["seconds", "bytes", "hours", "days"]
# Values that are never shown; other texts are masked, so that a URL has no password.
SECRETS = ("api_key", "jwt_secret")
SIZES = ("recycle_memory", "payload_limit", "result_limit")


class Setting(Struct, frozen=True, kw_only=True):
    """One setting. Time spans are in seconds, sizes in bytes."""

    name: str
    value: Any
    default: Any
    source: Source
    """argument: given to Mainspring(…) or on the command line; environment: from the variable."""
    variable: str
    meaning: str
    secret: bool
    """Only whether it is set is shown, not its value."""
    unit: Unit | None = None
    """The unit of a time span or a size."""


def report(settings: Settings, came_from: Mapping[str, Source]) -> list[Setting]:
    """All settings, in the order of the documentation."""
    return [
        Setting(
            name=field.name,
            value=_shown(field.name, getattr(settings, field.name)),
            default=field.default,
            source=came_from.get(field.name, "default"),
            variable=variable_of(field.name),
            meaning=MEANINGS.get(field.name, ""),
            secret=field.name in SECRETS,
            unit=_unit(field.name),
        )
        for field in fields(settings)
    ]


def _unit(name: str) -> Unit | None:
    if name in SPANS:
        return "seconds"
    if name in SIZES:
        return "bytes"
    return "days" if name.endswith("_days") else "hours" if name.endswith("_hours") else None


def _shown(name: str, value: Any) -> Any:
    if name in SECRETS:
        return MASK if value else ""
    return mask_text(value) if isinstance(value, str) else value


# The same texts as in docs/settings.md.
MEANINGS: Mapping[str, str] = {
    "store": "the URL of the store, see SQLite, PostgreSQL and Redis; in Python the first argument",
    "concurrency": "slots of a worker: how many jobs it runs at once",
    "children": "child processes of a worker that run process tasks in turn; 0: each slot may hold one",
    "poll_interval": (
        "how often a worker polls for jobs, and a waiting caller for its result, if no wake-up comes; jobs "
        "usually start much sooner, and a worker that gets every wake-up polls far less often"
    ),
    "default_timeout": "longest time for one run, unless the task or the job has its own",
    "retry_max": "retries after the first attempt, unless the task or the job has its own",
    "retry_initial_delay": "wait before the first retry",
    "retry_max_delay": "longest wait before a retry",
    "retry_multiplier": "each wait is this many times the one before",
    "beat": "how often a worker sends its heartbeat, and receives cancellations",
    "lease": (
        "when a worker has sent no heartbeat for this long, other workers take over its jobs; at least twice `beat`"
    ),
    "sweep": "how often a worker looks for workers whose lease has expired",
    "max_crashes": "a job whose worker has crashed this many times is dead, as a poison pill",
    "skew": (
        "how long a job waits for a worker with the version of its task that fits its arguments, before it is "
        "dead; 0: not at all"
    ),
    "grace": "how long running jobs may take to finish when a worker stops",
    "fire": (
        "whether this worker fires schedules: `any`, `leader` (only while it leads) or `never`; see firing by the "
        "leader alone"
    ),
    "leader_ttl": (
        "how long the term of a leader lasts unless it is renewed; if the leader dies, another one follows within "
        "this time; at least twice `leader_refresh`"
    ),
    "leader_refresh": "how often a leader renews its term",
    "workers": (
        "processes of `mainspring worker`, or `auto`: one for each processor; not used by a worker in a process "
        "of your own"
    ),
    "recycle_jobs": "after this many runs a worker process is replaced by a fresh one; 0: never",
    "recycle_memory": (
        "a worker process that holds more memory than this is replaced: bytes, or `512MB`, `2GB`; 0: never"
    ),
    "tune_gc": (
        "let `worker`, `server` and `dev` collect garbage less often than Python does by default; a process of your "
        "own is never tuned"
    ),
    "payload_limit": "largest arguments of a job, in bytes of JSON",
    "result_limit": "largest result that is kept, in bytes of JSON",
    "durability": "whether a commit waits for the disk: `full` or `relaxed`; see SQLite, PostgreSQL",
    "instance_id": (
        "the beginning of a worker's id; empty: the host name. Process id and eight random digits follow, so ids "
        "are unique"
    ),
    "log_level": (
        "what `mainspring worker` logs: `debug`, `info`, `warning`, `error` or `critical`; `debug` also logs "
        "starts and successes. In a process of your own, configure the logger `mainspring`"
    ),
    "log_format": "`console`, or `json`: one object a line, for log collectors",
    "metrics_host": "the address at which `mainspring worker` serves its metrics and its health",
    "metrics_port": "the port at which `mainspring worker` serves its metrics and its health; 0: it serves none",
    "dead_queue": "the queue of the dead-letter handler",
    "dead_retention": "how long dead jobs are kept, unless the task has its own `retention`",
    "history_keep": "how many of a task's completed, cancelled or expired jobs are kept, however old they are",
    "history_days": (
        "how many days all completed, cancelled and expired jobs are kept; 0: only the newest `history_keep`"
    ),
    "audit_days": "how many days the audit trail is kept",
    "api_key": "the API key, if `store` is the URL of an API, `https://…`",
    "host": "the address at which `server` and `dev` listen",
    "port": "the port at which `server` and `dev` listen; 0: any free port",
    "jwt_algorithm": "the algorithm that signs JSON web tokens, `HS256` or `RS256`; empty: tokens are not accepted",
    "jwt_secret": "for `HS256`: the secret that signs tokens, at least 32 bytes",
    "jwt_jwks": "for `RS256`: the public keys, as an `https://` URL or a file",
    "jwt_issuer": "the issuer that tokens must have (`iss`)",
    "jwt_audience": "the audience that tokens must have (`aud`)",
    "jwt_role_claim": "the claim of a token that holds the role",
    "jwt_subject_claim": "the claim of a token that names the user, for the audit trail",
    "session_hours": "how many hours a browser stays signed in at most",
    "hide_payloads": "hide arguments, results and error texts from viewers; see what is hidden",
    "webhook_allow": (
        "networks and hosts that webhooks may reach although they are not public, or by plain http: `10.0.0.0/8, "
        "hooks.lan, *.corp.example`"
    ),
    "postgres_schema": "the schema of the tables in PostgreSQL, as `?schema=` of its URL; empty: `public`",
    "postgres_table_prefix": "the prefix of table names in PostgreSQL, as `?prefix=` of its URL; empty: `mainspring_`",
    "redis_key_prefix": (
        "the prefix of keys in Redis, as `?prefix=` of its URL, with or without a colon at the end; empty: `mainspring`"
    ),
}
