"""RemoteTriggers: app.triggers over an API; the server receives the messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from ..control.triggers import NewTriggerSecret, TriggerOptions, Triggers
from ..control.webhooks import OVERLAP
from ..span import Span, seconds
from ..webhook.inbound import InboundTrigger
from .client import connection_of


class RemoteTriggers(Triggers):
    async def get(self, name: str) -> InboundTrigger:
        return await (await connection_of(self._engine)).call(InboundTrigger, "GET", "triggers", name)

    async def list(self) -> Sequence[InboundTrigger]:
        return await (await connection_of(self._engine)).call(tuple[InboundTrigger, ...], "GET", "triggers")

    async def create(
        self, name: str, *, secret: str | None = None, **options: Unpack[TriggerOptions]
    ) -> NewTriggerSecret:
        return await self._new_secret("triggers", body={"name": name, "secret": secret, **options})

    async def update(
        self,
        name: str,
        *,
        disabled: bool | None = None,
        expected: int | None = None,
        **options: Unpack[TriggerOptions],
    ) -> InboundTrigger:
        body = {**options} | ({} if disabled is None else {"disabled": disabled})
        connection = await connection_of(self._engine)
        return await connection.call(InboundTrigger, "PATCH", "triggers", name, body=body, if_match=expected)

    async def rotate(self, name: str, *, overlap: Span = OVERLAP, secret: str | None = None) -> NewTriggerSecret:
        body = {"overlap": seconds(overlap, "overlap"), "secret": secret}
        return await self._new_secret("triggers", name, "rotate", body=body)

    async def delete(self, name: str) -> None:
        await (await connection_of(self._engine)).send("DELETE", "triggers", name)

    async def _new_secret(self, *path: str, body: Mapping[str, Any]) -> NewTriggerSecret:
        return await (await connection_of(self._engine)).call(NewTriggerSecret, "POST", *path, body=body)
