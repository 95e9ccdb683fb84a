"""app.triggers: what others may set off by a signed message, and its being set off."""

from __future__ import annotations

from builtins import list as List
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict, Unpack

from msgspec import Struct
from msgspec.structs import replace

from ..actor import act_as
from ..errors import BadInput, UnknownTask
from ..records.job import Enqueued, NewJob
from ..span import Span, seconds
from ..store import Store
from ..suggest import did_you_mean, unexpected_keyword
from ..task.handle import Handle
from ..task.options import check_name, check_public, checked_options
from ..webhook.inbound import MOST, TRIGGERS, Call, InboundTrigger, StoredTrigger, checked_arguments, checked_kwargs
from ..webhook.record import Redacted, SigningSecret, SigningSecrets, checked_name, facts, noted, secret_of
from ..webhook.seen_message import job_made, seen_message
from .audit_log import annotate, audited
from .computation import Computation
from .ground import Ground
from .schedules import Schedules
from .webhooks import OVERLAP

# Bytes of a message that is decoded in the event loop.
MAX_AT_ONCE_BYTES = 64 << 10
# A name that no trigger can have.
_NOBODY = "-"


class TriggerOptions(TypedDict, total=False):
    """What may be said of a trigger, and said anew."""

    task: str | None
    schedule: str | None
    queue: str | None
    priority: int | None
    kwargs: Mapping[str, Any]
    arguments: Literal["body"] | Mapping[str, str]
    note: str


class NewTriggerSecret(Struct, frozen=True):
    """A trigger and its secret, which is not shown again."""

    trigger: InboundTrigger
    secret: str


