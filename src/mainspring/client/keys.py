"""RemoteKeys: app.keys over an API."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from ..control.keys import Keys, undecoded_key
from ..records.api_key import ApiKey, Role
from ..span import Span
from .client import connection_of


class RemoteKeys(Keys):
    async def create(
        self,
        name: str,
        role: Role = "viewer",
        scopes: Collection[str] | None = None,
        expires: Span | datetime | None = None,
    ) -> str:
        key = self.draft(name, role, scopes, expires)
        left = None if key.expires_at is None else (key.expires_at - self._engine.clock.now()).total_seconds()
        body = {"name": key.name, "role": key.role, "scopes": key.scopes, "expires": left}
        made = await (await connection_of(self._engine)).call(dict[str, Any], "POST", "keys", body=body)
        return str(made["secret"])

    async def list(self) -> Sequence[ApiKey]:
        return await (await connection_of(self._engine)).call(list[ApiKey], "GET", "keys")

    async def revoke(self, key: str) -> ApiKey:
        connection = await connection_of(self._engine)
        known = [one for one in await self.list() if key in (one.name, one.id)]
        await connection.send("DELETE", "keys", key)
        return known[0] if known else undecoded_key(key)
