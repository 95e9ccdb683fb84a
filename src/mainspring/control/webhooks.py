"""app.webhooks: webhooks, and how their deliveries go."""

from __future__ import annotations

from builtins import list as List
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from msgspec import Struct
from msgspec.structs import replace

from ..config import Settings
from ..errors import BadInput
from ..ids import new_id
from ..records.document import DocumentDrop
from ..records.query import Filter
from ..span import Span, seconds
from ..suggest import unexpected_keyword
from ..task.handle import Handle
from ..webhook.message import WebhookEvent, delivery_job, key_prefix
from ..webhook.record import (
    EVENTS,
    EXTRAS,
    MAX_WEBHOOKS,
    STANDINGS,
    TASK,
    TEST_EVENT,
    WEBHOOKS,
    Extra,
    Kind,
    Redacted,
    SigningSecret,
    SigningSecrets,
    Standing,
    StoredWebhook,
    Webhook,
    abridged_url,
    audit_facts,
    check_choices,
    check_hook_name,
    check_names,
    check_note,
    secret_or_new,
)
from .audit_log import annotate, audited
from .job_page import Page

if TYPE_CHECKING:
    from ..engine import Engine

# How long the previous secret still signs, in addition to the new one.
OVERLAP = timedelta(days=1)


class WebhookOptions(TypedDict, total=False):
    """Options of a webhook beside its URL and its events."""

    queues: Sequence[str] | None
    tasks: Sequence[str] | None
    tags: Sequence[str] | None
    include: Sequence[Extra]
    note: str


class WebhookChanges(WebhookOptions, total=False):
    url: str
    events: Sequence[Kind]


class NewSecret(Struct, frozen=True):
    """A webhook and its secret, which is not shown again."""

    webhook: Webhook
    secret: str


