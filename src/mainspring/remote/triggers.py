"""app.triggers over an API; messages come in where the API is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from ..control.triggers import NewTriggerSecret, TriggerOptions, Triggers
from ..control.webhooks import OVERLAP
from ..span import Span, seconds
from ..webhook.inbound import InboundTrigger
from .line import line_of


class RemoteTriggers(Triggers):
    async def get(self, name: str) -> InboundTrigger:
        return await (await line_of(self._ground)).ask(InboundTrigger, "GET", "triggers", name)

    async def list(self) -> Sequence[InboundTrigger]:
        return await (await line_of(self._ground)).ask(tuple[InboundTrigger, ...], "GET", "triggers")

    async def create(
        self, name: str, *, secret: str | None = None, **options: Unpack[TriggerOptions]
    ) -> NewTriggerSecret:  # fmt: skip
        return await self._made("triggers", body={"name": name, "secret": secret, **options})

    async def update(
        self,
        name: str,
        *,
        disabled: bool | None = None,
        expected: int | None = None,
        **options: Unpack[TriggerOptions],
    ) -> InboundTrigger:
        said = {**options} | ({} if disabled is None else {"disabled": disabled})
        line = await line_of(self._ground)
        return await line.ask(InboundTrigger, "PATCH", "triggers", name, body=said, if_match=expected)

    async def rotate(self, name: str, *, overlap: Span = OVERLAP, secret: str | None = None) -> NewTriggerSecret:
        body = {"overlap": seconds(overlap, "overlap"), "secret": secret}
        return await self._made("triggers", name, "rotate", body=body)

    async def delete(self, name: str) -> None:
        await (await line_of(self._ground)).tell("DELETE", "triggers", name)

    async def _made(self, *path: str, body: Mapping[str, Any]) -> NewTriggerSecret:
        return await (await line_of(self._ground)).ask(NewTriggerSecret, "POST", *path, body=body)
