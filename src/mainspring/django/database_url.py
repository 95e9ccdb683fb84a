"""The URL of a store in one of the project's DATABASES."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from ..errors import BadSetting

_WAY_OUT = "give the store's URL: MAINSPRING = {'store': 'postgresql://…'}"
# Options of psycopg that our driver knows by the same name.
_SHARED_OPTIONS = {"sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile", "target_session_attrs"}
# Options that concern only the sessions of Django.
_OWN_OPTIONS = {"application_name", "client_encoding", "connect_timeout", "isolation_level", "pool"} | {
    *("keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval", "tcp_user_timeout"),
    *("prepare_threshold", "server_side_binding"),
}


def database_url(alias: str, database: Mapping[str, Any]) -> str:
    """The URL of the store in that database. Raises BadSetting if it cannot have one."""
    engine, name = str(database["ENGINE"]), str(database["NAME"])
    if engine.endswith(("sqlite3", "spatialite")):
        return _sqlite_url(alias, name)
    if engine.endswith(("postgresql", "postgis")):
        return _postgres_url(alias, name, database)
    raise BadSetting(f"DATABASES[{alias!r}] is of {engine}; the store needs PostgreSQL or SQLite here, or {_WAY_OUT}")


def _sqlite_url(alias: str, name: str) -> str:
    if ":memory:" in name or "mode=memory" in name:
        raise BadSetting(
            f"DATABASES[{alias!r}] is in memory, where a worker cannot read it; in tests give it a file: "
            "'TEST': {'NAME': BASE_DIR / 'test.sqlite3'}, or set TASKS to the immediate or the dummy backend"
        )
    return f"sqlite:///{os.path.abspath(name)}"


def _postgres_url(alias: str, name: str, database: Mapping[str, Any]) -> str:
    query: dict[str, str] = {}
    for option, value in database["OPTIONS"].items():
        if option in _SHARED_OPTIONS:
            query[option] = str(value)
        elif option not in _OWN_OPTIONS:
            raise BadSetting(
                f"DATABASES[{alias!r}] has the option {option!r}, which Mainspring cannot read: {_WAY_OUT}"
            )
    if not name:
        raise BadSetting(f"DATABASES[{alias!r}] has no NAME: {_WAY_OUT}")
    user, password, host, port = (str(database[key] or "") for key in ("USER", "PASSWORD", "HOST", "PORT"))
    authority = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    authority += "@" if authority else ""
    if host.startswith("/"):
        query.update({"host": host} | ({"port": port} if port else {}))
    else:
        authority += f"[{host}]" if ":" in host else host
        authority += f":{port}" if port and host else ""
        if port and not host:
            query["port"] = port
    return f"postgresql://{authority}/{quote(name, safe='')}" + (f"?{urlencode(query)}" if query else "")
