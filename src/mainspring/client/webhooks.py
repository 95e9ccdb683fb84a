"""RemoteWebhooks: app.webhooks over an API."""

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
from .client import connection_of


class WebhookItem(Webhook, frozen=True, kw_only=True):
    failures: int = 0
    failed_at: datetime | None = None
    error: str = ""
    delivered_at: datetime | None = None

    def to_record(self) -> Webhook:
        fields = asdict(self)
        return Webhook(**{name: fields[name] for name in Webhook.__struct_fields__})

    def to_standing(self) -> Standing:
        return Standing(
            name=self.name,
            failures=self.failures,
            failed_at=self.failed_at,
            error=self.error,
            delivered_at=self.delivered_at,
        )


class _NewSecretResponse(Struct):
    webhook: WebhookItem
    secret: str


class RemoteWebhooks(Webhooks):
    """The API shows the path of a webhook URL to admins only."""

    async def get(self, name: str) -> Webhook:
        return (await self._item(name)).to_record()

    async def list(self) -> Sequence[Webhook]:
        return [one.to_record() for one in await self._items()]

    async def standing(self, name: str) -> Standing:
        return (await self._item(name)).to_standing()

    async def standings(self) -> Mapping[str, Standing]:
        return {one.name: one.to_standing() for one in await self._items()}

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
        return await self._new_secret("webhooks", body=body)

    async def update(
        self,
        name: str,
        *,
        disabled: bool | None = None,
        expected: int | None = None,
        **options: Unpack[WebhookChanges],
    ) -> Webhook:
        body = {**options} | ({} if disabled is None else {"disabled": disabled})
        connection = await connection_of(self._engine)
        return (await connection.call(WebhookItem, "PATCH", "webhooks", name, body=body, if_match=expected)).to_record()

    async def rotate(self, name: str, *, overlap: Span = OVERLAP, secret: str | None = None) -> NewSecret:
        body = {"overlap": seconds(overlap, "overlap"), "secret": secret}
        return await self._new_secret("webhooks", name, "rotate", body=body)

    async def delete(self, name: str) -> None:
        await (await connection_of(self._engine)).send("DELETE", "webhooks", name)

    async def test(self, name: str) -> Handle[Any]:
        created = await (await connection_of(self._engine)).call(dict[str, Any], "POST", "webhooks", name, "test")
        return self._engine.handle(Enqueued(str(created["id"])), "")

    async def _item(self, name: str) -> WebhookItem:
        return await (await connection_of(self._engine)).call(WebhookItem, "GET", "webhooks", name)

    async def _items(self) -> Sequence[WebhookItem]:
        return await (await connection_of(self._engine)).call(tuple[WebhookItem, ...], "GET", "webhooks")

    async def _new_secret(self, *path: str, body: Mapping[str, Any]) -> NewSecret:
        made = await (await connection_of(self._engine)).call(_NewSecretResponse, "POST", *path, body=body)
        return NewSecret(made.webhook.to_record(), made.secret)
