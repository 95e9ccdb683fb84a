"""/webhooks: outbound webhooks and their deliveries."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from litestar import Response, delete, get, patch, post
from litestar.params import FromPath, FromQuery, HeaderParameter, JSONBody
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from ...app import Mainspring
from ...records.principal import Principal
from ...span import seconds
from ...webhook.record import Extra, Kind, Standing, Webhook, abridged_url
from ..access.authenticate import App, Caller, allow
from ..access.redaction import mask_note, redact_line
from ..masked_values import restore_text
from ..problem import Problem
from ..views import build_views
from .enqueue import EnqueueResult
from .field_types import Slug, SpanText
from .job_view import JobPage, job_item
from .jobs import Limit

MAX_OVERLAP_SECONDS = 366 * 86_400
IfMatch = Annotated[str | None, HeaderParameter(name="If-Match")]
Overlap = Annotated[float, Meta(ge=0, le=MAX_OVERLAP_SECONDS, description="Seconds.")] | SpanText
# For which a rotated secret stays valid.
DEFAULT_OVERLAP_SECONDS = 86_400.0


class WebhookEdit(Struct, kw_only=True, forbid_unknown_fields=True):
    """New values for a webhook. Absent fields stay unchanged."""

    url: str | UnsetType = UNSET
    events: Annotated[list[Kind], Meta(min_length=1)] | UnsetType = UNSET
    queues: list[str] | UnsetType | None = UNSET
    """Only jobs of these queues; null for all. This filter and the next two do not apply to events of schedules and
    workers."""
    tasks: list[str] | UnsetType | None = UNSET
    tags: list[str] | UnsetType | None = UNSET
    """Only jobs that have all of these tags."""
    include: list[Extra] | UnsetType = UNSET
    note: str | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET

    def given(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not UNSET}


class NewWebhook(Struct, kw_only=True, forbid_unknown_fields=True):
    name: Slug
    url: str
    events: Annotated[list[Kind], Meta(min_length=1)]
    queues: list[str] | None = None
    tasks: list[str] | None = None
    tags: list[str] | None = None
    include: list[Extra] = []
    note: str = ""
    secret: str | None = None
    """Your own secret; null to generate one."""


class WebhookView(Webhook, frozen=True, kw_only=True, omit_defaults=False):
    """A webhook and the state of its deliveries. Only admins see the path of its URL."""

    failures: int
    """Consecutive failed deliveries."""
    failed_at: datetime | None
    error: str
    delivered_at: datetime | None


class CreatedWebhook(Struct, frozen=True):
    """A webhook and its secret, which is shown only here."""

    webhook: WebhookView
    secret: str


class SecretRotation(Struct, forbid_unknown_fields=True):
    overlap: Overlap = DEFAULT_OVERLAP_SECONDS
    """How long the old secret stays valid: seconds, or a span such as 2d."""
    secret: str | None = None

    def __post_init__(self) -> None:
        if seconds(self.overlap, "overlap") > MAX_OVERLAP_SECONDS:
            raise ValueError(f"overlap is at most 366 days, got {self.overlap!r}")


@get("/webhooks", **allow("viewer"))
async def list_webhooks(app: App, caller: Caller) -> list[WebhookView]:
    """All webhooks, by name, without their secrets."""
    standings = await app.webhooks.standings()
    return [_view(hook, standings.get(hook.name), caller) for hook in await app.webhooks.list()]


@post("/webhooks", **allow("admin", unkept=True))
async def create_webhook(app: App, caller: Caller, data: JSONBody[NewWebhook]) -> CreatedWebhook:
    """Creates a webhook, which receives these events from now on. Its secret is returned only now."""
    created = await app.webhooks.create(**asdict(data))
    return CreatedWebhook(_view(created.webhook, None, caller), created.secret)


@get("/webhooks/{name:str}", **allow("viewer"))
async def get_webhook(app: App, caller: Caller, name: FromPath[str]) -> Response[WebhookView]:
    """One webhook, without its secret."""
    return await _with_etag(app, await app.webhooks.get(name), caller)


@patch("/webhooks/{name:str}", **allow("admin"))
async def update_webhook(
    app: App, caller: Caller, name: FromPath[str], data: JSONBody[WebhookEdit], if_match: IfMatch = None
) -> Response[WebhookView]:
    """Edits a webhook. With If-Match, only if it was not changed since it was read."""
    given = data.given()
    if "url" in given:
        given["url"] = restore_text(given["url"], (await app.webhooks.get(name)).url, "url")
    return await _with_etag(app, await app.webhooks.update(name, expected=revision(if_match), **given), caller)


@delete("/webhooks/{name:str}", status_code=204, **allow("admin"))
async def delete_webhook(app: App, name: FromPath[str]) -> None:
    """Deletes a webhook. Its pending deliveries are cancelled when they are due."""
    await app.webhooks.delete(name)


@post("/webhooks/{name:str}/rotate", status_code=200, **allow("admin", unkept=True))
async def rotate_webhook(
    app: App, caller: Caller, name: FromPath[str], data: JSONBody[SecretRotation | None] = None
) -> CreatedWebhook:
    """Replaces the secret. The new one is returned only now; messages carry signatures of both for the overlap."""
    rotation = data or SecretRotation()
    rotated = await app.webhooks.rotate(name, overlap=rotation.overlap, secret=rotation.secret)
    return CreatedWebhook(_view(rotated.webhook, await app.webhooks.standing(name), caller), rotated.secret)


@post("/webhooks/{name:str}/test", status_code=202, **allow("admin"))
async def test_webhook(app: App, name: FromPath[str]) -> EnqueueResult:
    """Enqueues a job that sends a test event to the webhook once. The job has the result."""
    handle = await app.webhooks.test(name)
    return EnqueueResult(handle.id, handle.status, handle.duplicate)


@get("/webhooks/{name:str}/deliveries", **allow("viewer"))
async def webhook_deliveries(
    app: App, name: FromPath[str], after: FromQuery[str | None] = None, limit: Limit = 50
) -> JobPage:
    """The jobs that deliver events to a webhook, newest first."""
    page, now = await app.webhooks.deliveries(name, limit=limit, after=after), app.clock.now()
    return JobPage(await build_views(app, page, lambda job: job_item(job, now)), page.next)


def revision(if_match: str | None) -> int | None:
    """The revision in an ETag. None without one, or for `*`. Raises Problem(412) if the ETag is malformed."""
    tag = (if_match or "*").removeprefix("W/").strip('"')
    if tag == "*":
        return None
    if not tag.isascii() or not tag.isdigit():
        raise Problem(412, "hook_changed", f"If-Match {tag[:80]!r} is not its ETag; read it again")
    return int(tag[:18])


async def _with_etag(app: Mainspring, hook: Webhook, caller: Principal) -> Response[WebhookView]:
    view = _view(hook, await app.webhooks.standing(hook.name), caller)
    return Response(view, headers={"ETag": f'"{hook.revision}"'})


def _view(hook: Webhook, standing: Standing | None, caller: Principal) -> WebhookView:
    state = standing or Standing(name=hook.name)
    fields: dict[str, Any] = asdict(hook) | {
        "url": mask_note(hook.url) if caller.role == "admin" else abridged_url(hook.url),
        "note": mask_note(hook.note),
    }
    return WebhookView(
        **fields,
        failures=state.failures,
        failed_at=state.failed_at,
        error=redact_line(state.error) if state.error else "",
        delivered_at=state.delivered_at,
    )


ROUTES = [
    list_webhooks,
    create_webhook,
    get_webhook,
    update_webhook,
    delete_webhook,
    rotate_webhook,
    test_webhook,
    webhook_deliveries,
]
