"""Delivery: the built-in task that sends one event to one webhook."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
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
from ..task.options import CheckedOptions
from .document_repository import HookUnreadable
from .record import QUEUE, STANDINGS, WEBHOOKS, Standing, StoredWebhook

if TYPE_CHECKING:
    from .sender import Sender, WebhookResponse

_logger = logging.getLogger("mainspring")
# Nine attempts in about a day: retries after 10 s, 40 s, 3, 11 and 43 min, 3, 11 and 12 h, each up to a quarter sooner.
OPTIONS = CheckedOptions(
    queue=QUEUE, max_retries=8, backoff=Backoff(initial=10.0, multiplier=4.0, max=12 * 3600.0), timeout=60.0
)
# Longest Retry-After of a receiver that is respected.
MAX_RETRY_AFTER_SECONDS = 86_400.0
# Concurrent deliveries to one webhook in a worker, so that a slow receiver does not take every slot.
MAX_CONCURRENT_DELIVERIES = 20
# A success is recorded at most this often.
NOTE_EVERY = timedelta(minutes=1)
# Length of a receiver's answer in an error.
MAX_ANSWER_CHARACTERS = 200


class Undelivered(Exception):
    """The receiver was not reached, or did not answer 2xx."""


class Delivery:
    """Sends deliveries, and records how they went."""

    def __init__(self, clock: Clock, settings: Settings, connect: Callable[[], Awaitable[Store]]) -> None:
        self._clock = clock
        self._settings = settings
        self._connect = connect
        self._sender: Sender | None = None
        self._under_way: Counter[str] = Counter()

    async def deliver(
        self, ctx: Context, webhook: str, type: str, timestamp: str, data: dict[str, Any]
    ) -> dict[str, Any]:
        """Sends the event. Succeeds if the receiver answers 2xx; else it is retried with the same webhook-id."""
        if ctx.job.schedule is not None:  # from a release that accepted schedules of any task
            raise Discard(f"schedule {ctx.job.schedule!r} made it, but deliveries are made by events only")
        store, now = await self._connect(), self._clock.now()
        try:
            stored = await WEBHOOKS.get(store, webhook, now)
        except HookUnreadable as unreadable:
            raise Undelivered(str(unreadable)) from None
        except HookNotFound:
            raise Cancel(f"webhook {webhook!r} is gone") from None
        if stored.webhook.disabled_at is not None:
            raise Cancel(f"webhook {webhook!r} is disabled: {stored.webhook.disabled_reason}")
        body = encode({"type": type, "timestamp": timestamp, "data": data})
        with self._slot(webhook, ctx.job):
            answer = await self._post(store, stored, ctx.job.id, body)
        return await self._check_response(store, stored, answer)

    @contextmanager
    def _slot(self, webhook: str, job: Job) -> Iterator[None]:
        """Limits concurrent deliveries. Raises Snooze if there are too many."""
        if self._under_way[webhook] >= MAX_CONCURRENT_DELIVERIES:
            # A delivery that has waited long snoozes longer: a crowd must not be busy with retrying.
            waited = (self._clock.now() - job.created_at).total_seconds()
            raise Snooze(
                min(max(1.0, waited / 2), 300.0), f"{MAX_CONCURRENT_DELIVERIES} deliveries to {webhook!r} are under way"
            )
        self._under_way[webhook] += 1
        try:
            yield
        finally:
            self._under_way[webhook] -= 1

    async def _post(self, store: Store, stored: StoredWebhook, id: str, body: bytes) -> WebhookResponse:
        from .sender import SendFailed
        from .signature import signature_headers

        now = self._clock.now()
        signed = signature_headers(stored.keys.valid(now), id, now, body)
        try:
            with self._clock.outside():
                return await self._get_sender().post(stored.webhook.url, signed, body)
        except SendFailed as unsent:
            raise await self._failed(store, stored, Undelivered, str(unsent)) from None

    def _get_sender(self) -> Sender:
        from .address import AllowList
        from .sender import Sender

        self._sender = self._sender or Sender(AllowList(self._settings.webhook_allow))
        return self._sender

    async def _check_response(self, store: Store, stored: StoredWebhook, answer: WebhookResponse) -> dict[str, Any]:
        if 200 <= answer.status < 300:
            await self._note(store, stored.name, _after_success)
            return {"status": answer.status}
        text = _response_text(answer)
        if answer.status == 410:
            await self._disable(store, stored.name)
            raise await self._failed(store, stored, Discard, f"{text}; it is disabled now")
        delay = _retry_after(answer, self._clock.now())
        if delay is not None:
            raise await self._failed(store, stored, lambda reason: Retry(delay, reason), text)
        raise await self._failed(store, stored, Undelivered, text)

    async def _failed(
        self, store: Store, stored: StoredWebhook, error: Callable[[str], Exception], text: str
    ) -> Exception:
        """Records the failure, and returns the error to raise."""
        text = f"webhook {stored.name!r}: {text}"

        def after_failure(standing: Standing, now: datetime) -> Standing:
            return replace(standing, failures=standing.failures + 1, failed_at=now, error=text)

        await self._note(store, stored.name, after_failure)
        return error(text)

    async def _note(self, store: Store, name: str, act: Callable[[Standing, datetime], Standing]) -> None:
        """Records how the delivery went. An error of the store does not fail the delivery."""
        now = self._clock.now()
        try:
            found = await STANDINGS.find(store, [name], now)
            if found:
                await STANDINGS.change(store, name, now, lambda old: act(old, now))
            else:
                await STANDINGS.replace_unreadable(store, act(Standing(name=name), now), now)
        except MainspringError as error:
            _logger.debug("the result of a delivery to webhook %r was not recorded: %s", name, error)
            count_error("webhooks", error)

    async def _disable(self, store: Store, name: str) -> None:
        now, reason = self._clock.now(), "its receiver answered 410 Gone"

        def off(stored: StoredWebhook) -> StoredWebhook:
            if stored.webhook.disabled_at is not None:
                return stored
            return replace(stored, webhook=replace(stored.webhook, disabled_at=now, disabled_reason=reason))

        await WEBHOOKS.change(store, name, now, off)
        _logger.warning("webhook %r is disabled: %s", name, reason)


def _after_success(standing: Standing, now: datetime) -> Standing:
    recent = standing.delivered_at is not None and now - standing.delivered_at < NOTE_EVERY
    return standing if recent and not standing.failures else replace(standing, failures=0, delivered_at=now)


def _response_text(answer: WebhookResponse) -> str:
    text = mask_text(" ".join(answer.body_start.split()))[:MAX_ANSWER_CHARACTERS]
    return f"it answered {answer.status}{': ' * bool(text)}{text}"


def _retry_after(answer: WebhookResponse, now: datetime) -> float | None:
    """The seconds of the Retry-After header of a 429 or 503; None if there is none."""
    if answer.status not in (429, 503) or answer.retry_after is None:
        return None
    if answer.retry_after.isascii() and answer.retry_after.isdigit():
        wait = float(answer.retry_after[:9])
    else:
        from email.utils import parsedate_to_datetime

        try:
            at = parsedate_to_datetime(answer.retry_after)
        except (ValueError, OverflowError):
            return None
        wait = ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()
    return min(max(1.0, wait), MAX_RETRY_AFTER_SECONDS)
