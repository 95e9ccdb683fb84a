"""Delivery: the task that workers know by themselves, which tells one webhook of one event."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ..clock import Clock
from ..codec import encode
from ..config import Settings
from ..errors import HookNotFound, MainspringError
from ..mask import mask_text
from ..records.job import Job
from ..records.outcome import Cancel, Discard, Retry, Snooze
from ..retry import Backoff
from ..store import Store
from ..survived_errors import count_error
from ..task.context import Context
from ..task.options import TaskOptions
from .document_repository import HookUnreadable
from .record import QUEUE, STANDINGS, WEBHOOKS, Standing, StoredWebhook

if TYPE_CHECKING:
    from .sender import Sender, WebhookResponse

_logger = logging.getLogger("mainspring")
# Nine tries: after 10 s, 40 s, 3, 11 and 43 minutes, 3, 11 and 12 hours, each up to a quarter sooner. About a day.
OPTIONS = TaskOptions(
    queue=QUEUE, max_retries=8, backoff=Backoff(initial=10.0, multiplier=4.0, max=12 * 3600.0), timeout=60.0
)  # fmt: skip
# A receiver that asks for more patience than this has no say in it.
LONGEST_WAIT = 86_400.0
# Deliveries to one webhook at a time in a worker, so that a slow receiver does not take every slot.
AT_ONCE = 20
# How long ago it may have been noted that all is well before it is noted again.
FRESH = timedelta(minutes=1)
WORDS = 200


class Undelivered(Exception):
    """The receiver was not reached, or did not say yes."""


class Delivery:
    def __init__(self, clock: Clock, settings: Settings, opened: Callable[[], Awaitable[Store]]) -> None:
        self._clock = clock
        self._settings = settings
        self._opened = opened
        self._sender: Sender | None = None
        self._under_way: Counter[str] = Counter()

    async def deliver(
        self, ctx: Context, webhook: str, type: str, timestamp: str, data: dict[str, Any]
    ) -> dict[str, Any]:
        """Done if the receiver says 2xx; told again later otherwise, under the same webhook-id."""
        if ctx.job.schedule is not None:  # made while schedules of any task were accepted
            raise Discard(f"schedule {ctx.job.schedule!r} made it, and a webhook is told only what has happened")
        store, now = await self._opened(), self._clock.now()
        try:
            kept = await WEBHOOKS.get(store, webhook, now)
        except HookUnreadable as unreadable:
            raise Undelivered(str(unreadable)) from None
        except HookNotFound:
            raise Cancel(f"webhook {webhook!r} is gone") from None
        if kept.webhook.disabled_at is not None:
            raise Cancel(f"webhook {webhook!r} is disabled: {kept.webhook.disabled_reason}")
        body = encode({"type": type, "timestamp": timestamp, "data": data})
        with self._place(webhook, ctx.job):
            answer = await self._post(store, kept, ctx.job.id, body)
        return await self._judged(store, kept, answer)

    @contextmanager
    def _place(self, webhook: str, job: Job) -> Iterator[None]:
        if self._under_way[webhook] >= AT_ONCE:
            # The longer it has waited, the longer it waits: a crowd must not be busy with asking.
            waited = (self._clock.now() - job.created_at).total_seconds()
            raise Snooze(min(max(1.0, waited / 2), 300.0), f"{AT_ONCE} deliveries to {webhook!r} are under way")
        self._under_way[webhook] += 1
        try:
            yield
        finally:
            self._under_way[webhook] -= 1

    async def _post(self, store: Store, kept: StoredWebhook, id: str, body: bytes) -> WebhookResponse:
        from .sender import Unsent
        from .signature import headers

        now = self._clock.now()
        signed = headers(kept.keys.valid(now), id, now, body)
        try:
            with self._clock.outside():
                return await self._at_hand().post(kept.webhook.url, signed, body)
        except Unsent as unsent:
            raise await self._failed(store, kept, Undelivered, str(unsent)) from None

    def _at_hand(self) -> Sender:
        from .address import Allowance
        from .sender import Sender

        self._sender = self._sender or Sender(Allowance(self._settings.webhook_allow))
        return self._sender

    async def _judged(self, store: Store, kept: StoredWebhook, answer: WebhookResponse) -> dict[str, Any]:
        if 200 <= answer.status < 300:
            await self._note(store, kept.name, _well)
            return {"status": answer.status}
        said = _said(answer)
        if answer.status == 410:
            await self._disable(store, kept.name)
            raise await self._failed(store, kept, Discard, f"{said}; it is disabled now")
        again = _again(answer, self._clock.now())
        if again is not None:
            raise await self._failed(store, kept, lambda text: Retry(again, text), said)
        raise await self._failed(store, kept, Undelivered, said)

    async def _failed(
        self, store: Store, kept: StoredWebhook, error: Callable[[str], Exception], text: str
    ) -> Exception:  # fmt: skip
        """The error to raise, once it is noted."""
        text = f"webhook {kept.name!r}: {text}"

        def wrong(standing: Standing, now: datetime) -> Standing:
            return replace(standing, failures=standing.failures + 1, failed_at=now, error=text)

        await self._note(store, kept.name, wrong)
        return error(text)

    async def _note(self, store: Store, name: str, act: Callable[[Standing, datetime], Standing]) -> None:
        """How it went, if the store has a moment: a delivery does not fail for it."""
        now = self._clock.now()
        try:
            found = await STANDINGS.find(store, [name], now)
            if found:
                await STANDINGS.change(store, name, now, lambda old: act(old, now))
            else:
                await STANDINGS.replace_unreadable(store, act(Standing(name=name), now), now)
        except MainspringError as error:
            _logger.debug("what became of a delivery to webhook %r was not noted: %s", name, error)
            count_error("webhooks", error)

    async def _disable(self, store: Store, name: str) -> None:
        now, reason = self._clock.now(), "its receiver answered 410 Gone"

        def off(kept: StoredWebhook) -> StoredWebhook:
            if kept.webhook.disabled_at is not None:
                return kept
            return replace(kept, webhook=replace(kept.webhook, disabled_at=now, disabled_reason=reason))

        await WEBHOOKS.change(store, name, now, off)
        _logger.warning("webhook %r is disabled: %s", name, reason)


def _well(standing: Standing, now: datetime) -> Standing:
    lately = standing.delivered_at is not None and now - standing.delivered_at < FRESH
    return standing if lately and not standing.failures else replace(standing, failures=0, delivered_at=now)


def _said(answer: WebhookResponse) -> str:
    words = mask_text(" ".join(answer.words.split()))[:WORDS]
    return f"it answered {answer.status}{': ' * bool(words)}{words}"


def _again(answer: WebhookResponse, now: datetime) -> float | None:
    """Seconds that the receiver asks to be left alone; None: it does not say."""
    if answer.status not in (429, 503) or answer.retry_after is None:
        return None
    if answer.retry_after.isascii() and answer.retry_after.isdigit():
        wait = float(answer.retry_after[:9])
    else:
        try:
            at = parsedate_to_datetime(answer.retry_after)
        except (ValueError, OverflowError):
            return None
        wait = ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()
    return min(max(1.0, wait), LONGEST_WAIT)