class Triggers:
    def __init__(
        self,
        ground: Ground,
        schedules: Schedules,
        job: Callable[..., NewJob],
        hand_over: Callable[[Sequence[NewJob]], Awaitable[List[Handle[Any]]]],
        handle: Callable[[Enqueued, str], Handle[Any]],
    ) -> None:
        self._ground = ground
        self._schedules = schedules
        self._job = job
        self._hand_over = hand_over
        self._handle = handle

    # reading

    async def get(self, name: str) -> InboundTrigger:
        found = await TRIGGERS.get(await self._ground.opened(), checked_name(name, "trigger"), self._now())
        return found.shown

    async def list(self) -> Sequence[InboundTrigger]:
        """All of them, by name."""
        return [kept.shown for kept in await TRIGGERS.find(await self._ground.opened(), None, self._now())]

    # making and changing

    async def create(
        self, name: str, *, secret: str | None = None, **options: Unpack[TriggerOptions]
    ) -> NewTriggerSecret:  # fmt: skip
        """From now on a message signed with its secret makes a job of `task`, or fires `schedule`."""
        return await self._create(name, options, Redacted(secret_of(secret)))

    @audited("triggers.create")
    async def _create(self, name: str, options: TriggerOptions, secret: Redacted) -> NewTriggerSecret:
        store, now = await self._ground.opened(), self._now()
        made = self._said(InboundTrigger(name=checked_name(name, "trigger"), created_at=now), options)
        if len(await TRIGGERS.find(store, None, now)) >= MOST:
            raise BadInput(f"there are {MOST:,} triggers already; delete one")
        kept = await TRIGGERS.add(store, StoredTrigger(made, SigningSecrets((SigningSecret(secret.value),))), now)
        annotate(before=None, after=facts(kept.shown))
        return NewTriggerSecret(kept.shown, secret.value)

    @audited("triggers.update")
    async def update(
        self,
        name: str,
        *,
        disabled: bool | None = None,
        expected: int | None = None,
        **options: Unpack[TriggerOptions],
    ) -> InboundTrigger:
        """Says some of it anew. With `expected`, the revision that was read, only if nobody has changed it since."""
        if not options and disabled is None:
            raise BadInput(f"update of trigger {name!r} was given nothing to change")
        now = self._now()

        def act(kept: StoredTrigger) -> StoredTrigger:
            said = self._said(kept.trigger, options)
            if disabled is not None:
                said = replace(said, disabled_at=(said.disabled_at or now) if disabled else None)
            return replace(kept, trigger=said)

        return (await self._change(name, act, expected)).shown

    async def rotate(self, name: str, *, overlap: Span = OVERLAP, secret: str | None = None) -> NewTriggerSecret:
        """A new secret, shown this once; messages signed with the one before it count for as long as `overlap`."""
        return await self._rotate(name, seconds(overlap, "overlap"), Redacted(secret_of(secret)))

    @audited("triggers.rotate")
    async def _rotate(self, name: str, overlap: float, secret: Redacted) -> NewTriggerSecret:
        until = self._now() + timedelta(seconds=overlap)
        kept = await self._change(name, lambda kept: replace(kept, keys=kept.keys.rotated(secret.value, until)))
        return NewTriggerSecret(kept.shown, secret.value)

    @audited("triggers.delete")
    async def delete(self, name: str) -> None:
        """Jobs that it has made are left alone."""
        store = await self._ground.opened()
        kept = await TRIGGERS.get_readable(store, checked_name(name, "trigger"), self._now())
        await TRIGGERS.drop(store, name, self._now())
        annotate(before=None if kept is None else facts(kept.shown), after=None)

    # being called

    async def receive(self, name: str, call: Call) -> Handle[Any]:
        """What the message sets off, if it is signed and of now; the same message sets it off once.

        NotSigned: the signature does not hold, or there is no such trigger. BadInput: the message does not fit.
        """
        store, now = await self._ground.opened(), self._now()
        try:
            wanted = checked_name(name, "trigger")
        except BadInput:
            wanted = _NOBODY
        found = await TRIGGERS.find(store, [wanted], now)
        trigger = call.checked(found[0] if found else None, now).trigger
        made = await self._taken(trigger, call.body)
        with act_as(f"trigger:{trigger.name}"):
            if isinstance(made, NewJob):
                return await self._enqueued(store, trigger, made, call, now)
            return await self._fired(store, trigger, made, call, now)

    async def _taken(self, trigger: InboundTrigger, body: bytes) -> NewJob | dict[str, Any]:
        """The job of a message, or the arguments for a schedule's; of a large one in a thread."""
        if len(body) <= MAX_AT_ONCE_BYTES:
            return self._of_message(trigger, body)
        computation = Computation(self._ground.clock, "the check of this message")
        return await computation.run(lambda: self._of_message(trigger, body))

    def _of_message(self, trigger: InboundTrigger, body: bytes) -> NewJob | dict[str, Any]:
        values = trigger.values(body)
        if trigger.task is None:
            return values
        given = {key: value for key in ("queue", "priority") if (value := getattr(trigger, key)) is not None}
        return replace(self._job(trigger.task, values, **given), enqueued_by=f"trigger:{trigger.name}")

    async def _enqueued(
        self, store: Store, trigger: InboundTrigger, job: NewJob, call: Call, now: datetime
    ) -> Handle[Any]:
        seen, there = await seen_message(store, trigger.name, call.id, now)
        if there:
            return self._handle(Enqueued(seen.text, "duplicate"), job.task)
        # A task may have keys of its own, and a job has one.
        own = job.unique_key or job.idempotency_key
        key = {} if own else {"idempotency_key": f"trigger:{trigger.name}:{call.id}"}
        (handle,) = await self._hand_over([replace(job, id=seen.text, **key)])
        await job_made(store, seen, handle.id, now)
        return handle

    async def _fired(
        self, store: Store, trigger: InboundTrigger, values: dict[str, Any], call: Call, now: datetime
    ) -> Handle[Any]:
        schedule = trigger.schedule or ""
        task = (await self._schedules.get(schedule)).spec.task
        seen, there = await seen_message(store, trigger.name, call.id, now)
        if there:
            return self._handle(Enqueued(seen.text, "duplicate"), task)
        own_input = not trigger.arguments and not trigger.kwargs
        handle = await self._schedules.trigger(schedule, kwargs=None if own_input else values, id=seen.text)
        await job_made(store, seen, handle.id, now)
        return handle

    # inside

    def _now(self) -> datetime:
        return self._ground.clock.now()

    def _said(self, trigger: InboundTrigger, given: TriggerOptions) -> InboundTrigger:
        """With what was given; refuses what does not go together."""
        for name in given:
            if name not in TriggerOptions.__annotations__:
                raise unexpected_keyword("triggers", name, TriggerOptions.__annotations__)
        values: dict[str, Any] = dict(given)
        what = f"trigger {trigger.name!r}"
        values |= checked_options(
            {key: values[key] for key in ("queue", "priority") if values.get(key) is not None}, what
        )
        for key, check in (("arguments", checked_arguments), ("kwargs", checked_kwargs), ("note", noted)):
            if key in values:
                values[key] = check(values[key])
        said: InboundTrigger = replace(trigger, **values)
        if (said.task is None) == (said.schedule is None):
            raise BadInput(f"{what} makes a job of a task, or fires a schedule: give one of them")
        if said.schedule is not None and (said.queue is not None or said.priority is not None):
            raise BadInput(f"{what} fires a schedule, which has a queue and a priority of its own")
        tasks = self._ground.tasks
        if said.task is not None:
            check_public(check_name(said.task, "task name"), what)
        if said.task is not None and tasks and said.task not in tasks:
            raise UnknownTask(
                f"{what}: no task {said.task!r} is registered in this app; {did_you_mean(said.task, tasks)}"
            )
        return said

    async def _change(
        self, name: str, act: Callable[[StoredTrigger], StoredTrigger], expected: int | None = None
    ) -> StoredTrigger:
        store, before = await self._ground.opened(), List[StoredTrigger]()

        def seen(kept: StoredTrigger) -> StoredTrigger:
            before[:] = [kept]
            return act(kept)

        name = checked_name(name, "trigger")
        kept = await TRIGGERS.change(store, name, self._now(), seen, expected=expected)
        annotate(before=facts(before[0].shown), after=facts(kept.shown))
        return kept