class Webhooks:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # reading

    async def get(self, name: str) -> Webhook:
        return (await self._get_stored(name)).shown

    async def list(self) -> Sequence[Webhook]:
        """All webhooks, by name."""
        return [stored.shown for stored in await WEBHOOKS.find(await self._engine.connect(), None, self._now())]

    async def standing(self, name: str) -> Standing:
        """How its deliveries have gone."""
        found = await STANDINGS.find(await self._engine.connect(), [(await self.get(name)).name], self._now())
        return found[0] if found else Standing(name=name)

    async def standings(self) -> Mapping[str, Standing]:
        """The standings of all webhooks that ever had a delivery, by name."""
        return {one.name: one for one in await STANDINGS.find(await self._engine.connect(), None, self._now())}

    async def deliveries(self, name: str, *, limit: int = 100, after: str | None = None) -> Page:
        """The jobs that deliver to it, newest first."""
        which = Filter(key_prefix=key_prefix((await self.get(name)).name), tasks=(TASK,))
        return await self._engine.jobs.list(which, limit=limit, after=after)

    # creating and changing

    async def create(
        self,
        name: str,
        url: str,
        events: Sequence[Kind],
        *,
        secret: str | None = None,
        **options: Unpack[WebhookOptions],
    ) -> NewSecret:
        """Subscribes the URL to these events; workers know within a beat. The secret is shown this once."""
        given = {**options, "events": events}
        return await self._create(name, abridged_url(str(url)), given, Redacted((url, secret_or_new(secret))))

    @audited("webhooks.create")
    async def _create(self, name: str, url: str, options: Mapping[str, Any], hidden: Redacted) -> NewSecret:
        (whole, secret), store, now = hidden.value, await self._engine.connect(), self._now()
        values = _checked({**options, "url": whole}, self._engine.settings)
        hook = Webhook(name=check_hook_name(name, "webhook"), **values, created_at=now)
        if len(await WEBHOOKS.find(store, None, now)) >= MAX_WEBHOOKS:
            raise BadInput(f"there are {MAX_WEBHOOKS} webhooks already; delete one")
        stored = await WEBHOOKS.add(store, StoredWebhook(hook, SigningSecrets((SigningSecret(secret),))), now)
        annotate(before=None, after=audit_facts(stored.shown))
        return NewSecret(stored.shown, secret)

    async def update(
        self,
        name: str,
        *,
        disabled: bool | None = None,
        expected: int | None = None,
        **options: Unpack[WebhookChanges],
    ) -> Webhook:
        """Changes the given options. With `expected`, raises if the revision is not that one any more."""
        if not options and disabled is None:
            raise BadInput(f"update of webhook {name!r} was given nothing to change")
        given: dict[str, Any] = {**options}
        hidden = {"url": given.pop("url")} if "url" in given else {}
        return await self._update(name, given, Redacted(hidden), disabled=disabled, expected=expected)

    @audited("webhooks.update")
    async def _update(
        self, name: str, options: Mapping[str, Any], hidden: Redacted, *, disabled: bool | None, expected: int | None
    ) -> Webhook:
        values, now = _checked({**options, **hidden.value}, self._engine.settings), self._now()

        def act(stored: StoredWebhook) -> StoredWebhook:
            hook = replace(stored.webhook, **values)
            if disabled is False:
                hook = replace(hook, disabled_at=None, disabled_reason="")
            elif disabled and hook.disabled_at is None:
                hook = replace(hook, disabled_at=now, disabled_reason="by an operator")
            return replace(stored, webhook=hook)

        return (await self._change(name, act, expected)).shown

    async def rotate(self, name: str, *, overlap: Span = OVERLAP, secret: str | None = None) -> NewSecret:
        """Replaces the secret, and shows it this once; the previous one signs as well until `overlap` ends."""
        return await self._rotate(name, seconds(overlap, "overlap"), Redacted(secret_or_new(secret)))

    @audited("webhooks.rotate")
    async def _rotate(self, name: str, overlap: float, secret: Redacted) -> NewSecret:
        until = self._now() + timedelta(seconds=overlap)
        stored = await self._change(name, lambda stored: replace(stored, keys=stored.keys.rotated(secret.value, until)))
        return NewSecret(stored.shown, secret.value)

    @audited("webhooks.delete")
    async def delete(self, name: str) -> None:
        """Deletes the webhook; pending deliveries are cancelled when they are due."""
        store = await self._engine.connect()
        stored = await WEBHOOKS.get_readable(store, check_hook_name(name, "webhook"), self._now())
        await WEBHOOKS.drop(store, name, self._now())
        await store.put_documents([DocumentDrop("webhook.standing", name)], now=self._now())
        annotate(before=None if stored is None else audit_facts(stored.shown), after=None)

    @audited("webhooks.test")
    async def test(self, name: str) -> Handle[Any]:
        """Enqueues one test delivery; the outcome of its job tells whether it succeeded."""
        hook, now = await self.get(name), self._now()
        event = WebhookEvent(
            kind=TEST_EVENT, at=now, about=new_id(now), facts={"webhook": name, "note": "a test; nothing has happened"}
        )
        (handle,) = await self._engine.insert([delivery_job(hook, event, now, max_retries=0)])
        return handle

    # inside

    def _now(self) -> datetime:
        return self._engine.clock.now()

    async def _get_stored(self, name: str) -> StoredWebhook:
        return await WEBHOOKS.get(await self._engine.connect(), check_hook_name(name, "webhook"), self._now())

    async def _change(
        self, name: str, act: Callable[[StoredWebhook], StoredWebhook], expected: int | None = None
    ) -> StoredWebhook:
        store, before = await self._engine.connect(), List[StoredWebhook]()

        def seen(stored: StoredWebhook) -> StoredWebhook:
            before[:] = [stored]
            return act(stored)

        name = check_hook_name(name, "webhook")
        stored = await WEBHOOKS.change(store, name, self._now(), seen, expected=expected)
        annotate(before=audit_facts(before[0].shown), after=audit_facts(stored.shown))
        return stored


def _checked(given: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """The values as a Webhook has them. Raises for each bad one, with its name."""
    from ..webhook.address import AllowList, check_url

    checks: Mapping[str, Callable[[Any], Any]] = {
        "events": lambda value: check_choices("events", value, EVENTS, least=1),
        "include": lambda value: check_choices("include", value, EXTRAS),
        "queues": lambda value: check_names("queues", value),
        "tasks": lambda value: check_names("tasks", value),
        "tags": lambda value: check_names("tags", value),
        "note": check_note,
    }
    values = {}
    for name, value in given.items():
        if name == "url":
            check_url(value, AllowList(settings.webhook_allow))
            values[name] = value
        elif name not in checks:
            raise unexpected_keyword("webhooks", name, ["url", *checks])
        else:
            values[name] = checks[name](value)
    return values
