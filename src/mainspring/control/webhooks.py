"""app.webhooks: who is told of what, and how that goes."""

from __future__ import annotations

from builtins import list as List
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack

from msgspec import Struct
from msgspec.structs import replace

from ..config import Settings
from ..errors import BadInput
from ..ids import new_id
from ..records.job import Enqueued, NewJob
from ..records.query import Filter
from ..span import Span, seconds
from ..suggest import unexpected_keyword
from ..task.handle import Handle
from ..webhook.message import WebhookEvent, delivery, prefix
from ..webhook.record import (
    EVENTS,
    EXTRAS,
    MOST,
    STANDINGS,
    TASK,
    TEST,
    WEBHOOKS,
    Extra,
    Kind,
    Redacted,
    SigningSecret,
    SigningSecrets,
    Standing,
    StoredWebhook,
    Webhook,
    abridged,
    checked_name,
    chosen,
    facts,
    names,
    noted,
    secret_of,
)
from .audit_log import annotate, audited
from .ground import Ground
from .job_page import Page
from .jobs import Jobs

# How long the secret before still signs, beside the new one.
OVERLAP = timedelta(days=1)


class WebhookOptions(TypedDict, total=False):
    """What may be said of a webhook beside where it is and what it is told of."""

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
    def __init__(
        self,
        ground: Ground,
        jobs: Jobs,
        hand_over: Callable[[Sequence[NewJob]], Awaitable[List[Handle[Any]]]],
        handle: Callable[[Enqueued, str], Handle[Any]],
    ) -> None:
        self._ground = ground
        self._jobs = jobs
        self._hand_over = hand_over
        self._handle = handle

    # reading

    async def get(self, name: str) -> Webhook:
        return (await self._kept(name)).shown

    async def list(self) -> Sequence[Webhook]:
        """All of them, by name."""
        return [kept.shown for kept in await WEBHOOKS.find(await self._ground.opened(), None, self._now())]

    async def standing(self, name: str) -> Standing:
        """How its deliveries have gone."""
        found = await STANDINGS.find(await self._ground.opened(), [(await self.get(name)).name], self._now())
        return found[0] if found else Standing(name=name)

    async def standings(self) -> Mapping[str, Standing]:
        """Of all that were ever told something, by name."""
        return {one.name: one for one in await STANDINGS.find(await self._ground.opened(), None, self._now())}

    async def deliveries(self, name: str, *, limit: int = 100, after: str | None = None) -> Page:
        """The jobs that tell it, or have told it, newest first."""
        which = Filter(key_prefix=prefix((await self.get(name)).name), tasks=(TASK,))
        return await self._jobs.list(which, limit=limit, after=after)

    # making and changing

    async def create(
        self,
        name: str,
        url: str,
        events: Sequence[Kind],
        *,
        secret: str | None = None,
        **options: Unpack[WebhookOptions],
    ) -> NewSecret:
        """From now on it is told of these events; workers know within a beat. The secret is shown this once."""
        given = {**options, "events": events}
        return await self._create(name, abridged(str(url)), given, Redacted((url, secret_of(secret))))

    @audited("webhooks.create")
    async def _create(self, name: str, url: str, options: Mapping[str, Any], hidden: Redacted) -> NewSecret:
        (whole, secret), store, now = hidden.value, await self._ground.opened(), self._now()
        values = _checked({**options, "url": whole}, self._ground.settings)
        hook = Webhook(name=checked_name(name, "webhook"), **values, created_at=now)
        if len(await WEBHOOKS.find(store, None, now)) >= MOST:
            raise BadInput(f"there are {MOST} webhooks already; delete one")
        kept = await WEBHOOKS.add(store, StoredWebhook(hook, SigningSecrets((SigningSecret(secret),))), now)
        annotate(before=None, after=facts(kept.shown))
        return NewSecret(kept.shown, secret)

    async def update(
        self,
        name: str,
        *,
        disabled: bool | None = None,
        expected: int | None = None,
        **options: Unpack[WebhookChanges],
    ) -> Webhook:
        """Says some of it anew. With `expected`, the revision that was read, only if nobody has changed it since."""
        if not options and disabled is None:
            raise BadInput(f"update of webhook {name!r} was given nothing to change")
        given: dict[str, Any] = {**options}
        hidden = {"url": given.pop("url")} if "url" in given else {}
        return await self._update(name, given, Redacted(hidden), disabled=disabled, expected=expected)

    @audited("webhooks.update")
    async def _update(
        self, name: str, options: Mapping[str, Any], hidden: Redacted, *, disabled: bool | None, expected: int | None
    ) -> Webhook:
        values, now = _checked({**options, **hidden.value}, self._ground.settings), self._now()

        def act(kept: StoredWebhook) -> StoredWebhook:
            hook = replace(kept.webhook, **values)
            if disabled is False:
                hook = replace(hook, disabled_at=None, disabled_reason="")
            elif disabled and hook.disabled_at is None:
                hook = replace(hook, disabled_at=now, disabled_reason="by an operator")
            return replace(kept, webhook=hook)

        return (await self._change(name, act, expected)).shown

    async def rotate(self, name: str, *, overlap: Span = OVERLAP, secret: str | None = None) -> NewSecret:
        """A new secret, shown this once; the one before it signs, too, for as long as `overlap`."""
        return await self._rotate(name, seconds(overlap, "overlap"), Redacted(secret_of(secret)))

    @audited("webhooks.rotate")
    async def _rotate(self, name: str, overlap: float, secret: Redacted) -> NewSecret:
        until = self._now() + timedelta(seconds=overlap)
        kept = await self._change(name, lambda kept: replace(kept, keys=kept.keys.rotated(secret.value, until)))
        return NewSecret(kept.shown, secret.value)

    @audited("webhooks.delete")
    async def delete(self, name: str) -> None:
        """Deliveries that have not been made are cancelled when their turn comes."""
        store = await self._ground.opened()
        kept = await WEBHOOKS.get_readable(store, checked_name(name, "webhook"), self._now())
        await WEBHOOKS.drop(store, name, self._now())
        await store.drop_documents("webhook.standing", [name])
        annotate(before=None if kept is None else facts(kept.shown), after=None)

    @audited("webhooks.test")
    async def test(self, name: str) -> Handle[Any]:
        """Has a worker tell it of nothing in particular, once; the job's end says how that went."""
        hook, now = await self.get(name), self._now()
        event = WebhookEvent(
            kind=TEST, at=now, about=new_id(now), facts={"webhook": name, "note": "a test; nothing has happened"}
        )
        (handle,) = await self._hand_over([delivery(hook, event, now, max_retries=0)])
        return handle

    # inside

    def _now(self) -> datetime:
        return self._ground.clock.now()

    async def _kept(self, name: str) -> StoredWebhook:
        return await WEBHOOKS.get(await self._ground.opened(), checked_name(name, "webhook"), self._now())

    async def _change(
        self, name: str, act: Callable[[StoredWebhook], StoredWebhook], expected: int | None = None
    ) -> StoredWebhook:
        store, before = await self._ground.opened(), List[StoredWebhook]()

        def seen(kept: StoredWebhook) -> StoredWebhook:
            before[:] = [kept]
            return act(kept)

        name = checked_name(name, "webhook")
        kept = await WEBHOOKS.change(store, name, self._now(), seen, expected=expected)
        annotate(before=facts(before[0].shown), after=facts(kept.shown))
        return kept


def _checked(given: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """As a Webhook has it; refuses each bad one by name."""
    from ..webhook.address import Allowance, checked_url

    checks: Mapping[str, Callable[[Any], Any]] = {
        "events": lambda value: chosen("events", value, EVENTS, least=1),
        "include": lambda value: chosen("include", value, EXTRAS),
        "queues": lambda value: names("queues", value),
        "tasks": lambda value: names("tasks", value),
        "tags": lambda value: names("tags", value),
        "note": noted,
    }
    values = {}
    for name, value in given.items():
        if name == "url":
            checked_url(value, Allowance(settings.webhook_allow))
            values[name] = value
        elif name not in checks:
            raise unexpected_keyword("webhooks", name, ["url", *checks])
        else:
            values[name] = checks[name](value)
    return values
