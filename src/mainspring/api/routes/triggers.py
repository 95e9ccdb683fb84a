"""/triggers: inbound webhooks, which create jobs from signed messages; and /hooks, which receives the messages."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from litestar import Request, Response, delete, get, patch, post
from litestar.params import FromPath, HeaderParameter, JSONBody
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace

from ...errors import NotSigned
from ...webhook.inbound import UNSIGNED, Call, InboundTrigger
from ...webhook.signature import ID, SIGNATURE, TIMESTAMP
from ..access.authenticate import App, allow
from ..access.redaction import mask_note, redact_mapping
from ..masked_values import restore_in_thread, restore_masked
from ..views import build_views
from .field_types import Slug
from .schedules import TriggeredJob
from .webhooks import IfMatch, SecretRotation, revision

# Counted while the message arrives.
MAX_MESSAGE_BYTES = 1 << 20


class TriggerEdit(Struct, kw_only=True, forbid_unknown_fields=True):
    """New values for a trigger. Absent fields stay unchanged."""

    task: str | UnsetType | None = UNSET
    """The task of the job that it creates. A trigger has either a task or a schedule."""
    schedule: str | UnsetType | None = UNSET
    """The schedule that it fires."""
    signal: str | UnsetType | None = UNSET
    """The signal that it gives to a flow, or to another job."""
    job: str | UnsetType | None = UNSET
    """With `signal`: where the message has the id of that job, such as body.data.flow."""
    queue: str | UnsetType | None = UNSET
    priority: int | UnsetType | None = UNSET
    kwargs: dict[str, Any] | UnsetType = UNSET
    """Fixed arguments of every job."""
    arguments: Literal["body"] | dict[str, str] | UnsetType = UNSET
    """Arguments from the message: "body" for all of its members, or a path for each argument, such as
    {"order": "body.data.id"}."""
    note: str | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET

    def given(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not UNSET}


class NewTrigger(Struct, kw_only=True, forbid_unknown_fields=True):
    name: Slug
    task: str | None = None
    schedule: str | None = None
    signal: str | None = None
    job: str | None = None
    queue: str | None = None
    priority: int | None = None
    kwargs: dict[str, Any] = {}
    arguments: Literal["body"] | dict[str, str] = {}
    note: str = ""
    secret: str | None = None
    """Your own secret; null to generate one."""


class TriggerView(InboundTrigger, frozen=True, kw_only=True, omit_defaults=False):
    """A trigger. A signed message to /hooks/{name} fires it."""


class CreatedTrigger(Struct, frozen=True):
    """A trigger and its secret, which is shown only here."""

    trigger: TriggerView
    secret: str


@get("/triggers", **allow("viewer"))
async def list_triggers(app: App) -> list[TriggerView]:
    """All triggers, by name, without their secrets."""
    return await build_views(app, await app.triggers.list(), _view)


@post("/triggers", **allow("admin", unkept=True))
async def create_trigger(app: App, data: JSONBody[NewTrigger]) -> CreatedTrigger:
    """Creates a trigger, which signed messages fire. Its secret is returned only now."""
    given: dict[str, Any] = asdict(data) | {"kwargs": restore_masked(data.kwargs)}
    created = await app.triggers.create(**given)
    return CreatedTrigger(_view(created.trigger), created.secret)


@get("/triggers/{name:str}", **allow("viewer"))
async def get_trigger(app: App, name: FromPath[str]) -> Response[TriggerView]:
    """One trigger, without its secret."""
    return _with_etag(await app.triggers.get(name))


@patch("/triggers/{name:str}", **allow("admin"))
async def update_trigger(
    app: App, name: FromPath[str], data: JSONBody[TriggerEdit], if_match: IfMatch = None
) -> Response[TriggerView]:
    """Edits a trigger. With If-Match, only if it was not changed since it was read."""
    given = data.given()
    if "kwargs" in given:
        kwargs, stored = given["kwargs"], (await app.triggers.get(name)).kwargs
        given["kwargs"] = await restore_in_thread(app, lambda: restore_masked(kwargs, stored))
    return _with_etag(await app.triggers.update(name, expected=revision(if_match), **given))


@delete("/triggers/{name:str}", status_code=204, **allow("admin"))
async def delete_trigger(app: App, name: FromPath[str]) -> None:
    """Deletes a trigger. The jobs that it created stay."""
    await app.triggers.delete(name)


@post("/triggers/{name:str}/rotate", status_code=200, **allow("admin", unkept=True))
async def rotate_trigger(app: App, name: FromPath[str], data: JSONBody[SecretRotation | None] = None) -> CreatedTrigger:
    """Replaces the secret. The new one is returned only now; the old one stays valid for the overlap."""
    rotation = data or SecretRotation()
    rotated = await app.triggers.rotate(name, overlap=rotation.overlap, secret=rotation.secret)
    return CreatedTrigger(_view(rotated.trigger), rotated.secret)


@post("/hooks/{name:str}", status_code=202, request_max_body_size=MAX_MESSAGE_BYTES, **allow("anyone"))
async def receive_hook(
    request: Request[Any, Any, Any],
    app: App,
    name: FromPath[str],
    webhook_id: Annotated[str | None, HeaderParameter(name=ID)] = None,
    webhook_timestamp: Annotated[str | None, HeaderParameter(name=TIMESTAMP)] = None,
    webhook_signature: Annotated[str | None, HeaderParameter(name=SIGNATURE)] = None,
) -> TriggeredJob:
    """Receives a message, signed according to Standard Webhooks, and fires the trigger. A repeated message gets the
    response of the first one."""
    if not (webhook_id and webhook_timestamp and webhook_signature):  # the body is not read
        raise NotSigned(UNSIGNED)
    call = Call(id=webhook_id, timestamp=webhook_timestamp, signature=webhook_signature, body=await request.body())
    return TriggeredJob((await app.triggers.receive(name, call)).id)


def _view(trigger: InboundTrigger) -> TriggerView:
    redacted = replace(trigger, kwargs=redact_mapping(trigger.kwargs), note=mask_note(trigger.note) or "")
    return TriggerView(**asdict(redacted))


def _with_etag(trigger: InboundTrigger) -> Response[TriggerView]:
    return Response(_view(trigger), headers={"ETag": f'"{trigger.revision}"'})


ROUTES = [list_triggers, create_trigger, get_trigger, update_trigger, delete_trigger, rotate_trigger]
ROOT_ROUTES = [receive_hook]
