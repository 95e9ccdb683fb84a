"""/triggers: what others may set off by a signed message; and /hooks, where such messages come in."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from litestar import Request, Response, delete, get, patch, post
from litestar.params import FromPath, HeaderParameter, JSONBody
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace

from ...errors import NotSigned
from ...webhook.inbound import UNSIGNED, Call, InboundTrigger
from ...webhook.signature import ID, SIGNATURE, TIMESTAMP
from ..access.authenticate import Spring, may
from ..access.redaction import shown_mapping, shown_text
from ..showing import shown_each
from ..unchanged import given_values, kept
from .schedules import Triggered
from .values import Slug
from .webhooks import IfMatch, Rotation, revision

# Bytes of a message. They are counted as they come.
LIMIT = 1 << 20


class TriggerEdit(Struct, kw_only=True, forbid_unknown_fields=True):
    """What is left out stays."""

    task: str | UnsetType | None = UNSET
    """Of which it makes a job; else the schedule that it fires."""
    schedule: str | UnsetType | None = UNSET
    queue: str | UnsetType | None = UNSET
    priority: int | UnsetType | None = UNSET
    kwargs: dict[str, Any] | UnsetType = UNSET
    """The same each time."""
    arguments: Literal["body"] | dict[str, str] | UnsetType = UNSET
    """"body": the members of the message are arguments. Else by argument what of it: {"order": "body.data.id"}."""
    note: str | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET

    def given(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not UNSET}


class NewTrigger(Struct, kw_only=True, forbid_unknown_fields=True):
    name: Slug
    task: str | None = None
    schedule: str | None = None
    queue: str | None = None
    priority: int | None = None
    kwargs: dict[str, Any] = {}
    arguments: Literal["body"] | dict[str, str] = {}
    note: str = ""
    secret: str | None = None
    """One of your own; null: you are given one."""


class TriggerView(InboundTrigger, frozen=True, kw_only=True, omit_defaults=False):
    """A trigger; a message to /hooks/{name} sets it off."""


class MadeTrigger(Struct, frozen=True):
    """A trigger and, this once, its secret."""

    trigger: TriggerView
    secret: str


@get("/triggers", **may("viewer"))
async def list_triggers(spring: Spring) -> list[TriggerView]:
    """All of them, by name; never their secrets."""
    return await shown_each(spring, await spring.triggers.list(), _view)


@post("/triggers", **may("admin", unkept=True))
async def create_trigger(spring: Spring, data: JSONBody[NewTrigger]) -> MadeTrigger:
    """From now on a signed message sets it off. Its secret is told now and never again."""
    given: dict[str, Any] = asdict(data) | {"kwargs": kept(data.kwargs)}
    made = await spring.triggers.create(**given)
    return MadeTrigger(_view(made.trigger), made.secret)


@get("/triggers/{name:str}", **may("viewer"))
async def get_trigger(spring: Spring, name: FromPath[str]) -> Response[TriggerView]:
    return _tagged(await spring.triggers.get(name))


@patch("/triggers/{name:str}", **may("admin"))
async def update_trigger(
    spring: Spring, name: FromPath[str], data: JSONBody[TriggerEdit], if_match: IfMatch = None
) -> Response[TriggerView]:
    """Says some of it anew; with If-Match only if nobody has changed it since it was read."""
    given = data.given()
    if "kwargs" in given:
        kwargs, stored = given["kwargs"], (await spring.triggers.get(name)).kwargs
        given["kwargs"] = await given_values(spring, lambda: kept(kwargs, stored))
    return _tagged(await spring.triggers.update(name, expected=revision(if_match), **given))


@delete("/triggers/{name:str}", status_code=204, **may("admin"))
async def delete_trigger(spring: Spring, name: FromPath[str]) -> None:
    """Jobs that it has made are left alone."""
    await spring.triggers.delete(name)


@post("/triggers/{name:str}/rotate", status_code=200, **may("admin", unkept=True))
async def rotate_trigger(spring: Spring, name: FromPath[str], data: JSONBody[Rotation | None] = None) -> MadeTrigger:
    """A new secret, told now and never again; messages signed with the one before it count for a while."""
    asked = data or Rotation()
    made = await spring.triggers.rotate(name, overlap=asked.overlap, secret=asked.secret)
    return MadeTrigger(_view(made.trigger), made.secret)


@post("/hooks/{name:str}", status_code=202, request_max_body_size=LIMIT, **may("anyone"))
async def receive_hook(
    request: Request[Any, Any, Any],
    spring: Spring,
    name: FromPath[str],
    webhook_id: Annotated[str | None, HeaderParameter(name=ID)] = None,
    webhook_timestamp: Annotated[str | None, HeaderParameter(name=TIMESTAMP)] = None,
    webhook_signature: Annotated[str | None, HeaderParameter(name=SIGNATURE)] = None,
) -> Triggered:
    """A message signed as Standard Webhooks says sets the trigger off; sent again, it is answered as the first time."""
    if not (webhook_id and webhook_timestamp and webhook_signature):  # and no more is read of it
        raise NotSigned(UNSIGNED)
    call = Call(
        id=webhook_id, timestamp=webhook_timestamp, signature=webhook_signature, body=await request.body()
    )  # fmt: skip
    return Triggered((await spring.triggers.receive(name, call)).id)


def _view(trigger: InboundTrigger) -> TriggerView:
    shown = replace(trigger, kwargs=shown_mapping(trigger.kwargs), note=shown_text(trigger.note) or "")
    return TriggerView(**asdict(shown))


def _tagged(trigger: InboundTrigger) -> Response[TriggerView]:
    return Response(_view(trigger), headers={"ETag": f'"{trigger.revision}"'})


ROUTES = [list_triggers, create_trigger, get_trigger, update_trigger, delete_trigger, rotate_trigger]
BESIDE = [receive_hook]
