"""/webhooks: who is told of what, and how that goes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from litestar import Response, delete, get, patch, post
from litestar.params import FromPath, FromQuery, HeaderParameter, JSONBody
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from ...app import Mainspring
from ...span import seconds
from ...webhook.record import Extra, Kind, Standing, Webhook, abridged_url
from ..access.authenticate import Principal, Spring, Who, may
from ..access.redaction import shown_line, shown_text
from ..problem import Problem
from ..showing import shown_each
from ..unchanged import kept_text
from .enqueue import Accepted
from .job_view import JobPage, job_item
from .jobs import Limit
from .values import Slug, SpanText

MAX_OVERLAP_SECONDS = 366 * 86_400
IfMatch = Annotated[str | None, HeaderParameter(name="If-Match")]
Overlap = Annotated[float, Meta(ge=0, le=MAX_OVERLAP_SECONDS, description="Seconds.")] | SpanText
# Of the secret before.
DAY = 86_400.0


class WebhookEdit(Struct, kw_only=True, forbid_unknown_fields=True):
    """What is left out stays."""

    url: str | UnsetType = UNSET
    events: Annotated[list[Kind], Meta(min_length=1)] | UnsetType = UNSET
    queues: list[str] | UnsetType | None = UNSET
    """Of which jobs it is told; null: all. These filters are for jobs; schedules and workers pass them."""
    tasks: list[str] | UnsetType | None = UNSET
    tags: list[str] | UnsetType | None = UNSET
    """All of them must be on the job."""
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
    """One of your own; null: you are given one."""


class WebhookView(Webhook, frozen=True, kw_only=True, omit_defaults=False):
    """A webhook, and how its deliveries have gone. The path of its URL is for admins only."""

    failures: int
    """In a row, up to now."""
    failed_at: datetime | None
    error: str
    delivered_at: datetime | None


class MadeWebhook(Struct, frozen=True):
    """A webhook and, this once, its secret."""

    webhook: WebhookView
    secret: str


class Rotation(Struct, forbid_unknown_fields=True):
    overlap: Overlap = DAY
    """How long the secret before still counts, beside the new one: seconds, or a span such as 2d."""
    secret: str | None = None

    def __post_init__(self) -> None:
        if seconds(self.overlap, "overlap") > MAX_OVERLAP_SECONDS:
            raise ValueError(f"overlap is at most 366 days, got {self.overlap!r}")


@get("/webhooks", **may("viewer"))
async def list_webhooks(spring: Spring, who: Who) -> list[WebhookView]:
    """All of them, by name; never their secrets."""
    standings = await spring.webhooks.standings()
    return [_view(hook, standings.get(hook.name), who) for hook in await spring.webhooks.list()]


@post("/webhooks", **may("admin", unkept=True))
async def create_webhook(spring: Spring, who: Who, data: JSONBody[NewWebhook]) -> MadeWebhook:
    """From now on it is told of these events. Its secret is told now and never again."""
    made = await spring.webhooks.create(**asdict(data))
    return MadeWebhook(_view(made.webhook, None, who), made.secret)


@get("/webhooks/{name:str}", **may("viewer"))
async def get_webhook(spring: Spring, who: Who, name: FromPath[str]) -> Response[WebhookView]:
    return await _tagged(spring, await spring.webhooks.get(name), who)


@patch("/webhooks/{name:str}", **may("admin"))
async def update_webhook(
    spring: Spring, who: Who, name: FromPath[str], data: JSONBody[WebhookEdit], if_match: IfMatch = None
) -> Response[WebhookView]:
    """Says some of it anew; with If-Match only if nobody has changed it since it was read."""
    given = data.given()
    if "url" in given:
        given["url"] = kept_text(given["url"], (await spring.webhooks.get(name)).url, "url")
    return await _tagged(spring, await spring.webhooks.update(name, expected=revision(if_match), **given), who)


@delete("/webhooks/{name:str}", status_code=204, **may("admin"))
async def delete_webhook(spring: Spring, name: FromPath[str]) -> None:
    """Deliveries that have not been made are cancelled when their turn comes."""
    await spring.webhooks.delete(name)


@post("/webhooks/{name:str}/rotate", status_code=200, **may("admin", unkept=True))
async def rotate_webhook(
    spring: Spring, who: Who, name: FromPath[str], data: JSONBody[Rotation | None] = None
) -> MadeWebhook:
    """A new secret, told now and never again; the one before it signs, too, for a while."""
    asked = data or Rotation()
    made = await spring.webhooks.rotate(name, overlap=asked.overlap, secret=asked.secret)
    return MadeWebhook(_view(made.webhook, await spring.webhooks.standing(name), who), made.secret)


@post("/webhooks/{name:str}/test", status_code=202, **may("admin"))
async def test_webhook(spring: Spring, name: FromPath[str]) -> Accepted:
    """Has a worker tell it of nothing in particular, once; the job's end says how that went."""
    handle = await spring.webhooks.test(name)
    return Accepted(handle.id, handle.status, handle.duplicate)


@get("/webhooks/{name:str}/deliveries", **may("viewer"))
async def webhook_deliveries(
    spring: Spring, name: FromPath[str], after: FromQuery[str | None] = None, limit: Limit = 50
) -> JobPage:
    """The jobs that tell it, or have told it, newest first."""
    page, now = await spring.webhooks.deliveries(name, limit=limit, after=after), spring.clock.now()
    return JobPage(await shown_each(spring, page, lambda job: job_item(job, now)), page.next)


def revision(if_match: str | None) -> int | None:
    """The one that an ETag of ours names; None: any."""
    said = (if_match or "*").removeprefix("W/").strip('"')
    if said == "*":
        return None
    if not said.isascii() or not said.isdigit():
        raise Problem(412, "hook_changed", f"If-Match {said[:80]!r} is no ETag of this; read it again")
    return int(said[:18])


async def _tagged(spring: Mainspring, hook: Webhook, who: Principal) -> Response[WebhookView]:
    view = _view(hook, await spring.webhooks.standing(hook.name), who)
    return Response(view, headers={"ETag": f'"{hook.revision}"'})


def _view(hook: Webhook, standing: Standing | None, who: Principal) -> WebhookView:
    went = standing or Standing(name=hook.name)
    known: dict[str, Any] = asdict(hook) | {
        "url": shown_text(hook.url) if who.role == "admin" else abridged_url(hook.url), "note": shown_text(hook.note),
    }  # fmt: skip
    return WebhookView(
        **known, failures=went.failures, failed_at=went.failed_at, error=shown_line(went.error) if went.error else "",
        delivered_at=went.delivered_at,
    )  # fmt: skip


ROUTES = [
    list_webhooks, create_webhook, get_webhook, update_webhook, delete_webhook, rotate_webhook, test_webhook,
    webhook_deliveries,
]  # fmt: skip
