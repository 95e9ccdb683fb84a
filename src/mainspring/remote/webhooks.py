"""app.webhooks over an API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Unpack

from msgspec import Struct
from msgspec.structs import asdict

from ..control.webhooks import OVERLAP, NewSecret, WebhookChanges, WebhookOptions, Webhooks
from ..records.job import Enqueued
from ..span import Span, seconds
from ..task.handle import Handle
from ..webhook.record import Kind, Standing, Webhook
from .line import line_of


class WebhookAnswer(Webhook, frozen=True, kw_only=True):
    failures: int = 0
    failed_at: datetime | None = None
    error: str = ""
    delivered_at: datetime | None = None

    def record(self) -> Webhook:
        known = asdict(self)
        return Webhook(**{name: known[name] for name in Webhook.__struct_fields__})

    def standing(self) -> Standing:
        return Standing(
            name=self.name, failures=self.failures, failed_at=self.failed_at, error=self.error,
            delivered_at=self.delivered_at,
        )  # fmt: skip


class _Made(Struct):
    webhook: WebhookAnswer
    secret: str


class RemoteWebhooks(Webhooks):
    """The path of a URL is shown to keys of admins only."""

    async def get(self, name: str) -> Webhook:
        return (await self._answer(name)).record()

    async def list(self) -> Sequence[Webhook]:
        return [one.record() for one in await self._answers()]

    async def standing(self, name: str) -> Standing:
        return (await self._answer(name)).standing()

    async def standings(self) -> Mapping[str, Standing]:
        return {one.name: one.standing() for one in await self._answers()}

    async def create(
        self,
        name: str,
        url: str,
        events: Sequence[Kind],
        *,
        secret: str | None = None,
        **options: Unpack[WebhookOptions],
    ) -> NewSecret:
        body = {"name": name, "url": url, "events": events, "secret": secret, **options}
        return await self._made("webhooks", body=body)

    async def update(
        self,
        name: str,
        *,
        disabled: bool | None = None,
        expected: int | None = None,
        **options: Unpack[WebhookChanges],
    ) -> Webhook:
        said = {**options} | ({} if disabled is None else {"disabled": disabled})
        line = await line_of(self._ground)
        return (await line.ask(WebhookAnswer, "PATCH", "webhooks", name, body=said, if_match=expected)).record()

    async def rotate(self, name: str, *, overlap: Span = OVERLAP, secret: str | None = None) -> NewSecret:
        body = {"overlap": seconds(overlap, "overlap"), "secret": secret}
        return await self._made("webhooks", name, "rotate", body=body)

    async def delete(self, name: str) -> None:
        await (await line_of(self._ground)).tell("DELETE", "webhooks", name)

    async def test(self, name: str) -> Handle[Any]:
        answer = await (await line_of(self._ground)).ask(dict[str, Any], "POST", "webhooks", name, "test")
        return self._handle(Enqueued(str(answer["id"])), "")

    async def _answer(self, name: str) -> WebhookAnswer:
        return await (await line_of(self._ground)).ask(WebhookAnswer, "GET", "webhooks", name)

    async def _answers(self) -> Sequence[WebhookAnswer]:
        return await (await line_of(self._ground)).ask(tuple[WebhookAnswer, ...], "GET", "webhooks")

    async def _made(self, *path: str, body: Mapping[str, Any]) -> NewSecret:
        made = await (await line_of(self._ground)).ask(_Made, "POST", *path, body=body)
        return NewSecret(made.webhook.record(), made.secret)
